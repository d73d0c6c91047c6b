"""The list of acquisition functions, and how BoTorch and Ax make them by name."""

import inspect

import pytest
import torch
from botorch.acquisition import AcquisitionFunction
from botorch.acquisition.input_constructors import get_acqf_input_constructor
from botorch.exceptions.errors import UnsupportedError
from botorch.models.model import Model, ModelList
from torch import Tensor

from botorch_pref import (
    ChanceConstrained,
    DistinctOptions,
    DuelingBALD,
    DuelingEIIG,
    DuelingEUBO,
    DuelingHBUCB,
    DuelingKG,
    DuelingMUC,
    DuelingUCB,
    FeasibilityWeighted,
    acquisition,
    champion,
    class_table,
    incumbent,
)
from botorch_pref.acquisition import DifferenceAcquisition, register_acquisition
from botorch_pref.acquisition.registration import registered_acquisitions
from botorch_pref.likelihoods import LogitLink

X = torch.tensor([[[0.1, 0.2]], [[0.8, 0.3]]], dtype=torch.double)
OURS = pytest.mark.parametrize(
    "entry", registered_acquisitions(), ids=lambda entry: entry.name
)


@pytest.fixture(autouse=True)
def _forgotten_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(class_table, "_TABLE", dict(class_table._TABLE))


def mean_gain(name: str = "MeanGain") -> type[AcquisitionFunction]:
    """Makes a user's own function: the mean of the difference, and a bonus."""

    class MeanGain(DifferenceAcquisition):
        def __init__(self, model: Model, X_ref: Tensor, bonus: float = 0.25) -> None:
            super().__init__(model, X_ref)
            self.bonus = bonus

        def duel_value(self, means: Tensor, variance: Tensor) -> Tensor:
            return means.mean(0) + self.bonus

    MeanGain.__name__ = MeanGain.__qualname__ = name
    return MeanGain


def test_every_exported_function_of_duels_is_registered() -> None:
    exported = {getattr(acquisition, name) for name in acquisition.__all__}
    functions = {
        registered
        for registered in exported
        if inspect.isclass(registered)
        and issubclass(registered, AcquisitionFunction)
        and not inspect.isabstract(registered)
    }
    registered = registered_acquisitions()
    assert {entry.cls for entry in registered} == functions - {
        ChanceConstrained,
        DistinctOptions,
        FeasibilityWeighted,
    }
    names = [entry.name for entry in registered]
    assert names == sorted(set(names))


@OURS
def test_defaults_from_the_list_that_ax_makes(entry, skew_model: Model) -> None:
    """Ax wraps the model in a list and passes what most functions do not use."""
    construct = get_acqf_input_constructor(entry.cls)
    arguments = construct(
        model=ModelList(skew_model),
        training_data=None,
        X_baseline=None,
        posterior_transform=object(),
        objective=None,
        constraints=None,
    )
    acquisition = entry.cls(**arguments)
    if entry.reference is None:
        assert acquisition.X_ref is None
    else:
        rule = champion if entry.cls is DuelingMUC else incumbent
        assert torch.equal(acquisition.X_ref, rule(skew_model))
        assert bool(acquisition(X).isfinite().all())
    with pytest.raises(TypeError, match="beta"):
        construct(model=skew_model, beta=1.0)
    with pytest.raises(UnsupportedError, match="one model"):
        construct(model=ModelList(skew_model, skew_model))


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (DuelingEIIG, {"k": 0.5}),
        (DuelingUCB, {"level": 0.5}),
        (DuelingEUBO, {}),
        (DuelingBALD, {"link": LogitLink()}),
        (DuelingKG, {"link": LogitLink(), "choices": X[:, 0]}),
        (DuelingMUC, {"link": LogitLink()}),
        (DuelingHBUCB, {"level": 0.5}),
    ],
)
def test_options_arrive(
    kind: type, options: dict[str, object], skew_model: Model
) -> None:
    X_ref = torch.zeros(1, 2, dtype=torch.double)
    construct = get_acqf_input_constructor(kind)
    acquisition = kind(**construct(model=skew_model, X_ref=X_ref, **options))
    assert torch.equal(acquisition.X_ref, X_ref)
    for name, value in options.items():
        arrived = getattr(acquisition, name)
        is_equal = torch.equal if isinstance(value, Tensor) else object.__eq__
        assert is_equal(arrived, value) is True


def test_a_function_of_ones_own_is_made_by_its_keywords(skew_model: Model) -> None:
    MeanGain = mean_gain()
    assert register_acquisition("mean", reference=incumbent)(MeanGain) is MeanGain
    (entry,) = (e for e in registered_acquisitions() if e.name == "mean")
    assert entry.cls is MeanGain
    construct = get_acqf_input_constructor(MeanGain)
    acquisition = MeanGain(**construct(model=ModelList(skew_model), objective=None))
    assert acquisition.model is skew_model
    assert acquisition.bonus == 0.25
    assert construct(model=skew_model, bonus=0.5)["bonus"] == 0.5
    with pytest.raises(TypeError, match="malus"):
        construct(model=skew_model, malus=1.0)


def test_a_class_that_is_made_again_takes_its_own_place(skew_model: Model) -> None:
    """As a notebook's cell that is run again, perhaps with another name or rule."""
    register_acquisition("mean")(mean_gain())
    again = mean_gain()
    register_acquisition("mean", reference=incumbent)(again)
    entries = [e for e in registered_acquisitions() if e.name == "mean"]
    assert [entry.cls for entry in entries] == [again]
    arguments = get_acqf_input_constructor(again)(model=skew_model)
    assert torch.equal(arguments["X_ref"], incumbent(skew_model))
    register_acquisition("gain", reference=incumbent)(mean_gain())
    entries = [e for e in registered_acquisitions() if "MeanGain" in repr(e)]
    assert [entry.name for entry in entries] == ["gain"]


@pytest.mark.parametrize(
    ("name", "class_name"), [("eubo", "MeanGain"), ("mean", "DuelingEUBO")]
)
def test_a_name_that_is_taken_is_refused(name: str, class_name: str) -> None:
    with pytest.raises(ValueError, match=r"DuelingEUBO.*'eubo'"):
        register_acquisition(name, reference=incumbent)(mean_gain(class_name))
    (entry,) = (e for e in registered_acquisitions() if e.name == "eubo")
    assert entry.cls is DuelingEUBO


def test_what_cannot_be_registered() -> None:
    class WithoutReference(AcquisitionFunction):
        def forward(self, X: Tensor) -> Tensor:
            return X.sum((-2, -1))

    with pytest.raises(TypeError, match="takes no X_ref"):
        register_acquisition("none", reference=incumbent)(WithoutReference)
    # Without its call the decorator would put a function in the place of the class.
    with pytest.raises(TypeError, match="@register_acquisition"):
        register_acquisition(mean_gain())
    for candidate in (3, dict):
        with pytest.raises(TypeError, match="registers classes of BoTorch acquisition"):
            register_acquisition("mean")(candidate)
    with pytest.raises(TypeError, match="reference is 'incumbent'; give a rule"):
        register_acquisition("mean", reference="incumbent")
