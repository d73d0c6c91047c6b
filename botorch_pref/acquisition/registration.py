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

Reference = Callable[[Model], Tensor]
"""A rule for the point that challengers meet: from a model to ``1 x d``."""


def duel_input_constructor(
    acquisition_class: type[AcquisitionFunction], reference: Reference | None
) -> Callable[..., dict[str, Any]]:
    """The input constructor of an acquisition function, from its own signature.

    It takes the keywords of the class, with the same defaults, but for two: ``model``
    may be a list with nothing but the model, in which Ax wraps it, and ``X_ref`` may be
    left out.

    Args:
        acquisition_class: Made from a ``model`` and perhaps more.
        reference: The rule for an ``X_ref`` that is left out; None to leave it to the
            class.

    Returns:
        The constructor: it returns keyword arguments of the class.

    Raises:
        TypeError: There is a rule for a class that takes no ``X_ref``.
    """
    signature = inspect.signature(acquisition_class)
    if reference is not None:
        if "X_ref" not in signature.parameters:
            raise TypeError(
                f"{acquisition_class.__name__} takes no X_ref; leave out reference."
            )
        signature = _with_optional(signature, "X_ref")

    def construct(*args: Any, **kwargs: Any) -> dict[str, Any]:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        arguments = bound.arguments
        arguments["model"] = utility_model(arguments["model"])
        if reference is not None and arguments["X_ref"] is None:
            arguments["X_ref"] = reference(arguments["model"])
        return dict(arguments)

    construct.__name__ = f"construct_inputs_{acquisition_class.__name__}"
    construct.__doc__ = f"Keyword arguments of `{acquisition_class.__name__}`."
    # BoTorch reads the keywords that it may pass.
    construct.__signature__ = signature  # type: ignore[attr-defined]
    return construct


def utility_model(model: Model) -> Model:
    """Preference model inside the list of one that Ax makes of it.

    Args:
        model: Such a list, or a model, which is returned as it is.

    Raises:
        UnsupportedError: The list holds several.
    """
    if not isinstance(model, ModelList):
        return model
    if len(model.models) != 1:
        raise UnsupportedError(
            f"Duels need one model of the utility, got a list of {len(model.models)}."
        )
    (only,) = model.models
    return only  # type: ignore[return-value]


def _with_optional(signature: inspect.Signature, name: str) -> inspect.Signature:
    """The signature with None as the default of a parameter."""
    parameters = dict(signature.parameters)
    parameters[name] = parameters[name].replace(default=None)
    return signature.replace(parameters=list(parameters.values()))


A = TypeVar("A", bound=AcquisitionFunction)


@dataclass(frozen=True)
class RegisteredAcquisition:
    """An acquisition function of duels, as names stand for it.

    Attributes:
        name: Its short name, as the command line has it.
        acquisition_class: The class; experiments in Ax store its own name.
        reference: The rule for the point that challengers meet; None if both points of
            a duel are chosen.
    """

    name: str
    acquisition_class: type[AcquisitionFunction]
    reference: Reference | None


_REGISTERED: dict[str, RegisteredAcquisition] = {}


def register_acquisition(
    name: str, reference: Reference | None = None
) -> Callable[[type[A]], type[A]]:
    """A decorator that lets BoTorch, Ax and the command line make an acquisition class.

    ``python -m botorch_pref`` and `PreferenceExperiment` then take its name, and
    BoTorch's ``get_acqf_input_constructor`` knows its keywords, which are those of the
    class.

    Args:
        name: A short name that no other has.
        reference: The rule for the point that challengers meet, such as `incumbent` or
            `champion`; None if the class chooses both points of a duel.

    Raises:
        TypeError: The name is not a text, what is registered not a class of
            acquisition functions, or there is a rule for one that takes no ``X_ref``.
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

    def register(acquisition_class: type[A]) -> type[A]:
        if not (
            isinstance(acquisition_class, type)
            and issubclass(acquisition_class, AcquisitionFunction)
        ):
            raise TypeError(
                "register_acquisition registers classes of BoTorch acquisition "
                f"functions, got {acquisition_class!r}."
            )
        entry = RegisteredAcquisition(name, acquisition_class, reference)
        earlier = [e for e in registered_acquisitions() if _are_alike(e, entry)]
        for known in registered_acquisitions():
            _check_apart(entry, known)
        construct = duel_input_constructor(acquisition_class, reference)
        # BoTorch refuses a second constructor of the same class.
        ACQF_INPUT_CONSTRUCTOR_REGISTRY.pop(acquisition_class, None)
        acqf_input_constructor(acquisition_class)(construct)
        for known in earlier:
            del _REGISTERED[known.name]
        _REGISTERED[name] = entry
        return acquisition_class

    return register


def registered_acquisitions() -> tuple[RegisteredAcquisition, ...]:
    """All registered acquisition functions, by name in alphabetical order."""
    return tuple(_REGISTERED[name] for name in sorted(_REGISTERED))


def _are_alike(entry: RegisteredAcquisition, known: RegisteredAcquisition) -> bool:
    """Whether two entries are of one class.

    A notebook's cell that is run again makes the same class again.
    """
    one, other = (e.acquisition_class for e in (entry, known))
    return (one.__module__, one.__qualname__) == (other.__module__, other.__qualname__)


def _check_apart(entry: RegisteredAcquisition, known: RegisteredAcquisition) -> None:
    """Checks that two entries are of one class or share no name."""
    if _are_alike(entry, known):
        return
    one, other = (e.acquisition_class for e in (entry, known))
    if one.__name__ == other.__name__ or entry.name == known.name:
        raise ValueError(
            f"{other.__module__}.{other.__qualname__} is registered with the name "
            f"{known.name!r}; give {one.__module__}.{one.__qualname__} names of its "
            "own."
        )
