"""Gaussian moments as BoTorch's posterior."""

from __future__ import annotations

from botorch.posteriors.gpytorch import GPyTorchPosterior
from torch import Tensor

from botorch_pref.linalg.semidefinite_operator import SemidefiniteLinearOperator
from botorch_pref.numerics.mixtures.narrowest_interval import narrowest_interval
from botorch_pref.posteriors.moments import Moments
from botorch_pref.posteriors.semidefinite_normal import SemidefiniteNormal


class GaussianPosterior(GPyTorchPosterior):
    """Gaussian posterior of utilities: BoTorch's, with credible intervals."""

    def interval(self, level: float) -> tuple[Tensor, Tensor]:
        """Narrowest marginal credible intervals, which lie around the mean.

        Args:
            level: Probability of each interval, in (0, 1).

        Returns:
            Lower and upper ends, each ``batch_shape x q x 1``.
        """
        variance = self.variance.clamp_min(0.0)
        return narrowest_interval(self.mean.unsqueeze(0), variance, level)


def gaussian_posterior(moments: Moments) -> GaussianPosterior:
    """A Gaussian posterior of utilities.

    Args:
        moments: Of one component.
    """
    # An operator, because a tensor is factored at once, needed or not.
    covariance = SemidefiniteLinearOperator(moments.covariance)
    return GaussianPosterior(SemidefiniteNormal(moments.mean, covariance))
