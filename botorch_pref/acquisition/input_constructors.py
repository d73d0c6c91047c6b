"""What BoTorch and Ax need to make the dueling acquisition functions by name."""

from __future__ import annotations

from typing import Any

from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.acquisition.input_constructors import (
    acqf_input_constructor,
    get_acqf_input_constructor,
)
from botorch.exceptions.errors import UnsupportedError
from botorch.models.model import Model, ModelList
from torch import Generator, Tensor

from botorch_pref.acquisition.dueling_bald import DuelingBALD
from botorch_pref.acquisition.dueling_eiig import DuelingEIIG
from botorch_pref.acquisition.dueling_eubo import DuelingEUBO
from botorch_pref.acquisition.dueling_hallucination import DuelingHBEI, DuelingHBUCB
from botorch_pref.acquisition.dueling_kg import DuelingKG
from botorch_pref.acquisition.dueling_muc import DuelingMUC
from botorch_pref.acquisition.dueling_thompson import DuelingThompson
from botorch_pref.acquisition.dueling_ucb import DuelingUCB
from botorch_pref.acquisition.feasibility_weighted import FeasibilityWeighted
from botorch_pref.acquisition.incumbent import incumbent
from botorch_pref.acquisition.observed_points import champion
from botorch_pref.likelihoods.links.duel_link import DuelLink
from botorch_pref.models.preference_gp import PreferenceGP


def _preference_model(model: Model) -> Model:
    """The one model in the list that Ax wraps preference models in."""
    if not isinstance(model, ModelList):
        return model
    if len(model.models) != 1:
        raise UnsupportedError(
            f"Duels need one model of the utility, got a list of {len(model.models)}."
        )
    (only,) = model.models
    return only  # type: ignore[return-value]


def _model_and_reference(model: Model, X_ref: Tensor | None) -> dict[str, Any]:
    model = _preference_model(model)
    return {"model": model, "X_ref": incumbent(model) if X_ref is None else X_ref}


@acqf_input_constructor(DuelingUCB)
def construct_inputs_dueling_ucb(
    model: Model, X_ref: Tensor | None = None, level: float = 0.95
) -> dict[str, Any]:
    """Arguments of `DuelingUCB`.

    Args:
        model: The model, or a list with nothing but it.
        X_ref: The reference point; by default the model's `incumbent`.
        level: See `DuelingUCB`.

    Returns:
        Keyword arguments of the constructor.
    """
    return _model_and_reference(model, X_ref) | {"level": level}


@acqf_input_constructor(DuelingThompson)
def construct_inputs_dueling_thompson(
    model: Model, X_ref: Tensor | None = None, generator: Generator | None = None
) -> dict[str, Any]:
    """Arguments of `DuelingThompson`.

    Args:
        model: The model, or a list with nothing but it.
        X_ref: The reference point; by default the model's `incumbent`.
        generator: See `DuelingThompson`.

    Returns:
        Keyword arguments of the constructor.
    """
    return _model_and_reference(model, X_ref) | {"generator": generator}


@acqf_input_constructor(DuelingEIIG)
def construct_inputs_dueling_eiig(
    model: Model,
    X_ref: Tensor | None = None,
    k: float = 0.1,
    link: DuelLink | None = None,
) -> dict[str, Any]:
    """Arguments of `DuelingEIIG`.

    Args:
        model: The model, or a list with nothing but it.
        X_ref: The reference point; by default the model's `incumbent`.
        k: See `DuelingEIIG`.
        link: See `DuelingEIIG`.

    Returns:
        Keyword arguments of the constructor.
    """
    return _model_and_reference(model, X_ref) | {"k": k, "link": link}


@acqf_input_constructor(DuelingEUBO)
def construct_inputs_dueling_eubo(
    model: Model, X_ref: Tensor | None = None
) -> dict[str, Any]:
    """Arguments of `DuelingEUBO`.

    Args:
        model: The model, or a list with nothing but it.
        X_ref: The reference point; by default none, and all points are chosen.

    Returns:
        Keyword arguments of the constructor.
    """
    return {"model": _preference_model(model), "X_ref": X_ref}


