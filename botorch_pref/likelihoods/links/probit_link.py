"""Thurstone's link: utilities heard with Gaussian noise."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from botorch_pref.likelihoods.links.duel_link import DuelLink
from botorch_pref.numerics.log_ndtr import log_ndtr
from botorch_pref.numerics.probit_variance import probit_win_variance

# h(Phi(x)) = sum_j c_j exp(-a_j x^2) within 8.1e-8 nats for every x; reproduced by
# benchmarks/fit_entropy_gaussians.py --terms 3.
_ENTROPY_COEFFICIENTS = (0.9999029396900049, -0.31793185570114957, 0.011176176913576474)
_ENTROPY_EXPONENTS = (0.4894522438049068, 0.5657159646826896, 0.7843069257495794)
_INV_SQRT_2PI = 1 / math.sqrt(2 * math.pi)


@dataclass(frozen=True, eq=False)
class ProbitLink(DuelLink):
    r"""Thurstone's link :math:`g(u) = \Phi(u / s)` with :math:`s^2` twice the noise.

    .. math:: E[g(u)] = \Phi\big(\mu / \sqrt{s^2 + \tau^2}\big).

    The entropy :math:`h(\Phi(x))` is replaced by a sum of three Gaussians
    :math:`\sum_j c_j e^{-a_j x^2}`, right within 8.1e-8 nats for every x, whose
    expectation is exact for every :math:`\tau`: with
    :math:`\rho_j = 1 + 2 a_j \tau^2 / s^2`,

    .. math:: E[h(g(u))] = \sum_j c_j \rho_j^{-1/2} e^{-a_j (\mu / s)^2 / \rho_j}.

    (Houlsby et al. 2011 use a single Gaussian, right within 1.9e-3 nats.)

    Args:
        noise: :math:`\sigma^2`, the variance per presented item, positive. A tensor is
            broadcast against the batch and may require a gradient.
    """

    noise: Tensor | float = 1.0

    def log_win_probability(self, mean: Tensor, variance: Tensor) -> Tensor:
        """See base class; right to rounding in both tails."""
        return log_ndtr(mean * (2 * self.noise + variance).rsqrt())

    def expected_entropy(self, mean: Tensor, variance: Tensor) -> Tensor:
        """See base class; within 8.1e-8 nats."""
        scale = 2 * self.noise
        square = mean.square() / scale
        total = torch.zeros((), dtype=mean.dtype, device=mean.device)
        # One term at a time: a mixture of 1,024 components has no room for all at once.
        for coefficient, exponent in zip(
            _ENTROPY_COEFFICIENTS, _ENTROPY_EXPONENTS, strict=True
        ):
            spread = 1 + 2 * exponent * variance / scale
            gaussian = torch.exp(-(exponent / spread) * square)
            total = total + coefficient * spread.rsqrt() * gaussian
        return total

    def win_slope(self, mean: Tensor, variance: Tensor) -> Tensor:
        """See base class: the density of ``N(0, s^2 + variance)`` at the mean."""
        inverse = (2 * self.noise + variance).rsqrt()
        return inverse * torch.exp(-0.5 * (mean * inverse).square()) * _INV_SQRT_2PI

    def win_variance(self, mean: Tensor, variance: Tensor) -> Tensor:
        """See base class; right within 1e-11 of itself."""
        return probit_win_variance(mean, variance, 2 * self.noise)
