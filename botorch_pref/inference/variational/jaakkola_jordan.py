"""Jaakkola and Jordan's lower bound of logistic factors."""

from __future__ import annotations

from torch import Tensor

from botorch_pref.inference.variational.gaussian_bound import Bound
from botorch_pref.inference.variational.softmax_bounds import (
    bound_curvature,
    bound_intercept,
    profile_curvature,
)
from botorch_pref.linalg.sparse_design import SparseDesign


class JaakkolaJordanBound(Bound):
    r"""Jaakkola and Jordan's bound, with a parameter :math:`\zeta` for each pair.

    Wins and losses of a pair have the same bound but for its linear term.

    Args:
        rows: Differences, winner minus loser.
        wins: How often the winner won, ``batch_shape x m``; 0 where a row stands for
            nothing.
        losses: How often it lost, ``batch_shape x m``.
    """

    def __init__(self, rows: SparseDesign, wins: Tensor, losses: Tensor) -> None:
        self.rows, self.num_parameters = rows, rows.num_rows
        self._answers, self._net = wins + losses, wins - losses

    def best(self, mean: Tensor, variance: Tensor) -> Tensor:
        """See base class; equation 19 of Guo et al. (2020)."""
        return (variance + mean.square()).sqrt()

    def sites(self, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """See base class."""
        tau = self._answers * 2 * bound_curvature(parameters)
        return tau, (0.5 * self._net).expand_as(tau)

    def curvature(
        self, parameters: Tensor, mean: Tensor, variance: Tensor
    ) -> tuple[Tensor, SparseDesign | None]:
        """See base class."""
        return self._answers * profile_curvature(mean, variance), None

    def intercept(self, parameters: Tensor) -> Tensor:
        """See base class."""
        return (self._answers * bound_intercept(parameters)).sum(-1)
