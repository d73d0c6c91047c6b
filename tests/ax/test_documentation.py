"""The code of the documentation runs."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from ax.core.types import TParameterization
from botorch.optim import optimize

from botorch_pref import EPPreferenceGP
from botorch_pref.ax import hooks

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

ELSEWHERE = {
    *(
        "ax.md",
        "evaluation.md",
        "findings.md",
        "index.md",
        "extending.md",
        "plotting.md",
        "calls.md",
        "web.md",
    ),
    "tasks/outcomes.md",
}
"""Pages whose code runs in a test of its own, of what the code does."""

GIVEN = """
import torch
from botorch_pref import *
X = torch.rand(8, 2, generator=torch.Generator().manual_seed(0), dtype=torch.double)
bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double)
pairs, ties = torch.tensor([[0, 1], [2, 3], [4, 5]]), torch.tensor([[6, 7]])
comparisons = pairs
sets, chosen = torch.tensor([[0, 2, 4, 6]]), torch.tensor([0])
orders = torch.tensor([[1, 3, 5]])
tried, worked = torch.tensor([0, 7]), torch.tensor([True, False])
rated, levels = torch.tensor([0, 1]), torch.tensor([4, 2])
model, X_ref = EPPreferenceGP(X, pairs), X[:1]
shown_first = torch.tensor([1.0, -1.0, 1.0], dtype=torch.double)
"""
"""Data of the pages whose blocks are the lines that matter, and no whole programs."""

FRAGMENTS = {"acquisition.md", "feedback.md", "models.md"}

SMALLER = {
    "range(12)": "range(6)",
    "range(20)": "range(2)",
    "torch.logspace(-3, 2, 11)": "torch.logspace(-1, 0, 3)",
    "steps=128, num_samples=128, thinning=8": "steps=2, num_samples=2, thinning=1",
}


def blocks(text: str) -> list[str]:
    for long, short in SMALLER.items():
        text = text.replace(long, short)
    return re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.M)


PAGES = {
    page.relative_to(DOCS).as_posix(): found
    for page in sorted(DOCS.rglob("*.md"))
    if (found := blocks(page.read_text(encoding="utf-8")))
}


def test_no_page_makes_the_experiment_of_another() -> None:
    """A reader who tries page after page in one folder meets no other's experiment."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    pattern = r'\.create\(\s*"([^"]+)".*?storage="([^"]+)"'
    pairs = re.findall(r"serve (\S+) --name (\S+)", readme)
    assert len(pairs) == 1
    for page in (blocks(readme), *PAGES.values()):
        matches = re.findall(pattern, "\n".join(page), re.DOTALL)
        pairs += {(storage, name) for name, storage in matches}
    assert {("brew.db", "brew"), ("espresso.db", "shared")} < {*pairs}
    assert not [pair for pair in pairs if pairs.count(pair) > 1]


def prefers_bean_b(*options: TParameterization) -> int:
    assert len(options) == 4
    return max(range(4), key=lambda place: options[place]["bean"] == "b")


@pytest.fixture(autouse=True)
def _anywhere(tmp_path, monkeypatch, short_walks) -> None:
    """Files go elsewhere; loops of a few iterations are loops that run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("botorch_pref.evaluation.progress.NUM_PATHS", 8)
    short_fit = {"options": {"maxiter": 2}}
    search, start = optimize.gen_candidates_scipy, optimize.gen_batch_initial_conditions
    monkeypatch.setattr(
        optimize,
        "gen_candidates_scipy",
        lambda *args, **kwargs: search(*args, **kwargs | short_fit),
    )
    monkeypatch.setattr(
        optimize,
        "gen_batch_initial_conditions",
        lambda *args, **kwargs: start(*args, **kwargs | {"raw_samples": 32}),
    )
    fit = hooks.fit_gpytorch_mll
    monkeypatch.setattr(
        hooks,
        "fit_gpytorch_mll",
        lambda mll, **options: fit(mll, **{"optimizer_kwargs": short_fit} | options),
    )


@pytest.mark.slow
def test_the_lines_of_the_readme(capsys) -> None:
    loop, experiment = blocks((ROOT / "README.md").read_text(encoding="utf-8"))
    # Strong and with much pressure is what she likes.
    space: dict[str, Any] = {"ask_a_person": lambda X: (-X.sum(-1)).argsort().tolist()}
    exec(loop, space)
    assert space["orders"].shape == (6, 4)
    assert space["question"].acquisition == "DuelingJointKG"
    assert float(space["recommend"](space["model"], space["bounds"]).point.sum()) > 29
    capsys.readouterr()
    exec(experiment, {"ask_a_person": prefers_bean_b})
    assert "expected remaining gain" in capsys.readouterr().out


def test_the_landing_page_has_the_loop_of_the_readme() -> None:
    readme = blocks((ROOT / "README.md").read_text(encoding="utf-8"))
    assert PAGES["index.md"] == readme[:1]


@pytest.mark.slow
def test_the_page_of_experiments(capsys) -> None:
    exec("\n".join([*PAGES["ax.md"], *PAGES["findings.md"]]), {})
    printed = capsys.readouterr().out
    assert "'x':" in printed
    assert "log_loss" in printed
    log = json.loads(Path("log.json").read_text(encoding="utf-8"))
    assert len(log["events"]) == 18


@pytest.mark.slow
# Ax's client calls old names of its own.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore:Data .outcome observations. is not standardized")
@pytest.mark.filterwarnings("ignore:To copy construct from a tensor:UserWarning")
@pytest.mark.filterwarnings("ignore:Unknown solver options")
# BoTorch's, of outcomes at a candidate that is nearly a measured design.
@pytest.mark.filterwarnings("ignore:A not p.d., added jitter")
def test_preferences_over_outcomes_in_ax(capsys) -> None:
    """Ax's preference exploration fits our model, not its own."""
    text = (ROOT / "docs" / "tasks" / "outcomes.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    exec("\n".join(blocks(text)), names)
    fitted = names["adapter"].generator.surrogate._submodels["pairwise_pref_query",]
    assert type(fitted) is EPPreferenceGP
    assert fitted.comparisons.shape == (2, 2)
    means = fitted.posterior(fitted.datapoints).mean.squeeze(-1)
    assert bool(
        (means[fitted.comparisons[:, 0]] > means[fitted.comparisons[:, 1]]).all()
    )
    assert capsys.readouterr().out.count("'thickness'") == 2


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({*PAGES} - ELSEWHERE))
def test_the_blocks_of_every_other_page(name: str) -> None:
    keywords: dict[str, object] = {}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        if name in FRAGMENTS:
            exec(GIVEN, keywords)
        space = dict(keywords)
        for number, block in enumerate(PAGES[name], 1):
            # The names of one block stay for the next, except those of the data.
            exec(compile(block, f"{name}, block {number}", "exec"), space)
            space |= keywords
