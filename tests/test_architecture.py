"""Pages of the architecture and of modules, and a model's shape."""

import re
from pathlib import Path

import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from layers import diagram, modules
from walk import files_passed, walk

from botorch_pref import (
    Comparisons,
    EPPreferenceGP,
    LaplacePreferenceGP,
    PreferenceMarginalLogLikelihood,
    SkewPreferenceGP,
)
from botorch_pref.models import PreferenceGP

DOCS = Path(__file__).parents[1] / "docs"
PAGE = (DOCS / "architecture.md").read_text("utf-8")
MODELS = [EPPreferenceGP, LaplacePreferenceGP, SkewPreferenceGP]


def _section(title: str) -> str:
    return PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]


def test_the_layers_are_those_of_the_test() -> None:
    assert diagram() in PAGE


def test_the_modules_are_those_of_the_package() -> None:
    page = (DOCS / "api" / "modules.md").read_text("utf-8")
    assert modules() in page, "print(layers.modules()) has the list of today"


def test_the_walk_is_the_one_that_runs() -> None:
    """Every file that the page names is entered, in that order."""
    section = _section("The walk of one comparison")
    steps = re.findall(r"^\d+\. `(\w+)`(.*?)(?=^\d+\. |\Z)", section, re.M | re.S)
    listed = {name: re.findall(r"`([\w/]+\.py)`", text) for name, text in steps}
    passed = walk()
    assert list(listed) == list(passed)
    for name, paths in listed.items():
        assert paths == [path for path in passed[name] if path in paths], (
            f"{name} enters other files, or in another order, than the page says"
        )
    stated = int(re.findall(r"passes (\d+) files", section)[0])
    assert sum(map(len, passed.values())) == stated


def test_a_tie_passes_the_files_that_lead_to_its_posterior() -> None:
    section = _section("How a tie becomes a posterior")
    stated = re.findall(r"^\d+\. `([\w/]+\.py)`", section, re.M)
    X = torch.tensor([[0.1], [0.8]], dtype=torch.double)

    def tie() -> None:
        answers = Comparisons(None, ties=torch.tensor([[0, 1]]))
        EPPreferenceGP(X, answers).eval().posterior(X)

    passed = files_passed(tie)
    assert set(stated) <= set(passed), f"the tie passes {passed}"
    assert len(stated) <= 8


@pytest.mark.parametrize("model_class", MODELS, ids=lambda cls: cls.__name__)
def test_a_model_is_three_classes_and_a_posterior_passes_three_files_of_models(
    model_class: type[PreferenceGP],
) -> None:
    ours = [c for c in model_class.__mro__ if c.__module__.startswith("botorch_pref.")]
    assert len(ours) <= 3, f"classes of ours: {ours}"
    X = torch.tensor([[0.1], [0.8], [0.4]], dtype=torch.double)
    model = model_class(X, torch.tensor([[0, 1], [0, 2]]))
    fit_gpytorch_mll(PreferenceMarginalLogLikelihood(model.likelihood, model))
    passed = files_passed(lambda: model.posterior(X))
    of_models = [path for path in passed if path.startswith("models/")]
    assert len(of_models) <= 3, f"a posterior passes {of_models}"
