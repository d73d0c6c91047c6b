"""Checks of arguments, which raise `FeedbackError`, and of what is registered."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import cache, wraps
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

import torch
from torch import Tensor

from botorch_pref.errors import FeedbackError

P = ParamSpec("P")
R = TypeVar("R")

# Numbers of any library will do where an annotation names one of these.
_NUMBERS: dict[Any, type] = {float: Real, int: Integral}
_NAMES = {Real: "a number", Integral: "an integer", Tensor: "a torch.Tensor"}


def checked_arguments(function: Callable[P, R]) -> Callable[P, R]:
    """Makes a function refuse arguments whose classes its annotations do not name.

    Annotations count that are classes or unions of classes. Left to the function are
    those that may be tensors, and those with parameters, such as
    ``Sequence[Feedback]``.
    """
    signature = inspect.signature(function)

    @cache
    def kinds() -> dict[str, tuple[type, ...]]:
        hints = get_type_hints(function)
        class_lists = {
            name: _classes(hints[name]) for name in hints if name != "return"
        }
        return {name: classes for name, classes in class_lists.items() if classes}

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            arguments = signature.bind_partial(*args, **kwargs).arguments
        except TypeError:
            arguments = {}  # The function itself says what is wrong, and its own name.
        for name, classes in kinds().items():
            if name in arguments:
                check_kind(name, arguments[name], *classes)
        return function(*args, **kwargs)

    return checked


def _classes(hint: Any) -> tuple[type, ...]:
    """Classes that an annotation names; none where the function itself checks."""
    is_union = get_origin(hint) in (Union, UnionType)
    members = get_args(hint) if is_union else (hint,)
    if Tensor in members or not all(isinstance(m, type) for m in members):
        return ()
    return tuple(_NUMBERS.get(member, member) for member in members)


def check_kind(name: str, value: object, *classes: type) -> None:
    """Checks the class of an argument; with ``NoneType`` it may be left out."""
    if isinstance(value, classes):
        return
    if isinstance(value, type):
        description = f"the class {value.__name__}"
    elif value is None or isinstance(value, str | Real):
        description = repr(value)
    else:
        description = f"of the class {type(value).__name__}"
    wanted = [
        _NAMES.get(kind, f"an instance of {kind.__module__}.{kind.__name__}")
        for kind in classes
        if kind is not NoneType
    ]
    default = ", or None for the default" if NoneType in classes else ""
    raise FeedbackError(
        f"{name} is {description}; give {' or '.join(wanted)}{default}."
    )


def number_tensor(
    name: str, value: object, dtype: torch.dtype, device: torch.device | None = None
) -> Tensor:
    """A number, or a tensor of numbers, as a tensor."""
    check_kind(name, value, Real, Tensor)
    return torch.as_tensor(value, dtype=dtype, device=device)


def check_count(name: str, value: object, *, at_least: int) -> None:
    """Checks that an argument is an integer, no boolean, and large enough."""
    is_integer = isinstance(value, Integral) and not isinstance(value, bool)
    if not is_integer or value < at_least:  # type: ignore[operator]
        raise FeedbackError(
            f"{name} is {value!r}; give an integer of at least {at_least}."
        )


def check_decorated(decorator: str, target: object, base: type, family: str) -> None:
    """Checks that a decorator stands above a class of its kind."""
    if not (isinstance(target, type) and issubclass(target, base)):
        raise TypeError(f"{decorator} registers classes of {family}, got {target!r}.")


def check_unused(
    new_class: type, name: str | None, registered: Iterable[tuple[type, str | None]]
) -> None:
    """Checks that no other class is called as this one, or has its short name.

    A notebook's cell that is run again makes the same class again.
    """
    new_path = f"{new_class.__module__}.{new_class.__qualname__}"
    for old_class, short_name in registered:
        old_path = f"{old_class.__module__}.{old_class.__qualname__}"
        alike = old_class.__name__ == new_class.__name__ or (
            name and name == short_name
        )
        if alike and old_path != new_path:
            clause = "" if short_name is None else f" with the name {short_name!r}"
            raise ValueError(
                f"{old_path} is registered already{clause}; give {new_path} names of "
                "its own."
            )


def check_probabilities(name: str, value: Tensor) -> None:
    """Checks that numbers are strictly between 0 and 1; NaN counts as outside."""
    outside = ~((value > 0) & (value < 1))
    if bool(outside.any()):
        first = float(value[outside].flatten()[0])
        raise FeedbackError(
            f"{name} holds {first}; give probabilities strictly between 0 and 1."
        )
