r"""What a duel is expected to answer: win probability, entropy and information gain.

The difference of two utilities is :math:`u \sim N(\mu, \tau^2)` and the first item wins
with probability :math:`g(u)`, where :math:`g` is the link. A link gives, in closed
form,

.. math:: \log E[g(u)] \quad \text{and} \quad E[h(g(u))],
    \qquad h(p) = -p \log p - (1 - p) \log (1 - p),

in nats. Gauss-Hermite quadrature of the second fails where :math:`\tau` is large beside
the width of the link; these forms hold for every :math:`\tau \ge 0`. For what looks
ahead it also gives the slope :math:`dE[g(u)] / d\mu` and the variance of :math:`g(u)`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from botorch.utils.probability.utils import log_ndtr
from torch import Tensor

from botorch_pref.numerics.logistic_normal import (
    expected_sigmoid_entropy,
    expected_sigmoid_slope,
    log_expected_sigmoid,
    sigmoid_variance,
)
from botorch_pref.numerics.probit_variance import probit_win_variance

# h(Phi(x)) = sum_j c_j exp(-a_j x^2) within 8.1e-8 nats for every x; reproduced by
# benchmarks/fit_entropy_gaussians.py --terms 3.
_ENTROPY_COEFFICIENTS = (0.9999029396900049, -0.31793185570114957, 0.011176176913576474)
_ENTROPY_EXPONENTS = (0.4894522438049068, 0.5657159646826896, 0.7843069257495794)
_INV_SQRT_2PI = 1 / math.sqrt(2 * math.pi)


def binary_entropy(log_p: Tensor, log_q: Tensor) -> Tensor:
    r"""Entropy :math:`-p \log p - q \log q` in nats.

    Args:
        log_p: Log probability of one answer, any shape.
        log_q: Log probability of the other, :math:`q = 1 - p`, same shape: given apart
            so that neither tail loses its digits.

    Returns:
        The entropy, same shape, in [0, log 2].
    """
    return -(log_p.exp() * log_p + log_q.exp() * log_q)


class DuelLink(ABC):
    """Probability that the first item wins, given the difference of utilities."""

    @abstractmethod
    def log_win_probability(self, mean: Tensor, variance: Tensor) -> Tensor:
        r"""Logarithm of the win probability, :math:`\log E[g(u)]`.

        The link is symmetric: a loss has the log probability at ``-mean``.

        Args:
            mean: Mean of the difference, broadcastable with ``variance``.
            variance: Its variance, nonnegative.

        Returns:
            Log probability, at most 0, of the broadcast shape.
        """

    @abstractmethod
    def expected_entropy(self, mean: Tensor, variance: Tensor) -> Tensor:
        """Expected entropy of the answer once the utilities are known.

        Args:
            mean: Mean of the difference, broadcastable with ``variance``.
            variance: Its variance, nonnegative.

        Returns:
            Nats, in [0, log 2] up to the link's stated error, of the broadcast shape.
        """

    @abstractmethod
    def win_slope(self, mean: Tensor, variance: Tensor) -> Tensor:
        r"""Slope of the win probability, :math:`E[g'(u)] = dE[g(u)] / d\mu`.

        Args:
            mean: Mean of the difference, broadcastable with ``variance``.
            variance: Its variance, nonnegative.

        Returns:
            Slopes of the broadcast shape, nonnegative.
        """

    @abstractmethod
    def win_variance(self, mean: Tensor, variance: Tensor) -> Tensor:
        r"""Variance of the win probability, :math:`Var[g(u)]`: what is not yet known.

        Args:
            mean: Mean of the difference, broadcastable with ``variance``.
            variance: Its variance, nonnegative.

        Returns:
            Variances of the broadcast shape, in [0, 1/4].
        """

    def win_probability(self, mean: Tensor, variance: Tensor) -> Tensor:
        """Win probability; arguments as in :meth:`log_win_probability`."""
        return self.log_win_probability(mean, variance).exp()


def win_and_information(
    link: DuelLink, means: Tensor, variance: Tensor
) -> tuple[Tensor, Tensor]:
    r"""Log probability of a win, and what the answer tells about the utilities.

    The mutual information of the answer and the difference of utilities,

    .. math:: IG = h\big(E[g(u)]\big) - E[h(g(u))],

    in nats: the entropy of the answer less the part that is the judge's noise (Houlsby
    et al. 2011, eq. 2, "Bayesian active learning by disagreement").

    Args:
        link: How the answer follows from the difference :math:`u`.
        means: ``num_components x batch_shape``, components of equal weight.
        variance: ``batch_shape``, of each component, nonnegative.

    Returns:
        :math:`\log E[g(u)]` and :math:`IG`, each ``batch_shape``. The latter is in
        [0, log 2] up to the link's stated error.
    """
    log_win = _log_mean(link.log_win_probability(means, variance))
    log_loss = _log_mean(link.log_win_probability(-means, variance))
    remaining = link.expected_entropy(means, variance).mean(0)
    return log_win, binary_entropy(log_win, log_loss) - remaining


def _log_mean(log_values: Tensor) -> Tensor:
    """Logarithm of the mean over the first dimension."""
    if log_values.shape[0] == 1:
        return log_values[0]
    return log_values.logsumexp(0) - math.log(log_values.shape[0])


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
        """See base class; right within 1e-12 of itself."""
        return probit_win_variance(mean, variance, 2 * self.noise)


class LogitLink(DuelLink):
    r"""Bradley and Terry's link :math:`g(u) = 1 / (1 + e^{-u})`.

    Both expectations are fast series that are right to rounding, see
    :mod:`botorch_pref.numerics.logistic_normal`.
    """

    def log_win_probability(self, mean: Tensor, variance: Tensor) -> Tensor:
        """See base class; right to rounding in both tails."""
        return log_expected_sigmoid(mean, variance)

    def expected_entropy(self, mean: Tensor, variance: Tensor) -> Tensor:
        """See base class; right to rounding."""
        return expected_sigmoid_entropy(mean, variance)

    def win_slope(self, mean: Tensor, variance: Tensor) -> Tensor:
        """See base class; right within 1e-12 of itself."""
        return expected_sigmoid_slope(mean, variance)

    def win_variance(self, mean: Tensor, variance: Tensor) -> Tensor:
        """See base class; right within 1e-12."""
        return sigmoid_variance(mean, variance)
