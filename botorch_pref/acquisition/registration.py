"""Acquisition functions by name, and their input constructors."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.acquisition.input_constructors import (
    ACQF_INPUT_CONSTRUCTOR_REGISTRY,
    acqf_input_constructor,
)
from botorch.exceptions.errors import UnsupportedError
from botorch.models.model import Model, ModelList
from torch import Tensor

from botorch_pref.class_table import Entry, check_class, register, registered

Reference = Callable[[Model], Tensor]
"""A rule for the point that challengers meet: from a model to ``1 x d``."""


def utility_model(model: Model) -> Model:
    """Takes a preference model out of the list of one model that Ax makes of it."""
    if not isinstance(model, ModelList):
        return model
    if len(model.models) != 1:
        raise UnsupportedError(
            f"Duels need one model of the utility, got a list of {len(model.models)}."
        )
    (only,) = model.models
    return only  # type: ignore[return-value]


def duel_input_constructor(
    acquisition_class: type[AcquisitionFunction], reference: Reference | None
) -> Callable[..., dict[str, Any]]:
    """Makes the input constructor of an acquisition function, from its signature.

    It takes the keywords of the class, but ``model`` may be a list of one, as Ax wraps
    it, and ``X_ref`` may be left out where there is a rule for the reference.
    """
    signature = inspect.signature(acquisition_class)
    if reference is not None:
        parameters = dict(signature.parameters)
        if "X_ref" not in parameters:
            raise TypeError(
                f"{acquisition_class.__name__} takes no X_ref; leave out reference."
            )
        parameters["X_ref"] = parameters["X_ref"].replace(default=None)
        signature = signature.replace(parameters=list(parameters.values()))

    def construct(*args: Any, **kwargs: Any) -> dict[str, Any]:
        """Makes the keywords of the class, with one model and a reference."""
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        arguments = bound.arguments
        arguments["model"] = utility_model(arguments["model"])
        if reference is not None and arguments["X_ref"] is None:
            arguments["X_ref"] = reference(arguments["model"])
        return dict(arguments)

    construct.__name__ = f"construct_inputs_{acquisition_class.__name__}"
    # BoTorch reads the keywords that it may pass.
    construct.__signature__ = signature  # type: ignore[attr-defined]
    return construct


@dataclass(frozen=True)
class RegisteredAcquisition(Entry):
    """An acquisition function of duels, and its rule for the reference, if any."""

    name: str
    reference: Reference | None


A = TypeVar("A", bound=AcquisitionFunction)


def register_acquisition(
    name: str, reference: Reference | None = None
) -> Callable[[type[A]], type[A]]:
    """Makes a decorator by which BoTorch, Ax and the command line know a class.

    ``python -m botorch_pref`` and `PreferenceExperiment` then take its name, and
    BoTorch's ``get_acqf_input_constructor`` knows its keywords, which are those of the
    class.

    Args:
        name: A short name that no other class has.
        reference: The rule for the point that challengers meet, such as `incumbent` or
            `champion`; None if the class chooses both points of a duel.

    Raises:
        TypeError: The name is no text, the object decorated is no class of acquisition
            functions, or there is a rule for one that takes no ``X_ref``.
        ValueError: Another class has this name, or is called as this class is.
    """
    if not isinstance(name, str):
        raise TypeError(
            f"register_acquisition takes a short name, got {name!r}; write "
            '@register_acquisition("name") above the class.'
        )
    if not (reference is None or callable(reference)):
        raise TypeError(
            f"reference is {reference!r}; give a rule such as botorch_pref.incumbent, "
            "or None where both points of a duel are chosen."
        )

    def decorate(acquisition_class: type[A]) -> type[A]:
        """Registers the class in the table and with BoTorch."""
        decorator, family = "register_acquisition", "BoTorch acquisition functions"
        check_class(decorator, acquisition_class, AcquisitionFunction, family)
        # It refuses a rule for no X_ref before anything is registered.
        construct = duel_input_constructor(acquisition_class, reference)
        entry = RegisteredAcquisition(acquisition_class, name, reference)
        register(entry, AcquisitionFunction)
        # BoTorch refuses a second constructor of the same class.
        ACQF_INPUT_CONSTRUCTOR_REGISTRY.pop(acquisition_class, None)
        acqf_input_constructor(acquisition_class)(construct)
        return acquisition_class

    return decorate


def registered_acquisitions() -> list[RegisteredAcquisition]:
    """Lists all registered acquisition functions, by name in alphabetical order."""
    return sorted(registered(AcquisitionFunction), key=lambda entry: entry.name)


def reference_rule(acquisition_class: type[AcquisitionFunction]) -> Reference | None:
    """Finds the rule for the reference of a class; None where there is none."""
    rules = {e.cls.__name__: e.reference for e in registered_acquisitions()}
    return rules.get(acquisition_class.__name__)
