"""Logistic factors (Bradley-Terry)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from botorch_pref.likelihoods.factors.factors import (
    GroupsOf,
    LogDerivatives,
    LogPartition,
    ScalarFactors,
    TiltedSlopes,
)
from botorch_pref.linalg.sparse_design import SparseDesign
from botorch_pref.numerics.log_concave_quadrature import (
    LogConcave,
    log_concave_integral,
)
from botorch_pref.numerics.peaked_quadrature import TiltedMoments


class LogitFactors(ScalarFactors):
    r"""Rows whose answers are wins with probability :math:`\sigma(z_i)`.

    .. math:: p(y_i \mid z_i) = \sigma(z_i)^{a_i} \, \sigma(-z_i)^{b_i} .

    Args:
        rows: ``A``, m rows.
        wins: ``a``, ``batch_shape x m``; None for one each.
        losses: ``b``, ``batch_shape x m``; None for none.
    """

    takes_counts = True

    def __init__(
        self,
        rows: SparseDesign,
        wins: Tensor | None = None,
        losses: Tensor | None = None,
    ) -> None:
        self.rows = rows
        like = rows.coefficients[..., 0]
        self.wins = torch.ones_like(like) if wins is None else wins.to(like)
        self.losses = torch.zeros_like(like) if losses is None else losses.to(like)

    def merged(self, counts: Tensor | None, groups_of: GroupsOf) -> LogitFactors:
        """See base class: a row has the sums of wins and losses."""
        groups = groups_of(self.rows, None, True)
        if groups is None and counts is None:
            return self
        wins, losses = self.wins, self.losses
        if counts is not None:
            wins, losses = wins * counts, losses * counts
        if groups is None:
            return LogitFactors(self.rows, wins, losses)
        same = groups.sign > 0
        won = torch.where(same, wins, losses), torch.where(same, losses, wins)
        return LogitFactors(groups.merged(self.rows), *map(groups.total, won))

    def log_prob(self, z: Tensor) -> LogDerivatives:
        """See base class."""
        return LogDerivatives(*_log_prob(self.wins, self.losses, z))

    def curvature_gradient(self, z: Tensor, weights: Tensor) -> Tensor:
        """See base class."""
        win, loss = torch.sigmoid(z), torch.sigmoid(-z)
        return weights * (self.wins + self.losses) * win * loss * (win - loss)

    def log_partition(self, mean: Tensor, variance: Tensor) -> LogPartition:
        """See base class; by quadrature, see :func:`.log_concave_integral`."""
        return LogPartition(*self._tilted(mean, variance)[:3])

    def tilted_slopes(self, mean: Tensor, variance: Tensor) -> TiltedSlopes:
        """See base class."""
        return TiltedSlopes(*self._tilted(mean, variance)[1:])

    def _tilted(self, mean: Tensor, variance: Tensor) -> TiltedMoments:
        mean, variance, _ = torch.broadcast_tensors(mean, variance, self.wins)
        return log_concave_integral(self._of_rows, mean, variance)

    def _of_rows(self, places: Tensor | None) -> LogConcave:
        wins, losses = self.wins.double(), self.losses.double()
        if places is not None:
            wins, losses = wins[..., places], losses[..., places]
        return lambda z: _log_prob(wins, losses, z)


def _log_prob(wins: Tensor, losses: Tensor, z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    win, loss = torch.sigmoid(z), torch.sigmoid(-z)
    value = wins * logsigmoid(z) + losses * logsigmoid(-z)
    return value, wins * loss - losses * win, -(wins + losses) * win * loss
