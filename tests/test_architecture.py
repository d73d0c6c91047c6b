"""What ``docs/architecture.md`` shows, and the shape of a model that it states."""

import re
from pathlib import Path

import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from layers import PARTS, diagram
from walk import PACKAGE, files_passed, walk

from botorch_pref import (
    EPPreferenceGP,
    LaplacePreferenceGP,
    PreferenceMarginalLogLikelihood,
    SkewPreferenceGP,
)
from botorch_pref.models import PreferenceGP

PAGE = (Path(__file__).parents[1] / "docs" / "architecture.md").read_text("utf-8")
MODELS = [EPPreferenceGP, LaplacePreferenceGP, SkewPreferenceGP]


def _section(title: str) -> str:
    return PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]


def test_the_layers_are_those_of_the_test() -> None:
    assert diagram() in PAGE


def test_every_folder_has_a_sentence() -> None:
    told = set(re.findall(r"^- `([\w/]+)/`", _section("Folders"), re.MULTILINE))
    parts = {part.name for part in PARTS}
    folders = {
        path.parent.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("__init__.py")
        if path.parent != PACKAGE
    }
    assert {name for name in told if "/" not in name} == parts & folders
    assert told <= folders, "folders of the page that are no longer there"
    below = {name for name in folders - told if name.count("/") == 1}
    assert not below, "folders without a sentence"


def test_the_walk_is_the_one_that_runs() -> None:
    """Every file that the page names is entered, in that order."""
    section = _section("The walk of one comparison")
    steps = re.findall(r"^\d+\. `(\w+)`(.*?)(?=^\d+\. |\Z)", section, re.M | re.S)
    told = {name: re.findall(r"`([\w/]+\.py)`", text) for name, text in steps}
    found = walk()
    assert list(told) == list(found)
    for name, paths in told.items():
        assert paths == [path for path in found[name] if path in paths], name
    # A file more or less is no other walk.
    stated = int(re.findall(r"passes about (\d+) files", section)[0])
    assert abs(sum(map(len, found.values())) - stated) <= 3


@pytest.mark.parametrize("model_class", MODELS, ids=lambda cls: cls.__name__)
def test_a_model_is_three_classes_of_ours(model_class: type[PreferenceGP]) -> None:
    ours = [c for c in model_class.__mro__ if c.__module__.startswith("botorch_pref.")]
    assert len(ours) <= 3, ours


@pytest.mark.parametrize("model_class", MODELS, ids=lambda cls: cls.__name__)
def test_a_posterior_after_a_fit_passes_three_files_of_models(
    model_class: type[PreferenceGP],
) -> None:
    X = torch.tensor([[0.1], [0.8], [0.4]], dtype=torch.double)
    model = model_class(X, torch.tensor([[0, 1], [0, 2]]))
    fit_gpytorch_mll(PreferenceMarginalLogLikelihood(model.likelihood, model))
    passed = files_passed(lambda: model.posterior(X))
    of_models = [path for path in passed if path.startswith("models/")]
    assert len(of_models) <= 3, of_models
