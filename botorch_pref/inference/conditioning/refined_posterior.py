"""Conditioning whose forces are refined, in the space of points."""

from __future__ import annotations

import math
from abc import abstractmethod

import torch
from torch import Tensor

from botorch_pref.inference.conditioning.site_solver import (
    Balance,
    SitePosterior,
    SiteSolver,
)

# Posterior deviations by which forces may be off without being refined.
_NEGLIGIBLE = 1e-9
_SLOWEST, _MAX_TURNS = 0.1, 6


def _num_turns(largest: float, eps: float) -> int:
    """Number of refinements wanted at a largest eigenvalue of ``C T``."""
    if not eps * largest * math.sqrt(max(largest, 0.0)) > _NEGLIGIBLE:
        return 0
    if eps * largest > _SLOWEST:
        return _MAX_TURNS
    return math.ceil(math.log(largest) / -math.log(eps * largest))


class RefinedPosterior(SitePosterior):
    r"""Conditioning whose forces are refined until rounding leaves no more to gain.

    From :math:`s - T \Sigma s` by :math:`a \mapsto a + (I - T \Sigma) r` with the
    residual :math:`r = s - T C a - a`, whatever the signs of ``T``: each turn
    multiplies the error by about the rounding unit times the largest eigenvalue of
    ``C T``.

    Args:
        solver: Of prior and rows.
        tau: Precisions, ``batch_shape x m``.
    """

    def __init__(self, solver: SiteSolver, tau: Tensor) -> None:
        self._solver, self.tau = solver, tau
        self._turns = _num_turns(
            float((tau * solver.variance).sum(-1).amax()), torch.finfo(tau.dtype).eps
        )

    @abstractmethod
    def covariance_times(self, values: Tensor) -> Tensor:
        """See base class; without a difference of large numbers."""

    def solve(self, shifts: Tensor) -> Balance:
        """See base class."""
        tau, moved = self.tau.unsqueeze(-1), self.covariance_times(shifts)
        forces = shifts - tau * moved
        for _ in range(self._turns):
            left = shifts - tau * self._solver.prior_times(forces) - forces
            forces = forces + left - tau * self.covariance_times(left)
        return Balance(forces, moved)

    def cavity_ratio(self) -> Tensor:
        """See base class."""
        return 1 - self.tau * self.variance()

    def weights(self, targets: Tensor) -> Tensor:
        """See base class."""
        forces = self.solve(self.tau.unsqueeze(-1) * targets).forces
        return self._solver.rows.adjoint_matrix(forces)
