"""Models conditioned on answers that they expect: BoTorch's look-ahead."""

from __future__ import annotations

from typing import Any, Self

from botorch.models.model import FantasizeMixin
from botorch.sampling.base import MCSampler
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
            sampler: Of utilities, as :class:`SobolQMCNormalSampler`; or of pairs, as
                :class:`~botorch_pref.posteriors.duel_sampler.DuelSampler` and BoTorch's
                pairwise samplers.
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
        heard = sampler(self.posterior(X, observation_noise=noise))
        duels = duels_between(heard) if heard.is_floating_point() else heard
        return self.condition_on_observations(X, duels, **kwargs)
