r"""Links of duels: how an answer follows from the difference of two utilities.

The difference is :math:`u \sim N(\mu, \tau^2)` and the first item wins with probability
:math:`g(u)`, where :math:`g` is the link. A link gives

.. math:: \log E[g(u)] \quad \text{and} \quad E[h(g(u))],
    \qquad h(p) = -p \log p - (1 - p) \log (1 - p),

in nats. Gauss-Hermite quadrature of the second fails where :math:`\tau` is large beside
the width of the link; links hold for every :math:`\tau \ge 0`. For what looks ahead it
also gives the slope :math:`dE[g(u)] / d\mu` and the variance of :math:`g(u)`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from botorch_pref.numerics.bend_quadrature import bend_nodes, bend_width
from botorch_pref.numerics.logistic_normal import (
    expected_sigmoid_entropy,
    expected_sigmoid_slope,
    log_expected_sigmoid,
    sigmoid_variance,
)
from botorch_pref.numerics.mixtures import standard_deviation
from botorch_pref.numerics.normal import log_ndtr, probit_win_variance


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
    log_win = log_mean(link.log_win_probability(means, variance))
    log_loss = log_mean(link.log_win_probability(-means, variance))
    remaining = link.expected_entropy(means, variance).mean(0)
    return log_win, binary_entropy(log_win, log_loss) - remaining


def log_mean(log_values: Tensor) -> Tensor:
    """Logarithm of the mean over the first dimension.

    Args:
        log_values: ``num_components x batch_shape``, logarithms of what is averaged.

    Returns:
        ``batch_shape``.
    """
    if log_values.shape[0] == 1:
        return log_values[0]
    return log_values.logsumexp(0) - math.log(log_values.shape[0])


def answer_correlation(link: DuelLink, means: Tensor, variance: Tensor) -> Tensor:
    r"""Correlation of a win with the difference of utilities.

    With the answer :math:`y`, 1 for a win and 0 for a loss, and
    :math:`G = E[y] = E[g(u)]`, Stein's identity gives for a mixture of :math:`S`
    Gaussians :math:`N(\mu_s, \tau^2)` with the mean :math:`\mu`

    .. math:: \rho = \frac{\operatorname{cov}(u, y)}
        {\sqrt{\operatorname{var}(u) \, G (1 - G)}}, \qquad
        \operatorname{cov}(u, y) = \frac1S \sum_s \Big( (\mu_s - \mu) E_s[g(u)]
        + \tau^2 E_s[g'(u)] \Big).

    A mean given :math:`y` is linear in :math:`y`, which has two values, so that
    :math:`\rho^2` is the share of the variance of :math:`u` that the answer is expected
    to take away: at most :math:`2 / \pi` under a Gaussian, without noise and for even
    chances, and 0 for an answer that is known already.

    Args:
        link: How the answer follows from the difference :math:`u`.
        means: ``num_components x batch_shape``, components of equal weight.
        variance: ``batch_shape``, of each component, positive.

    Returns:
        ``batch_shape``, in [0, 1].
    """
    log_wins = link.log_win_probability(means, variance)
    log_losses = link.log_win_probability(-means, variance)
    deviation = means - means.mean(0)
    total = variance + deviation.square().mean(0)
    slope = link.win_slope(means, variance).mean(0)
    covariance = (deviation * log_wins.exp()).mean(0) + variance * slope
    # In logarithms, so that a certain answer has a deviation with a derivative.
    deviations = (0.5 * (log_mean(log_wins) + log_mean(log_losses))).exp()
    tiny = torch.finfo(deviations.dtype).tiny
    return covariance / (deviations * total.sqrt()).clamp_min(tiny)


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


class QuadratureLink(DuelLink):
    r"""A link :math:`g(u)` that is known by its values.

    Expectations are sums over the nodes of
    :mod:`~botorch_pref.numerics.bend_quadrature`, which resolve the Gaussian and the
    link however much wider one is than the other. For a link that rises once, around 0,
    and is analytic within its own width of the real line (probit, logit, noise of
    Student's t, with or without lapses) they are right within 1e-9; the logarithm of
    the win probability is, as far as the mean is within 116 deviations of 0.

    Args:
        win: :math:`g`, elementwise, of any shape; probabilities in [0, 1]. Its
            parameters are broadcast against the batch and may require gradients.
    """

    def __init__(self, win: Callable[[Tensor], Tensor]) -> None:
        self._win = win

    def log_win_probability(self, mean: Tensor, variance: Tensor) -> Tensor:
        """See base class; right within 1e-9, see above."""
        u, weights = self._nodes(mean, variance)
        # Normalised, so that no rounding makes a probability larger than one.
        logs = self._positive(u).log() + weights.log_softmax(0)
        return logs.logsumexp(0).clamp_max(0.0)

    def expected_entropy(self, mean: Tensor, variance: Tensor) -> Tensor:
        """See base class; within 1e-9 nats."""
        u, weights = self._nodes(mean, variance)
        win, loss = self._positive(u), self._positive(-u)
        entropy = -(win * win.log() + loss * loss.log())
        return (weights.softmax(0) * entropy).sum(0)

    def win_slope(self, mean: Tensor, variance: Tensor) -> Tensor:
        """See base class; of the automatic derivative of the link."""
        keep = torch.is_grad_enabled() and self._win(mean).requires_grad
        with torch.enable_grad():
            u, weights = self._nodes(mean, variance)
            u = u if u.requires_grad else u.requires_grad_()
            (slope,) = torch.autograd.grad(self._win(u).sum(), u, create_graph=keep)
        return (weights.softmax(0) * slope).sum(0)

    def win_variance(self, mean: Tensor, variance: Tensor) -> Tensor:
        """See base class; of differences from the link at the mean."""
        u, weights = self._nodes(mean, variance)
        change, weights = self._win(u) - self._win(mean), weights.softmax(0)
        square = (weights * change.square()).sum(0)
        return (square - (weights * change).sum(0).square()).clamp_min(0.0)

    def _positive(self, u: Tensor) -> Tensor:
        return self._win(u).clamp_min(torch.finfo(u.dtype).tiny)

    def _nodes(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """Nodes that move with mean and deviation, and constant log weights."""
        mean, variance = torch.broadcast_tensors(mean, variance)
        width = self._width(mean)
        shape = torch.broadcast_shapes(mean.shape, width.shape)
        mean, variance, width = (v.expand(shape) for v in (mean, variance, width))
        nodes, weights = bend_nodes(
            mean.detach(), variance.detach(), torch.zeros_like(width), width
        )
        return mean + standard_deviation(variance) * nodes, weights

    def _width(self, mean: Tensor) -> Tensor:
        """Difference at which the link has done half of its rise from 0."""
        zero = mean.new_zeros((1,) * mean.dim())

        def changed(u: Tensor) -> Tensor:
            start, end = self._win(zero), self._win(u[-1])
            return self._win(u) - start >= 0.5 * (end - start)

        return bend_width(changed, zero, zero)
