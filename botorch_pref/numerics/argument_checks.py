"""Checks of arguments and points, which raise `FeedbackError`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
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
        """Lists the classes of each argument that is checked.

        At the first call, when all classes that annotations name are there.
        """
        hints = get_type_hints(function)
        class_lists = {
            name: _classes(hints[name]) for name in hints if name != "return"
        }
        return {name: classes for name, classes in class_lists.items() if classes}

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        """Checks arguments, and calls the function, whose docstring replaces this."""
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
    """Lists classes that an annotation names; none where the function itself checks."""
    is_union = get_origin(hint) in (Union, UnionType)
    members = get_args(hint) if is_union else (hint,)
    if Tensor in members or not all(isinstance(m, type) for m in members):
        return ()
    return tuple(_NUMBERS.get(member, member) for member in members)


def check_kind(name: str, value: object, *classes: type) -> None:
    """Checks the class of an argument, which may be None if ``NoneType`` is listed."""
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
    """Returns a number, or a tensor of numbers, as a tensor."""
    check_kind(name, value, Real, Tensor)
    return torch.as_tensor(value, dtype=dtype, device=device)


def check_count(name: str, value: object, *, at_least: int) -> None:
    """Checks that an argument is an integer, no boolean, and large enough."""
    is_integer = isinstance(value, Integral) and not isinstance(value, bool)
    if not is_integer or value < at_least:  # type: ignore[operator]
        raise FeedbackError(
            f"{name} is {value!r}; give an integer of at least {at_least}."
        )


def check_probabilities(name: str, value: Tensor) -> None:
    """Checks that numbers are strictly between 0 and 1; NaN counts as outside."""
    outside = ~((value > 0) & (value < 1))
    if bool(outside.any()):
        first = float(value[outside].flatten()[0])
        raise FeedbackError(
            f"{name} holds {first}; give probabilities strictly between 0 and 1."
        )


_FLOATING = (torch.float32, torch.float64)


def check_points(
    name: str, value: object, like: Tensor | None = None, dim: int | None = None
) -> Tensor:
    """Checks that an argument is a tensor of points, without a look at its entries.

    To look would make each step wait for the GPU where an acquisition function is
    maximised; :func:`check_finite` does, once for each prediction. The points must be
    on the device of ``like``, of no higher precision, and have ``dim`` features; single
    precision becomes double where ``like`` is double.
    """
    wanted = f"batch_shape x q x {'d' if dim is None else dim}"
    if not isinstance(value, Tensor):
        raise FeedbackError(
            f"{name} must be a tensor of points, {wanted}, got "
            f"{type(value).__name__}; use torch.tensor({name}, dtype=torch.double)."
        )
    if value.layout != torch.strided:
        raise FeedbackError(f"{name} is sparse; pass {name}.to_dense().")
    value = in_precision_of(name, value, like)
    if value.dim() < 2 or (dim is not None and value.shape[-1] != dim):
        raise FeedbackError(
            f"{name} has shape {tuple(value.shape)}, expected {wanted}: one row a "
            f"point, {name}.unsqueeze(0) for a single one, {name}.unsqueeze(-1) for a "
            "single feature."
        )
    if like is not None and value.device != like.device:
        raise FeedbackError(
            f"{name} is on {value.device}, and what it goes with on {like.device}; "
            f"pass {name}.to({str(like.device)!r})."
        )
    return value


def in_precision_of(name: str, points: Tensor, like: Tensor | None) -> Tensor:
    """Converts points to the precision of ``like``, no lower than theirs."""
    dtype = points.dtype if like is None else like.dtype
    # To double is exact; from double to single would change the points.
    is_floating = points.dtype in _FLOATING and dtype in _FLOATING
    if not is_floating or torch.promote_types(points.dtype, dtype) != dtype:
        target = dtype if dtype in _FLOATING else torch.float64
        beside = "" if like is None else f", and what it goes with {like.dtype}"
        raise FeedbackError(
            f"{name} is {points.dtype}{beside}; pass {name}.to({target})."
        )
    return points.to(dtype)


def check_finite(name: str, points: Tensor) -> Tensor:
    """Returns the points; an error names the first feature that is NaN or too large.

    Squares of distances must not overflow: of infinite ones covariances are NaN. On a
    GPU this waits for the points.
    """
    largest = 1e-3 * torch.finfo(points.dtype).max ** 0.5
    fit = points.abs() < largest
    if not bool(fit.all()):
        place = (~fit).nonzero()[0].tolist()
        raise FeedbackError(
            f"{name}{place} is {points[tuple(place)].item()}: row {place[-2]} needs "
            f"finite features, of sizes below {largest:.0e}; leave the point out, or "
            "impute what is missing."
        )
    return points


def check_point_pairs(
    names: tuple[str, str],
    first: Tensor,
    second: Tensor,
    like: Tensor | None = None,
    dim: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Checks the sides of duels, of which the second may be one point for all."""
    first = check_points(names[0], first, like, dim)
    second = check_points(names[1], second, first, first.shape[-1])
    try:
        torch.broadcast_shapes(first.shape[:-1], second.shape[:-1])
    except RuntimeError as error:
        raise FeedbackError(
            f"{names[0]} has shape {tuple(first.shape)} and {names[1]} "
            f"{tuple(second.shape)}, which do not broadcast; give one point each, or "
            "one for all."
        ) from error
    return check_finite(names[0], first), check_finite(names[1], second)
