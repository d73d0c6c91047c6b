"""The list of acquisition functions, and functions of a user's own in it."""

import inspect

import pytest
import torch
from botorch.acquisition import AcquisitionFunction
from botorch.acquisition.input_constructors import get_acqf_input_constructor
from botorch.models.model import Model, ModelList
from torch import Tensor

from botorch_pref import (
    ChanceConstrained,
    DistinctOptions,
    DuelingEUBO,
    FeasibilityWeighted,
    acquisition,
    incumbent,
)
from botorch_pref.acquisition import registration as registry
from botorch_pref.acquisition.base import DifferenceAcquisition
from botorch_pref.acquisition.registration import (
    register_acquisition,
    registered_acquisitions,
)


def mean_gain(name: str = "MeanGain") -> type[AcquisitionFunction]:
    """A user's own: the mean of the difference, and a bonus."""

    class MeanGain(DifferenceAcquisition):
        def __init__(self, model: Model, X_ref: Tensor, bonus: float = 0.25) -> None:
            super().__init__(model, X_ref)
            self.bonus = bonus

        def duel_value(self, means: Tensor, variance: Tensor) -> Tensor:
            return means.mean(0) + self.bonus

    MeanGain.__name__ = MeanGain.__qualname__ = name
    return MeanGain


@pytest.fixture(autouse=True)
def _forgotten_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_REGISTERED", dict(registry._REGISTERED))


def test_every_exported_function_of_duels_is_registered() -> None:
    exported = {getattr(acquisition, name) for name in acquisition.__all__}
    functions = {
        found
        for found in exported
        if inspect.isclass(found)
        and issubclass(found, AcquisitionFunction)
        and not inspect.isabstract(found)
    }
    found = registered_acquisitions()
    assert {entry.acquisition_class for entry in found} == functions - {
        ChanceConstrained,
        DistinctOptions,
        FeasibilityWeighted,
    }
    names = [entry.name for entry in found]
    assert names == sorted(set(names))


def test_a_function_of_ones_own_is_made_by_its_keywords(model: Model) -> None:
    MeanGain = mean_gain()
    assert register_acquisition("mean", reference=incumbent)(MeanGain) is MeanGain
    (entry,) = (e for e in registered_acquisitions() if e.name == "mean")
    assert entry.acquisition_class is MeanGain
    construct = get_acqf_input_constructor(MeanGain)
    made = MeanGain(**construct(model=ModelList(model), objective=None))
    assert made.model is model
    assert made.bonus == 0.25
    assert torch.equal(made.X_ref, incumbent(model))
    assert construct(model=model, bonus=0.5)["bonus"] == 0.5
    with pytest.raises(TypeError, match="malus"):
        construct(model=model, malus=1.0)


def test_a_class_that_is_made_again_takes_its_own_place() -> None:
    """As a notebook's cell that is run again."""
    first, again = mean_gain(), mean_gain()
    for acquisition_class in (first, again):
        register_acquisition("mean", reference=incumbent)(acquisition_class)
    found = [e for e in registered_acquisitions() if e.name == "mean"]
    assert [entry.acquisition_class for entry in found] == [again]


@pytest.mark.parametrize(
    ("name", "class_name"), [("eubo", "MeanGain"), ("mean", "DuelingEUBO")]
)
def test_a_name_that_is_taken_is_refused(name: str, class_name: str) -> None:
    with pytest.raises(ValueError, match=r"DuelingEUBO.*'eubo'"):
        register_acquisition(name, reference=incumbent)(mean_gain(class_name))
    (entry,) = (e for e in registered_acquisitions() if e.name == "eubo")
    assert entry.acquisition_class is DuelingEUBO


def test_a_rule_needs_a_reference_to_go_to() -> None:
    class WithoutReference(AcquisitionFunction):
        def forward(self, X: Tensor) -> Tensor:
            return X.sum((-2, -1))

    with pytest.raises(TypeError, match="takes no X_ref"):
        register_acquisition("none", reference=incumbent)(WithoutReference)


def test_the_same_class_may_be_registered_again_and_renamed(model: Model) -> None:
    MeanGain = mean_gain()
    register_acquisition("mean")(MeanGain)
    register_acquisition("mean", reference=incumbent)(MeanGain)
    made = get_acqf_input_constructor(MeanGain)(model=model)
    assert torch.equal(made["X_ref"], incumbent(model))
    register_acquisition("gain", reference=incumbent)(mean_gain())
    found = [e for e in registered_acquisitions() if "MeanGain" in repr(e)]
    assert [entry.name for entry in found] == ["gain"]


def test_a_decorator_without_its_call_is_refused() -> None:
    """It would put a function in the place of the class."""
    with pytest.raises(TypeError, match="@register_acquisition"):
        register_acquisition(mean_gain())


@pytest.mark.parametrize("given", [3, dict])
def test_only_classes_of_acquisition_functions_are_registered(given: object) -> None:
    with pytest.raises(TypeError, match="registers classes of BoTorch acquisition"):
        register_acquisition("mean")(given)


def test_a_rule_that_is_none_is_refused() -> None:
    with pytest.raises(TypeError, match="reference is 'incumbent'; give a rule"):
        register_acquisition("mean", reference="incumbent")
