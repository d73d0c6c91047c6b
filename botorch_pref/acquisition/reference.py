"""Points that challengers meet: those observed, the incumbent, the champion."""

from __future__ import annotations

import torch
from botorch.models.model import Model
from botorch.sampling.pathwise.utils import get_train_inputs
from botorch.utils.transforms import is_ensemble
from torch import Tensor

from botorch_pref.errors import FeedbackError
from botorch_pref.numerics.argument_ranges import checked_arguments
from botorch_pref.posteriors.difference import (
    difference_mixture,
    resolved_variance,
    shared_covariance_mixture,
)


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


# Mixture components times pairs of points that are worked on at once: 2 MB in float64
# stay in the cache, which is two to three times faster than 32 MB.
_CHUNK_ELEMENTS = 2**18


def incumbent(model: Model) -> Tensor:
    r"""The observed point most likely to be better than the others.

    It maximises the expected fraction of the other observed points that it is better
    than, under their joint posterior,

    .. math:: \frac{1}{n - 1} \sum_{j \ne i} P(f(x_i) > f(x_j) \mid D),

    the soft Copeland score of Gonzalez et al. (2017) over observed points; it is the
    reference point of Benavoli, Azzimonti and Piga (2021, section 5). Two points whose
    utilities are equal, as far as rounding lets them be told apart, each win half of
    their duels. Among equal scores the
    earliest point is taken. Points that no answer is about, such as rows of a catalogue
    that nobody was shown, are not observed. See `incumbent_index`.

    Args:
        model: Any BoTorch model with training inputs whose posterior
            `difference_mixture` takes; `PairwiseGP` included. The members of an
            ensemble are averaged.

    Returns:
        The point as it was given to the model, before any input transform:
        ``1 x d``, or ``batch_shape x 1 x d`` for a batch of models.

    Raises:
        FeedbackError: If the model has no training inputs.
    """
    return points_at(observed_points(model), incumbent_index(model))


def incumbent_index(model: Model) -> Tensor:
    """Place of the `incumbent` among the model's datapoints.

    Args:
        model: See `incumbent`.

    Returns:
        A long tensor of ``batch_shape``.

    Raises:
        FeedbackError: If the model has no training inputs.
    """
    points = observed_points(model)
    shown = shown_points(model, points)
    # Of a batch of models, the points of any: others meet nobody in it.
    kept = shown.reshape(-1, shown.shape[-1]).any(0).nonzero().squeeze(-1)
    shown = shown[..., kept]
    with torch.no_grad():
        scores = _copeland_scores(model, points[..., kept, :], shown)
    scores = scores.mean(-2) if is_ensemble(model) else scores
    return kept[scores.masked_fill(~shown, -torch.inf).argmax(-1)]


def _copeland_scores(model: Model, points: Tensor, shown: Tensor) -> Tensor:
    """Expected number of shown points that each is better than, ``batch_shape x n``."""
    n, counted = points.shape[-2], shown.to(points)
    posterior = model.posterior(points)
    first, second = torch.triu_indices(n, n, offset=1, device=points.device)
    probe, _ = difference_mixture(posterior, 0, 0)
    size = max(1, _CHUNK_ELEMENTS // probe.numel())
    scores = points.new_zeros(*probe.shape[1:], n)
    _, covariance = shared_covariance_mixture(posterior)
    own = covariance.diagonal(dim1=-2, dim2=-1).clamp_min(0.0)
    for i, j in zip(first.split(size), second.split(size), strict=True):
        means, variance = difference_mixture(posterior, i, j)
        variance = resolved_variance(variance, own[..., i] + own[..., j])
        wins = 0.5 * torch.erfc(-means / (2 * variance).sqrt()).mean(0)
        scores.index_add_(-1, i, wins * counted[..., j])
        scores.index_add_(-1, j, (1 - wins) * counted[..., i])
    return scores
