"""Fantasies of duels: quasi-random draws of utilities, and the winners by them."""

from __future__ import annotations

import torch
from botorch.posteriors.posterior import Posterior
from botorch.sampling.normal import SobolQMCNormalSampler
from torch import Tensor

from botorch_pref.numerics.argument_ranges import checked_arguments


def duels_between(utilities: Tensor) -> Tensor:
    """Every duel of some items, won by the larger utility.

    Args:
        utilities: ``batch_shape x q x 1``, with the noise of the answers.

    Returns:
        ``batch_shape x q (q - 1) / 2 x 2`` long, indices of items, winner first.
    """
    heard = utilities.squeeze(-1)
    pairs = torch.combinations(torch.arange(heard.shape[-1], device=heard.device))
    first, second = pairs.unbind(-1)
    lost = heard[..., first] < heard[..., second]
    return torch.where(lost.unsqueeze(-1), pairs.flip(-1), pairs)


class DuelSampler(SobolQMCNormalSampler):
    """Answers to the duels of ``q`` points, drawn from their posterior.

    What BoTorch's ``PairwiseSobolQMCNormalSampler`` is for, but with the winner first,
    as ``PairwiseGP`` takes pairs too (BoTorch's, in 0.18.1, have the loser first), and
    without global seeds: Sobol points come from a generator of their own, so that equal
    seeds give equal answers and no random state but this one is read or changed.

    Base samples are shared by t-batches, and the answers about all ``q`` points are
    those of one draw of utilities. Any posterior that takes normal base samples will
    do: Gaussian ones, also of BoTorch's ``PairwiseGP``, and
    :class:`~botorch_pref.posteriors.skew_normal_posterior.SkewNormalPosterior`.

    Args:
        sample_shape: Shape of the set of draws.
        seed: Of the Sobol points.
    """

    @checked_arguments
    def __init__(self, sample_shape: torch.Size, seed: int = 0) -> None:
        super().__init__(sample_shape=sample_shape, seed=seed)

    def forward(self, posterior: Posterior) -> Tensor:
        """Draws the answers to all duels of the points.

        Args:
            posterior: Over ``batch_shape x q x 1``; with the noise of the answers, or
                the better utility always wins.

        Returns:
            ``sample_shape x batch_shape x q (q - 1) / 2 x 2`` long, indices of points,
            winner first: the ``Y`` of ``condition_on_observations``.
        """
        return duels_between(super().forward(posterior))
