"""Logistic factors (Bradley-Terry)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from botorch_pref.feedback.sparse_rows import SparseRows
from botorch_pref.likelihoods.factors import Factors, LogDerivatives, LogPartition
from botorch_pref.numerics.log_concave_quadrature import (
    log_concave_integral,
    tilted_mode,
)


class LogitFactors(Factors):
    r"""Rows whose answer is a win with probability :math:`1 / (1 + e^{-z_i})`.

    With :math:`p` the probability of a loss, the derivatives of
    :math:`\log p(y_i \mid z_i)` are :math:`p`, :math:`-p (1 - p)` and
    :math:`p (1 - p) (1 - 2 p)`.

    Args:
        rows: ``A``, m rows.
    """

    def __init__(self, rows: SparseRows) -> None:
        self.rows = rows

    def log_prob(self, z: Tensor) -> LogDerivatives:
        """See base class."""
        win, loss = torch.sigmoid(z), torch.sigmoid(-z)
        curvature = win * loss
        return LogDerivatives(
            logsigmoid(z), loss, -curvature, curvature * (win - loss)
        )

    def log_partition(self, mean: Tensor, variance: Tensor) -> LogPartition:
        """See base class; by quadrature, see :func:`log_concave_integral`."""
        with torch.no_grad():
            mode = tilted_mode(
                lambda z: self.log_prob(z)[1:3], mean.detach(), variance.detach()
            )
        return LogPartition(
            *log_concave_integral(
                lambda z: self.log_prob(z)[:3], mean, variance, mode
            )
        )
