"""Models and acquisition functions by the names that experiments store."""

from __future__ import annotations

from types import ModuleType
from typing import Any, TypeVar

from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.models.model import Model

from botorch_pref.acquisition import FeasibilityWeighted
from botorch_pref.acquisition.registration.registry import registered_acquisitions
from botorch_pref.errors import ExperimentError
from botorch_pref.models.registry import registered_models

T = TypeVar("T")


def model_classes() -> dict[str, type[Model]]:
    """Every registered model, by the name of its class."""
    found = (entry.model_class for entry in registered_models())
    return {model_class.__name__: model_class for model_class in found}


def duel_classes() -> dict[str, type[AcquisitionFunction]]:
    """Every registered acquisition function, by the name of its class."""
    found = (entry.acquisition_class for entry in registered_acquisitions())
    return {cls.__name__: cls for cls in found}


def acquisition_classes() -> dict[str, type[AcquisitionFunction]]:
    """Every acquisition function, by name: also one that takes more than a model."""
    return {**duel_classes(), FeasibilityWeighted.__name__: FeasibilityWeighted}


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
