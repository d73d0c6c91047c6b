"""Making acquisition functions by name, as BoTorch and Ax do."""

import pytest
import torch
from botorch.acquisition.input_constructors import get_acqf_input_constructor
from botorch.exceptions.errors import UnsupportedError
from botorch.models.model import Model, ModelList

from botorch_pref.acquisition import (
    DuelingBALD,
    DuelingEIIG,
    DuelingEUBO,
    DuelingHBEI,
    DuelingHBUCB,
    DuelingKG,
    DuelingMUC,
    DuelingThompson,
    DuelingUCB,
    champion,
    incumbent,
)
from botorch_pref.likelihoods import LogitLink

CLASSES = [DuelingEIIG, DuelingThompson, DuelingUCB]
PAIR_CLASSES = [DuelingBALD, DuelingEUBO, DuelingKG]
BELIEVERS = [DuelingHBEI, DuelingHBUCB]


@pytest.mark.parametrize("kind", CLASSES)
def test_defaults_from_the_list_that_ax_makes(kind: type, model: Model) -> None:
    """Ax wraps the model in a list and passes what most functions do not use."""
    arguments = get_acqf_input_constructor(kind)(
        model=ModelList(model),
        training_data=None,
        X_baseline=None,
        posterior_transform=object(),
        objective=None,
        constraints=None,
    )
    acquisition = kind(**arguments)
    assert acquisition.model is model
    assert torch.equal(acquisition.X_ref, incumbent(model))
    X = torch.tensor([[[0.1, 0.2]], [[0.8, 0.3]]], dtype=torch.double)
    assert bool(acquisition(X).isfinite().all())


@pytest.mark.parametrize("kind", PAIR_CLASSES)
def test_pairs_by_default(kind: type, model: Model) -> None:
    arguments = get_acqf_input_constructor(kind)(
        model=ModelList(model), training_data=None, objective=None
    )
    acquisition = kind(**arguments)
    assert acquisition.model is model
    assert acquisition.X_ref is None
    X = torch.tensor([[[0.1, 0.2], [0.8, 0.3]]], dtype=torch.double)
    torch.testing.assert_close(acquisition(X), kind(model)(X))


def test_the_champion_is_challenged_by_default(model: Model) -> None:
    arguments = get_acqf_input_constructor(DuelingMUC)(model=ModelList(model))
    assert torch.equal(DuelingMUC(**arguments).X_ref, champion(model))


@pytest.mark.parametrize("kind", BELIEVERS)
def test_believers_take_the_generator_and_the_incumbent(
    kind: type, model: Model
) -> None:
    made = []
    for _ in range(2):
        generator = torch.Generator().manual_seed(5)
        arguments = get_acqf_input_constructor(kind)(
            model=ModelList(model), generator=generator, training_data=None
        )
        made.append(kind(**arguments))
    X = torch.tensor([[[0.1, 0.2]], [[0.8, 0.3]]], dtype=torch.double)
    assert torch.equal(made[0](X), made[1](X))
    assert torch.equal(made[0].X_ref, incumbent(model))


def test_choices_arrive(model: Model) -> None:
    choices = torch.full((3, 2), 0.95, dtype=torch.double)
    arguments = get_acqf_input_constructor(DuelingKG)(model=model, choices=choices)
    assert torch.equal(DuelingKG(**arguments).choices, choices)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (DuelingEIIG, {"k": 0.5}),
        (DuelingUCB, {"level": 0.5}),
        (DuelingThompson, {}),
        (DuelingEUBO, {}),
        (DuelingBALD, {"link": LogitLink()}),
        (DuelingKG, {"link": LogitLink()}),
        (DuelingMUC, {"link": LogitLink()}),
        (DuelingHBEI, {}),
        (DuelingHBUCB, {"level": 0.5}),
    ],
)
def test_options_arrive(kind: type, options: dict[str, object], model: Model) -> None:
    X_ref = torch.zeros(1, 2, dtype=torch.double)
    arguments = get_acqf_input_constructor(kind)(model=model, X_ref=X_ref, **options)
    acquisition = kind(**arguments)
    assert torch.equal(acquisition.X_ref, X_ref)
    for name, value in options.items():
        assert getattr(acquisition, name) == value


@pytest.mark.parametrize("kind", [*CLASSES, *PAIR_CLASSES, *BELIEVERS, DuelingMUC])
def test_unknown_options_and_several_models_are_refused(
    kind: type, model: Model
) -> None:
    construct = get_acqf_input_constructor(kind)
    with pytest.raises(TypeError, match="beta"):
        construct(model=model, beta=1.0)
    with pytest.raises(UnsupportedError, match="one model"):
        construct(model=ModelList(model, model))
