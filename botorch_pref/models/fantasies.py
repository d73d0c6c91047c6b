"""Duels that a model expects, from any of BoTorch's samplers."""

from __future__ import annotations

from typing import Any, cast

import torch
from botorch.posteriors.posterior import Posterior
from botorch.sampling.base import MCSampler
from botorch.sampling.pairwise_samplers import PairwiseMCSampler
from torch import Tensor

from botorch_pref.errors import FeedbackError
from botorch_pref.posteriors.duel_sampler import duels_between


def check_fantasy_points(X: Tensor) -> None:
    """Checks that there are points for a duel.

    Args:
        X: ``batch_shape x q x d``.

    Raises:
        FeedbackError: Fewer than two points.
    """
    if X.shape[-2] < 2:
        raise FeedbackError(
            f"X has shape {tuple(X.shape)}: a fantasy is about a duel of two points or "
            "more; use q=2."
        )


def fantasy_duels(sampler: MCSampler, posterior: Posterior) -> Tensor:
    """Answers drawn from a posterior with the noise of the answers.

    Utilities are drawn with that noise, and of each pair the larger one wins. With two
    points the answers have the probability that the model gives them, exactly so under
    a probit likelihood without ties. The answers about more points come from one draw
    of each, and are then taken as independent duels, as BoTorch does with
    ``PairwiseGP``.

    Args:
        sampler: Of utilities or of pairs, winner first. BoTorch's pairwise samplers,
            whose pairs have the loser first, are asked for utilities.
        posterior: Over q points, with observation noise.

    Returns:
        ``sample_shape x batch_shape x m x 2`` long, winner first.
    """
    if not isinstance(sampler, PairwiseMCSampler):
        drawn = sampler(posterior)
        return duels_between(drawn) if drawn.is_floating_point() else drawn
    # Of BoTorch's the utilities only: its pairs (0.18.1) have the loser first, where
    # models expect the winner, and cost NumPy its global state.
    utilities: Any = super(PairwiseMCSampler, sampler)
    duels = duels_between(utilities.forward(posterior))
    count = cast("int | None", sampler.max_num_comparisons)
    if count is None:
        return duels
    generator = torch.Generator().manual_seed(sampler.seed)
    order = torch.randperm(duels.shape[-2], generator=generator).to(duels.device)
    return duels[..., order[:count], :]
