"""Models conditioned on answers that they expect: BoTorch's look-ahead."""

from __future__ import annotations

from typing import Any, Self, cast

import torch
from botorch.models.model import FantasizeMixin
from botorch.posteriors.posterior import Posterior
from botorch.sampling.base import MCSampler
from botorch.sampling.pairwise_samplers import PairwiseMCSampler
from torch import Tensor

from botorch_pref.errors import FeedbackError
from botorch_pref.posteriors.duel_sampler import duels_between


class FantasiesMixin(FantasizeMixin):
    """Fantasies of duels, from any of BoTorch's samplers."""

    def fantasize(
        self,
        X: Tensor,
        sampler: MCSampler,
        observation_noise: Tensor | None = None,
        **kwargs: Any,
    ) -> Self:
        """The model conditioned on answers to the duels of some points.

        Utilities are drawn with the noise of the answers, and of each pair the larger
        one wins. With two points the answers have the probability that the model gives
        them, exactly so under a probit likelihood without ties. The answers about more
        points come from one draw of each, and are then taken as independent duels, as
        BoTorch does with ``PairwiseGP``. The answers are no differentiable function of
        ``X``; the posterior given them is.

        Args:
            X: ``batch_shape x q x d``, at least two points.
            sampler: Of utilities, as :class:`SobolQMCNormalSampler`; or of pairs,
                winner first, as
                :class:`~botorch_pref.posteriors.duel_sampler.DuelSampler`. BoTorch's
                pairwise samplers, whose pairs have the loser first, are asked for
                utilities.
            observation_noise: Variances of the noise of the answers instead of the
                likelihood's, ``batch_shape x q x 1``.
            kwargs: For ``condition_on_observations``.

        Returns:
            The new model, of batch shape ``sample_shape x batch_shape``.

        Raises:
            FeedbackError: Fewer than two points.
        """
        if X.shape[-2] < 2:
            raise FeedbackError(
                f"X has shape {tuple(X.shape)}: a fantasy is about a duel of two "
                "points or more; use q=2."
            )
        noise: Any = True if observation_noise is None else observation_noise
        duels = _duels(sampler, self.posterior(X, observation_noise=noise))
        return self.condition_on_observations(X, duels, **kwargs)


def _duels(sampler: MCSampler, posterior: Posterior) -> Tensor:
    """``sample_shape x batch_shape x m x 2`` long, winner first."""
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
