"""Gaussians with a singular covariance."""

from __future__ import annotations

from gpytorch.distributions import MultivariateNormal
from torch import Tensor


class SemidefiniteNormal(MultivariateNormal):
    """A Gaussian whose covariance may be singular.

    GPyTorch's raises variances to 1e-10, with a warning: the difference of a point from
    itself has none, nor has a tiny one of a kernel with a small output scale.

    Args:
        mean: ``batch_shape x q``.
        covariance_matrix: ``batch_shape x q x q``, positive semi-definite.
    """

    @property
    def variance(self) -> Tensor:
        """Variances, ``batch_shape x q``; what rounding leaves below zero is zero."""
        diagonal = self.lazy_covariance_matrix.diagonal(dim1=-2, dim2=-1)
        return diagonal.clamp_min(0.0).expand(self.batch_shape + self.event_shape)
