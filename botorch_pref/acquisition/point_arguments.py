"""Checks of the points that acquisition functions take."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from botorch.models.model import Model
from torch import Tensor

from botorch_pref.errors import FeedbackError
from botorch_pref.posteriors.query_points import check_finite, check_points

FunctionT = TypeVar("FunctionT", bound=Any)


def takes_points(forward: Callable[[FunctionT, Tensor], Tensor]) -> Any:
    """An acquisition function's ``forward`` that checks its argument ``X``.

    Shapes and dtypes alone, against those of the reference where there is one: a model
    reads the entries of ``X``, once for every prediction.

    Args:
        forward: Takes ``batch_shape x q x d``.
    """

    @wraps(forward)
    def checked(self: FunctionT, X: Tensor) -> Tensor:
        reference = getattr(self, "X_ref", None)
        dim = None if reference is None else reference.shape[-1]
        X = check_points("X", X, reference, dim)
        if X.shape[-2] == 0:
            raise FeedbackError(
                f"X has shape {tuple(X.shape)}: no points; give batch_shape x q x d "
                "with q of at least 1."
            )
        return forward(self, X)

    return checked


def reference_point(X_ref: Tensor, model: Model) -> Tensor:
    """A detached copy of the reference point with its ``q`` dimension.

    Args:
        X_ref: ``d`` or ``batch_shape x 1 x d``.
        model: The model whose points it is one of.

    Returns:
        ``batch_shape x 1 x d``.

    Raises:
        FeedbackError: It is no tensor of points such as the model's, or of several.
    """
    is_vector = isinstance(X_ref, Tensor) and X_ref.dim() == 1
    point = X_ref.unsqueeze(0) if is_vector else X_ref
    point = points_of(model, "X_ref", point)
    if point.shape[-2] != 1:
        raise FeedbackError(
            f"X_ref has shape {tuple(X_ref.shape)}; give one reference point, 1 x d, "
            "or batch_shape x 1 x d."
        )
    return point.detach().clone()


def points_of(model: Model, name: str, points: Tensor) -> Tensor:
    """Points that are given once with a model, of which all is checked.

    Args:
        model: Whose points they could be.
        name: Of the argument.
        points: ``batch_shape x n x d``.

    Returns:
        The points, in the precision of the model.

    Raises:
        FeedbackError: It is no tensor of points such as the model's, there are none,
            or one is not finite.
    """
    inputs = getattr(model, "train_inputs", None)
    like = inputs[0] if inputs and isinstance(inputs[0], Tensor) else None
    # An input transform may add features to those that it is given.
    known = like is not None and not hasattr(model, "input_transform")
    points = check_points(name, points, like, like.shape[-1] if known else None)  # type: ignore[union-attr]
    if points.shape[-2] == 0:
        raise FeedbackError(
            f"{name} has shape {tuple(points.shape)}: no points; give at least one."
        )
    return check_finite(name, points)


def check_pending(X_pending: Tensor | None, X_ref: Tensor | None) -> Tensor | None:
    """Checks pending points, which are few, once: their entries too.

    Args:
        X_pending: ``n x d``, or None.
        X_ref: The reference, ``batch_shape x 1 x d``, or None where there is none.

    Returns:
        The points, in the precision of the reference.

    Raises:
        FeedbackError: It is no tensor of points such as the reference, or not finite.
    """
    if X_pending is None:
        return None
    dim = None if X_ref is None else X_ref.shape[-1]
    return check_finite("X_pending", check_points("X_pending", X_pending, X_ref, dim))
