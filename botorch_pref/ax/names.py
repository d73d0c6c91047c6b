"""Models and acquisition functions by the names that experiments store."""

from __future__ import annotations

from types import ModuleType
from typing import Any, TypeVar

from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.models.model import Model

from botorch_pref import acquisition, models
from botorch_pref.acquisition import FeasibilityWeighted
from botorch_pref.errors import ExperimentError
from botorch_pref.models import PreferenceGP
from botorch_pref.models.training_data_mixin import TrainingDataMixin

T = TypeVar("T")


def model_classes() -> dict[str, type[Model]]:
    """Every model of utilities, by name."""
    return {
        name: found
        for name, found in public_classes(models).items()
        if issubclass(found, TrainingDataMixin) and found is not PreferenceGP
    }


def acquisition_classes() -> dict[str, type[AcquisitionFunction]]:
    """Every acquisition function, by name."""
    return {
        name: found
        for name, found in public_classes(acquisition).items()
        if issubclass(found, AcquisitionFunction)
    }


def duel_classes() -> dict[str, type[AcquisitionFunction]]:
    """Every acquisition function that needs nothing but a model, by name."""
    return {
        name: found
        for name, found in acquisition_classes().items()
        if not issubclass(found, FeasibilityWeighted)
    }


def class_named(name: str, classes: dict[str, type[T]], noun: str) -> type[T]:
    """A class by its name.

    Args:
        name: The name.
        classes: Those there are.
        noun: What to call them in messages.

    Raises:
        ExperimentError: There is none.
    """
    if not isinstance(name, str) or name not in classes:
        raise ExperimentError(
            f"There is no {noun} {name!r}; there are {', '.join(sorted(classes))}."
        )
    return classes[name]


def public_classes(module: ModuleType) -> dict[str, type[Any]]:
    """The classes that a module exports, by name.

    Args:
        module: With ``__all__``.
    """
    public = {name: getattr(module, name) for name in module.__all__}
    return {name: found for name, found in public.items() if isinstance(found, type)}
