"""Acquisition functions of duels by name: the one list of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.acquisition.input_constructors import acqf_input_constructor

from botorch_pref.acquisition.registration.input_constructors import (
    Reference,
    duel_input_constructor,
)

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
        TypeError: There is a rule for a class that takes no ``X_ref``.
        ValueError: Another class has this name, or is called as this class is.
    """

    def register(acquisition_class: type[A]) -> type[A]:
        entry = RegisteredAcquisition(name, acquisition_class, reference)
        for known in registered_acquisitions():
            _check_apart(entry, known)
        construct = duel_input_constructor(acquisition_class, reference)
        acqf_input_constructor(acquisition_class)(construct)
        _REGISTERED[name] = entry
        return acquisition_class

    return register


def registered_acquisitions() -> tuple[RegisteredAcquisition, ...]:
    """All registered acquisition functions, by name in alphabetical order."""
    return tuple(_REGISTERED[name] for name in sorted(_REGISTERED))


def _check_apart(entry: RegisteredAcquisition, known: RegisteredAcquisition) -> None:
    """Checks that two entries are of one class or share no name."""
    one, other = (e.acquisition_class for e in (entry, known))
    if (one.__module__, one.__qualname__) == (other.__module__, other.__qualname__):
        # A notebook's cell that is run again makes the same class again.
        return
    if one.__name__ == other.__name__ or entry.name == known.name:
        raise ValueError(
            f"{other.__module__}.{other.__qualname__} is registered with the name "
            f"{known.name!r}; give {one.__module__}.{one.__qualname__} names of its "
            "own."
        )
