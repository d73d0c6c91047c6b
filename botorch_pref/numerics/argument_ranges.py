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
    """A function that refuses arguments whose classes its annotations do not name.

    Annotations count that are classes or unions of classes. Left to the function are
    those that may be tensors, and those with parameters, such as
    ``Sequence[Feedback]``.
    """
    signature = inspect.signature(function)

    @cache
    def kinds() -> dict[str, tuple[type, ...]]:
        hints = get_type_hints(function)
        found = {name: _classes(hints[name]) for name in hints if name != "return"}
        return {name: classes for name, classes in found.items() if classes}

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            given = signature.bind_partial(*args, **kwargs).arguments
        except TypeError:
            given = {}  # The function itself says what is wrong, and its own name.
        for name, classes in kinds().items():
            if name in given:
                check_kind(name, given[name], *classes)
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
        shown = f"the class {value.__name__}"
    elif value is None or isinstance(value, str | Real):
        shown = repr(value)
    else:
        shown = f"of the class {type(value).__name__}"
    wanted = [
        _NAMES.get(kind, f"an instance of {kind.__module__}.{kind.__name__}")
        for kind in classes
        if kind is not NoneType
    ]
    default = ", or None for the default" if NoneType in classes else ""
    raise FeedbackError(f"{name} is {shown}; give {' or '.join(wanted)}{default}.")


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


def check_decorated(by: str, given: object, base: type, of: str) -> None:
    """Checks that a decorator stands above a class of its kind."""
    if not (isinstance(given, type) and issubclass(given, base)):
        raise TypeError(f"{by} registers classes of {of}, got {given!r}.")


def check_unused(
    given: type, name: str | None, known: Iterable[tuple[type, str | None]]
) -> None:
    """Checks that no other class is called as this one, or has its short name.

    A notebook's cell that is run again makes the same class again.
    """
    path = f"{given.__module__}.{given.__qualname__}"
    for other, short in known:
        theirs = f"{other.__module__}.{other.__qualname__}"
        alike = other.__name__ == given.__name__ or (name and name == short)
        if alike and theirs != path:
            own = "" if short is None else f" with the name {short!r}"
            raise ValueError(
                f"{theirs} is registered already{own}; give {path} names of its own."
            )


def check_probabilities(name: str, value: Tensor) -> None:
    """Checks that numbers are strictly between 0 and 1; NaN counts as outside."""
    outside = ~((value > 0) & (value < 1))
    if bool(outside.any()):
        first = float(value[outside].flatten()[0])
        raise FeedbackError(
            f"{name} holds {first}; give probabilities strictly between 0 and 1."
        )
