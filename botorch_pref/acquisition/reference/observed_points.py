"""The points that a model has seen, and the best of them."""

from __future__ import annotations

import torch
from botorch.models.model import Model
from botorch.sampling.pathwise.utils import get_train_inputs
from botorch.utils.transforms import is_ensemble
from torch import Tensor

from botorch_pref.errors import FeedbackError


def observed_points(model: Model) -> Tensor:
    """The points that a model has seen, as they were given to it.

    Args:
        model: Any BoTorch model with training inputs. The members of an ensemble have
            seen the same points.

    Returns:
        ``n x d``, before any input transform; ``batch_shape x n x d`` for a batch of
        models.

    Raises:
        FeedbackError: If the model has no training inputs.
    """
    if not model.train_inputs:
        raise FeedbackError(
            "The best point so far is wanted of a model without observed points. Ask a "
            "first duel of two points of your choice."
        )
    with torch.no_grad():
        (points,) = get_train_inputs(model, transformed=False)
    if is_ensemble(model) and points.dim() > 2:
        return points.select(-3, 0)
    return points


def champion(model: Model) -> Tensor:
    """The observed point with the largest posterior mean.

    Args:
        model: Any BoTorch model with training inputs and one output; of an ensemble,
            its members' means are averaged.

    Returns:
        The point as it was given to the model: ``1 x d``, or ``batch_shape x 1 x d``
        for a batch of models. Among equal means, the earliest.

    Raises:
        FeedbackError: If the model has no training inputs.
    """
    points = observed_points(model)
    with torch.no_grad():
        mean = model.posterior(points).mean.squeeze(-1)  # type: ignore[attr-defined]
    return pick(points, mean.mean(-2) if is_ensemble(model) else mean)


def pick(points: Tensor, scores: Tensor) -> Tensor:
    """The point with the largest score, the earliest among equals.

    Args:
        points: ``n x d``, or ``batch_shape x n x d``.
        scores: ``batch_shape x n``.

    Returns:
        ``batch_shape x 1 x d``.
    """
    best = scores.argmax(-1)
    index = best[..., None, None].expand(*best.shape, 1, points.shape[-1])
    expanded = points.expand(*best.shape, *points.shape[-2:])
    return expanded.gather(-2, index).clone()
