"""Checks of query points, where predictions are wanted."""

from __future__ import annotations

import torch
from torch import Tensor

from botorch_pref.errors import FeedbackError

_FLOATING = (torch.float32, torch.float64)


def check_points(
    name: str, value: object, like: Tensor | None = None, dim: int | None = None
) -> None:
    """Checks that an argument is a tensor of points, without a look at its entries.

    Args:
        name: Of the argument, for example ``X_ref``.
        value: What was given.
        like: A tensor of the same dtype, such as the datapoints; None for any.
        dim: ``d``, the number of features; None for any.

    Raises:
        FeedbackError: It is no dense tensor ``batch_shape x q x d`` in single or double
            precision, or of another dtype or number of features.
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
    if value.dtype not in _FLOATING or value.dtype != dtype:
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


def check_point_pairs(
    names: tuple[str, str],
    first: Tensor,
    second: Tensor,
    like: Tensor | None = None,
    dim: int | None = None,
) -> None:
    """Checks the two sides of duels, which nothing but batches and q may tell apart.

    Args:
        names: Of the arguments, for example ``("X1", "X2")``.
        first: ``batch_shape x q x d``.
        second: ``batch_shape x q x d`` or ``batch_shape x 1 x d``.
        like: See :func:`check_points`.
        dim: See :func:`check_points`.

    Raises:
        FeedbackError: One is no tensor of points, or the two do not fit each other.
    """
    check_points(names[0], first, like, dim)
    check_points(names[1], second, first, first.shape[-1])
    try:
        torch.broadcast_shapes(first.shape[:-1], second.shape[:-1])
    except RuntimeError as error:
        raise FeedbackError(
            f"{names[0]} has shape {tuple(first.shape)} and {names[1]} "
            f"{tuple(second.shape)}, which do not broadcast; give one point each, or "
            "one for all."
        ) from error
