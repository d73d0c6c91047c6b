"""Bradley and Terry's link: utilities heard with Gumbel noise."""

from __future__ import annotations

from torch import Tensor

from botorch_pref.likelihoods.links.duel_link import DuelLink
from botorch_pref.numerics.logistic_normal import (
    expected_sigmoid_entropy,
    expected_sigmoid_slope,
    log_expected_sigmoid,
    sigmoid_variance,
)


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
