"""Objects by the names of their classes, with options, as experiments store them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import torch
from gpytorch import constraints, priors
from gpytorch.constraints import Interval
from gpytorch.priors import Prior

from botorch_pref.ax.naming.names import class_named, public_classes
from botorch_pref.errors import ExperimentError

T = TypeVar("T")

Option = Callable[[object], object]
"""From an option as it is stored to what a constructor takes."""


def class_and_options(
    given: object, classes: Mapping[str, type[T]], noun: str
) -> tuple[type[T], Any]:
    """A class by its name, and the options that go with it.

    Args:
        given: A name, or ``{"its name": {"option": value}}``.
        classes: Those there are.
        noun: What to call them in messages.

    Raises:
        ExperimentError: There is none, or this is no name.
    """
    named = {given: {}} if isinstance(given, str) else given
    if not isinstance(named, Mapping) or len(named) != 1:
        raise ExperimentError(
            f"{given!r} is no {noun}; give a name, or "
            '{"its name": {"option": value}}.'
        )
    ((name, options),) = named.items()
    return class_named(name, dict(classes), noun), options


def made(cls: type[T], options: Mapping[str, Any], option: Option) -> T:
    """An object of a class.

    Args:
        cls: The class.
        options: By the names of the constructor's arguments.
        option: What to make of a value.

    Raises:
        ExperimentError: The class does not take these options.
    """
    try:
        return cls(**{key: option(value) for key, value in options.items()})
    except (AttributeError, TypeError, ValueError, RuntimeError) as error:
        raise ExperimentError(
            f"{cls.__name__} does not take {options!r}: {error}"
        ) from error


def plain_option(value: object) -> object:
    """An option: numbers, or a prior or a constraint of GPyTorch by name.

    Args:
        value: As it is stored.

    Raises:
        ExperimentError: There is no such prior or constraint.
    """
    if isinstance(value, list):
        return torch.tensor(value, dtype=torch.float64)
    if not isinstance(value, str | Mapping):
        return value
    found = {**public_classes(priors), **public_classes(constraints)}
    classes = {n: c for n, c in found.items() if issubclass(c, Prior | Interval)}
    cls, options = class_and_options(value, classes, "likelihood or prior")
    return made(cls, options, plain_option)
