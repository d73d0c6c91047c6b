"""Checks of query points, where predictions are wanted."""

from __future__ import annotations

import torch
from torch import Tensor

from botorch_pref.errors import FeedbackError

_FLOATING = (torch.float32, torch.float64)


def check_points(
    name: str, value: object, like: Tensor | None = None, dim: int | None = None
) -> Tensor:
    """Checks that an argument is a tensor of points, without a look at its entries.

    So it costs nothing where an acquisition function is maximised, on a GPU neither;
    :func:`check_finite` reads the entries, once for each prediction.

    Args:
        name: Of the argument, for example ``X_ref``.
        value: What was given.
        like: A tensor of the same device and of no lower precision, such as the
            datapoints; None for any.
        dim: ``d``, the number of features; None for any.

    Returns:
        The points, in double precision where ``like`` is and they are in single.

    Raises:
        FeedbackError: It is no dense tensor ``batch_shape x q x d`` in single or double
            precision, of a higher precision, on another device, or of another number
            of features.
    """
    wanted = f"batch_shape x q x {'d' if dim is None else dim}"
    if not isinstance(value, Tensor):
        raise FeedbackError(
            f"{name} must be a tensor of points, {wanted}, got "
            f"{type(value).__name__}; use torch.tensor({name}, dtype=torch.double)."
        )
    if value.layout != torch.strided:
        raise FeedbackError(f"{name} is sparse; pass {name}.to_dense().")
    dtype = value.dtype if like is None else like.dtype
    # To double is exact; from double to single would change the points.
    known = value.dtype in _FLOATING and dtype in _FLOATING
    if not known or torch.promote_types(value.dtype, dtype) != dtype:
        target = dtype if dtype in _FLOATING else torch.float64
        beside = "" if like is None else f", and what it goes with {like.dtype}"
        raise FeedbackError(
            f"{name} is {value.dtype}{beside}; pass {name}.to({target})."
        )
    if value.dim() < 2 or (dim is not None and value.shape[-1] != dim):
        raise FeedbackError(
            f"{name} has shape {tuple(value.shape)}, expected {wanted}: one row a "
            f"point, {name}.unsqueeze(0) for a single one."
        )
    if like is not None and value.device != like.device:
        raise FeedbackError(
            f"{name} is on {value.device}, and what it goes with on {like.device}; "
            f"pass {name}.to({str(like.device)!r})."
        )
    return value.to(dtype)


def check_finite(name: str, points: Tensor) -> Tensor:
    """Checks that no feature of some points is NaN or infinite.

    On a GPU this waits for the points, which have just arrived where they come from an
    optimiser on the host.

    Args:
        name: Of the argument.
        points: ``batch_shape x q x d``.

    Returns:
        The points.

    Raises:
        FeedbackError: One is; the error names the first.
    """
    finite = points.isfinite()
    if not bool(finite.all()):
        where = (~finite).nonzero()[0].tolist()
        raise FeedbackError(
            f"{name}{where} is {points[tuple(where)].item()}: row {where[-2]} needs "
            "finite features; leave the point out, or impute what is missing."
        )
    return points


def check_point_pairs(
    names: tuple[str, str],
    first: Tensor,
    second: Tensor,
    like: Tensor | None = None,
    dim: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Checks the two sides of duels, which nothing but batches and q may tell apart.

    Args:
        names: Of the arguments, for example ``("X1", "X2")``.
        first: ``batch_shape x q x d``.
        second: ``batch_shape x q x d`` or ``batch_shape x 1 x d``.
        like: See :func:`check_points`.
        dim: See :func:`check_points`.

    Returns:
        Both, see :func:`check_points`.

    Raises:
        FeedbackError: One is no tensor of points, or the two do not fit each other.
    """
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
