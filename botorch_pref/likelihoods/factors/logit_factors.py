"""Logistic factors (Bradley-Terry)."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from botorch_pref.likelihoods.factors.factors import (
    LogDerivatives,
    LogPartition,
    ScalarFactors,
)
from botorch_pref.linalg.sparse_design import SparseDesign
from botorch_pref.numerics.log_concave_quadrature import (
    log_concave_integral,
    tilted_mode,
)
from botorch_pref.numerics.logistic_normal import log_expected_sigmoid_derivatives

# Variances from here on, of 32 deviations or widths of the logistic function's bend,
# are the series's, which the quadrature would take a thousand nodes for.
_WIDE = 1024.0


def logit_log_prob(z: Tensor) -> LogDerivatives:
    r""":math:`\log \sigma(z)` and two derivatives.

    With :math:`p` the probability of a loss these are :math:`p` and
    :math:`-p (1 - p)`.

    Args:
        z: Any shape.
    """
    loss = torch.sigmoid(-z)
    return LogDerivatives(logsigmoid(z), loss, -torch.sigmoid(z) * loss)


def logit_partition(mean: Tensor, variance: Tensor) -> LogPartition:
    r""":math:`\log \int \sigma(z) N(z; \mu, s) dz` and its derivatives in the mean.

    By quadrature, see :func:`.log_concave_integral`; where the Gaussian is much wider
    than the bend of :math:`\sigma`, which nodes would then miss, by a series, see
    :func:`log_expected_sigmoid_derivatives`. Right within 1e-8 of themselves at any
    variance.

    Args:
        mean: ``mu``, any shape.
        variance: ``s``, positive, like ``mean``.
    """
    wide = variance.detach() > _WIDE
    if not bool(wide.any()):
        return _partition_by_quadrature(mean, variance)
    narrow = _partition_by_quadrature(
        torch.where(wide, 0.0, mean), torch.where(wide, 1.0, variance)
    )
    series = log_expected_sigmoid_derivatives(
        torch.where(wide, mean, 0.0), torch.where(wide, variance, _WIDE)
    )
    both = zip(series, narrow, strict=True)
    return LogPartition(*(torch.where(wide, far, near) for far, near in both))


def _partition_by_quadrature(mean: Tensor, variance: Tensor) -> LogPartition:
    with torch.no_grad():
        mode = tilted_mode(
            lambda z: logit_log_prob(z)[1:], mean.detach(), variance.detach()
        )
    moments = log_concave_integral(logit_log_prob, mean, variance, mode, math.pi)
    return LogPartition(*moments)


class LogitFactors(ScalarFactors):
    r"""Rows whose answer is a win with probability :math:`\sigma(z_i)`.

    Args:
        rows: ``A``, m rows.
    """

    def __init__(self, rows: SparseDesign) -> None:
        self.rows = rows

    def log_prob(self, z: Tensor) -> LogDerivatives:
        """See base class."""
        return logit_log_prob(z)

    def curvature_gradient(self, z: Tensor, weights: Tensor) -> Tensor:
        """See base class."""
        win, loss = torch.sigmoid(z), torch.sigmoid(-z)
        return weights * win * loss * (win - loss)

    def log_partition(self, mean: Tensor, variance: Tensor) -> LogPartition:
        """See base class."""
        return logit_partition(mean, variance)
