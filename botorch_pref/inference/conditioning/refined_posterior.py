"""Conditioning whose weights are refined, in the space of points."""

from __future__ import annotations

import math
from abc import abstractmethod

import torch
from torch import Tensor

from botorch_pref.inference.conditioning.site_solver import (
    SitePosterior,
    SiteSolver,
    plus_identity,
    site_cholesky,
)

# Posterior deviations by which weights may be off without being refined.
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
    r"""Conditioning whose weights of points are refined until that gains no more.

    The sites leave utilities with a pull ``b`` of each point and with the precision
    ``G`` between points. Their weights :math:`w = (I + G K)^{-1} b` are refined from
    :math:`b - G \Sigma_f b` by the residual :math:`r = b - G K w - w`: each turn
    multiplies the error by about the rounding unit times the largest eigenvalue of
    ``C T``. Forces of thousands of answers that contradict each other are summed in
    ``b``, before there is anything to solve for, and rounding of the sum moves means
    by a few roundings of themselves.

    Args:
        solver: Of prior and rows.
        tau: Precisions, ``batch_shape x m``.
        gram: ``G``, ``batch_shape x n x n``.
        root: ``R`` with ``K = R R'``, ``batch_shape x n x n``.
    """

    def __init__(
        self, solver: SiteSolver, tau: Tensor, gram: Tensor, root: Tensor
    ) -> None:
        self._solver, self.tau, self._gram = solver, tau, gram
        self._cholesky = site_cholesky(plus_identity(root.mT @ gram @ root))
        # H with Sigma_f = H' H.
        self._half = torch.linalg.solve_triangular(self._cholesky, root.mT, upper=False)
        self._turns = _num_turns(
            float((tau * solver.variance).sum(-1).amax()), torch.finfo(tau.dtype).eps
        )

    @abstractmethod
    def covariance_times(self, values: Tensor) -> Tensor:
        """See base class; without a difference of large numbers."""

    def _white(self, pull: Tensor) -> Tensor:
        """Movement ``v`` of white utilities ``f = R v``, ``batch_shape x n x k``."""
        half = self._half @ pull
        return torch.linalg.solve_triangular(self._cholesky.mT, half, upper=True)

    def _weights(self, pull: Tensor) -> Tensor:
        """``w`` for pulls ``b``, both ``batch_shape x n x k``."""
        weights = pull - self._gram @ (self._half.mT @ (self._half @ pull))
        for _ in range(self._turns):
            left = pull - self._gram @ (self._solver.covar @ weights) - weights
            change = self._gram @ (self._half.mT @ (self._half @ left))
            weights = weights + left - change
        return weights

    def _points_influence(self) -> Tensor:
        """``(I + K G)^-1``, ``batch_shape x n x n``."""
        eye = torch.eye(self._gram.shape[-1], dtype=self.tau.dtype)
        return self._weights(eye.to(self.tau.device)).mT

    def cavity_ratio(self) -> Tensor:
        """See base class."""
        return 1 - self.tau * self.variance()

    def weights(self, targets: Tensor) -> Tensor:
        """See base class."""
        return self.solve(self.tau.unsqueeze(-1) * targets).weights