@acqf_input_constructor(DuelingBALD)
def construct_inputs_dueling_bald(
    model: Model, X_ref: Tensor | None = None, link: DuelLink | None = None
) -> dict[str, Any]:
    """Arguments of `DuelingBALD`.

    Args:
        model: The model, or a list with nothing but it.
        X_ref: The reference point; by default none, and all points are chosen.
        link: See `DuelingBALD`.

    Returns:
        Keyword arguments of the constructor.
    """
    return {"model": _preference_model(model), "X_ref": X_ref, "link": link}


@acqf_input_constructor(DuelingKG)
def construct_inputs_dueling_kg(
    model: Model,
    X_ref: Tensor | None = None,
    choices: Tensor | None = None,
    link: DuelLink | None = None,
) -> dict[str, Any]:
    """Arguments of `DuelingKG`.

    Args:
        model: The model, or a list with nothing but it.
        X_ref: The reference point; by default none, and all points are chosen.
        choices: See `DuelingKG`.
        link: See `DuelingKG`.

    Returns:
        Keyword arguments of the constructor.
    """
    model = _preference_model(model)
    return {"model": model, "X_ref": X_ref, "choices": choices, "link": link}


@acqf_input_constructor(DuelingMUC)
def construct_inputs_dueling_muc(
    model: Model, X_ref: Tensor | None = None, link: DuelLink | None = None
) -> dict[str, Any]:
    """Arguments of `DuelingMUC`.

    Args:
        model: The model, or a list with nothing but it.
        X_ref: The reference point; by default the model's `champion`.
        link: See `DuelingMUC`.

    Returns:
        Keyword arguments of the constructor.
    """
    model = _preference_model(model)
    reference = champion(model) if X_ref is None else X_ref
    return {"model": model, "X_ref": reference, "link": link}


@acqf_input_constructor(DuelingHBEI)
def construct_inputs_dueling_hbei(
    model: Model, X_ref: Tensor | None = None, generator: Generator | None = None
) -> dict[str, Any]:
    """Arguments of `DuelingHBEI`.

    Args:
        model: The model, or a list with nothing but it.
        X_ref: See `DuelingHBEI`.
        generator: See `DuelingHBEI`.

    Returns:
        Keyword arguments of the constructor.
    """
    model = _preference_model(model)
    return {"model": model, "X_ref": X_ref, "generator": generator}


@acqf_input_constructor(DuelingHBUCB)
def construct_inputs_dueling_hbucb(
    model: Model,
    X_ref: Tensor | None = None,
    level: float = 0.95,
    generator: Generator | None = None,
) -> dict[str, Any]:
    """Arguments of `DuelingHBUCB`.

    Args:
        model: The model, or a list with nothing but it.
        X_ref: See `DuelingHBUCB`.
        level: See `DuelingHBUCB`.
        generator: See `DuelingHBUCB`.

    Returns:
        Keyword arguments of the constructor.
    """
    arguments = construct_inputs_dueling_hbei(model, X_ref, generator)
    return arguments | {"level": level}


@acqf_input_constructor(FeasibilityWeighted)
def construct_inputs_feasibility_weighted(
    model: Model,
    feasibility_model: PreferenceGP,
    acquisition_class: type[AcquisitionFunction] = DuelingEIIG,
    acquisition_options: dict[str, Any] | None = None,
    failure_value: float = 0.0,
) -> dict[str, Any]:
    """Arguments of `FeasibilityWeighted`.

    Args:
        model: The model of the utility, or a list with nothing but it.
        feasibility_model: The model of validity.
        acquisition_class: What is weighted, by its own input constructor.
        acquisition_options: Options of that constructor, besides the model.
        failure_value: See `FeasibilityWeighted`.

    Returns:
        Keyword arguments of the constructor.
    """
    construct = get_acqf_input_constructor(acquisition_class)
    options = acquisition_options or {}
    arguments = construct(model=_preference_model(model), **options)
    return {
        "acquisition": acquisition_class(**arguments),
        "feasibility_model": feasibility_model,
        "failure_value": failure_value,
    }
