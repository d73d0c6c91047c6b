"""The points that a model has seen, and the best of them."""

from __future__ import annotations

import torch
from botorch.models.model import Model
from botorch.sampling.pathwise.utils import get_train_inputs
from botorch.utils.transforms import is_ensemble
from torch import Tensor

from botorch_pref.errors import FeedbackError
from botorch_pref.numerics.argument_ranges import checked_arguments


@checked_arguments
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


def shown_points(model: Model, points: Tensor) -> Tensor:
    """Truth of whether points were in an answer.

    Rows of a catalogue that nobody has been shown are no observed points, though the
    model has them among its datapoints.

    Args:
        model: One of ours knows its answers; of another, every point counts, and so
            it does where there is no answer yet.
        points: See `observed_points`.

    Returns:
        Booleans, ``n`` or ``batch_shape x n``.
    """
    n, blocks = points.shape[-2], getattr(model, "feedback", ())
    shown = torch.zeros(n, dtype=torch.bool, device=points.device)
    for block in blocks:
        for name in block.index_fields:
            indices = getattr(block, name)
            if name in block.wide_fields:
                indices = indices.flatten(-2)
            batch = torch.broadcast_shapes(shown.shape[:-1], indices.shape[:-1])
            # The last place takes the padding, -1.
            room = torch.zeros(*batch, n + 1, dtype=torch.bool, device=points.device)
            places = indices.expand(*batch, -1) % (n + 1)
            said = room.scatter(-1, places, True)[..., :n]
            shown = shown | said
    if is_ensemble(model) and shown.dim() > 1:
        # Members have seen the same answers.
        shown = shown.select(-2, 0)
    return shown if shown.any() else ~shown


def champion(model: Model) -> Tensor:
    """The observed point with the largest posterior mean.

    Args:
        model: Any BoTorch model with training inputs and one output; of an ensemble,
            its members' means are averaged.

    Returns:
        The point as it was given to the model: ``1 x d``, or ``batch_shape x 1 x d``
        for a batch of models. Among equal means, the earliest. See `champion_index`.

    Raises:
        FeedbackError: If the model has no training inputs.
    """
    return points_at(observed_points(model), champion_index(model))


def champion_index(model: Model) -> Tensor:
    """Place of the `champion` among the model's datapoints.

    Points that no answer is about, such as rows of a catalogue that nobody was shown,
    do not count.

    Args:
        model: See `champion`.

    Returns:
        A long tensor of ``batch_shape``.

    Raises:
        FeedbackError: If the model has no training inputs.
    """
    points = observed_points(model)
    with torch.no_grad():
        mean = model.posterior(points).mean.squeeze(-1)  # type: ignore[attr-defined]
    mean = mean.mean(-2) if is_ensemble(model) else mean
    return mean.masked_fill(~shown_points(model, points), -torch.inf).argmax(-1)


def points_at(points: Tensor, index: Tensor) -> Tensor:
    """Some of the points of a model.

    Args:
        points: ``n x d``, or ``batch_shape x n x d``.
        index: Their places, ``batch_shape``.

    Returns:
        ``batch_shape x 1 x d``.
    """
    places = index[..., None, None].expand(*index.shape, 1, points.shape[-1])
    expanded = points.expand(*index.shape, *points.shape[-2:])
    return expanded.gather(-2, places).clone()
