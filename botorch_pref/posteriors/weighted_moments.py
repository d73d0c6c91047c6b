"""Moments of utilities that are linear functions of drawn weights."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from botorch_pref.linalg.batched_product import batched_product
from botorch_pref.posteriors.moments import Linear, Moments, congruence
from botorch_pref.posteriors.weight_draws import WeightDraws


class WeightedMoments(Moments):
    """Moments of ``prior mean + features @ w``, the means of draws made at first use.

    Means and covariances over draws, and the means of linear combinations, need none of
    the ``s`` means at the points themselves.

    Args:
        prior_mean: ``batch_shape x q``.
        features: ``batch_shape x q x n``.
        weights: Draws of ``w``, ``batch_shape x n x s``.
        covariance: ``batch_shape x q x q``, shared by the draws.
    """

    def __init__(
        self,
        prior_mean: Tensor,
        features: Tensor,
        weights: WeightDraws,
        covariance: Tensor,
    ) -> None:
        self.covariance = covariance
        # A view of a parameter has a graph in spite of no_grad; means are made later.
        own = prior_mean if torch.is_grad_enabled() else prior_mean.detach()
        self._prior_mean, self._features, self._weights = own, features, weights

    @cached_property
    def means(self) -> Tensor:
        """See base class."""
        # What is asked for first without a graph may be asked for later with it.
        with torch.enable_grad():
            return self.means_of(lambda points: points)

    @property
    def mean(self) -> Tensor:
        """See base class."""
        return self._prior_mean + self._times(self._weights.mean).squeeze(-1)

    @property
    def spread(self) -> Tensor:
        """See base class."""
        return self._times(self._weights.root)

    def means_of(self, linear: Linear) -> Tensor:
        """See base class."""
        prior = linear(self._prior_mean.unsqueeze(-1)).squeeze(-1)
        shift = batched_product(linear(self._features), self._weights.values)
        return prior + shift.movedim(-1, 0)

    def combined(self, linear: Linear, offset: float | Tensor = 0.0) -> Moments:
        """See base class."""
        return WeightedMoments(
            linear(self._prior_mean.unsqueeze(-1)).squeeze(-1) + offset,
            linear(self._features),
            self._weights,
            congruence(linear, self.covariance),
        )

    def with_more_covariance(self, covariance: Tensor) -> Moments:
        """See base class."""
        return WeightedMoments(
            self._prior_mean,
            self._features,
            self._weights,
            self.covariance + covariance,
        )

    def _times(self, matrix: Tensor) -> Tensor:
        return batched_product(self._features, matrix)
