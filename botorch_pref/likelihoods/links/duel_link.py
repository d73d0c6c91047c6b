r"""The link of a duel: how its answer follows from the difference of two utilities.

The difference is :math:`u \sim N(\mu, \tau^2)` and the first item wins with probability
:math:`g(u)`, where :math:`g` is the link. A link gives

.. math:: \log E[g(u)] \quad \text{and} \quad E[h(g(u))],
    \qquad h(p) = -p \log p - (1 - p) \log (1 - p),

in nats. Gauss-Hermite quadrature of the second fails where :math:`\tau` is large beside
the width of the link; links hold for every :math:`\tau \ge 0`. For what looks ahead it
also gives the slope :math:`dE[g(u)] / d\mu` and the variance of :math:`g(u)`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor


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
