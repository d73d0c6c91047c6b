"""The code of the documentation runs."""

import re
from pathlib import Path
from typing import Any

import pytest
from ax.core.types import TParameterization
from botorch.optim import optimize

from botorch_pref import EPPreferenceGP
from botorch_pref.ax import registration

ROOT = Path(__file__).parents[2]


def blocks(text: str) -> str:
    return "\n".join(re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.M))


def prefers_bean_b(*options: TParameterization) -> int:
    assert len(options) == 4
    return max(range(4), key=lambda place: options[place]["bean"] == "b")


@pytest.fixture(autouse=True)
def _anywhere(tmp_path, monkeypatch) -> None:
    """Files go elsewhere; loops of a few iterations are loops that run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("botorch_pref.evaluation.progress.NUM_PATHS", 8)
    original, few = optimize.gen_candidates_scipy, {"options": {"maxiter": 2}}
    monkeypatch.setattr(
        optimize,
        "gen_candidates_scipy",
        lambda *args, **kwargs: original(*args, **kwargs | few),
    )
    fit = registration.fit_gpytorch_mll
    monkeypatch.setattr(
        registration,
        "fit_gpytorch_mll",
        lambda mll, **options: fit(mll, **{"optimizer_kwargs": few} | options),
    )


@pytest.mark.slow
def test_the_lines_of_the_readme(capsys) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    section = text.split("## An experiment in Ax")[1].split("\n## ")[0]
    code = blocks(section)
    exec(code.replace("range(12)", "range(6)"), {"ask_a_person": prefers_bean_b})
    assert "expected remaining gain" in capsys.readouterr().out


@pytest.mark.slow
def test_the_page(capsys) -> None:
    code = blocks((ROOT / "docs" / "ax.md").read_text(encoding="utf-8"))
    exec(code, {})
    printed = capsys.readouterr().out
    assert "'x':" in printed
    assert "log_loss" in printed
    assert Path("log.csv").read_text(encoding="utf-8").count("\n") == 20


@pytest.mark.slow
# Ax's client calls old names of its own.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore:Data .outcome observations. is not standardized")
@pytest.mark.filterwarnings("ignore:To copy construct from a tensor:UserWarning")
@pytest.mark.filterwarnings("ignore:Unknown solver options")
def test_preferences_over_outcomes_in_ax(capsys) -> None:
    """Ax's preference exploration fits our model, not its own."""
    text = (ROOT / "docs" / "tasks" / "outcomes.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    exec(blocks(text), names)
    fitted = names["adapter"].generator.surrogate._submodels["pairwise_pref_query",]
    assert type(fitted) is EPPreferenceGP
    assert fitted.comparisons.shape == (2, 2)
    means = fitted.posterior(fitted.datapoints).mean.squeeze(-1)
    assert bool(
        (means[fitted.comparisons[:, 0]] > means[fitted.comparisons[:, 1]]).all()
    )
    assert capsys.readouterr().out.count("'thickness'") == 2
