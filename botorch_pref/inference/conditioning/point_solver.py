"""Conditioning in the space of points, for answers that outnumber them."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from botorch_pref.inference.conditioning.refined_posterior import RefinedPosterior
from botorch_pref.inference.conditioning.site_solver import (
    Balance,
    Response,
    SitePosterior,
    SiteSolver,
    log_det,
    plus_identity,
    site_cholesky,
)
from botorch_pref.linalg.noise_blocks import NoiseBlocks
from botorch_pref.linalg.psd_root import psd_root
from botorch_pref.linalg.sparse_design import SparseDesign


class _PointFactor(RefinedPosterior):
    _solver: PointSolver

    def __init__(self, solver: PointSolver, tau: Tensor) -> None:
        self._rows = solver.rows
        super().__init__(solver, tau, self._rows.gram(tau), solver.root)

    @property
    def log_det(self) -> Tensor:
        """See base class."""
        return log_det(self._cholesky)

    @property
    def batch_shape(self) -> torch.Size:
        """See base class."""
        return self._cholesky.shape[:-2]

    def solve(self, shifts: Tensor) -> Balance:
        """See base class."""
        pull = self._rows.adjoint_matrix(shifts)
        white = self._white(pull)
        moved = self._rows.apply_matrix(self._solver.root @ white)
        forces = shifts - self.tau.unsqueeze(-1) * moved
        return Balance(forces, moved, self._weights(pull), white.square().sum(-2))

    def respond(self, pull: Tensor) -> Response:
        """See base class; the decrement is a sum of squares."""
        half = torch.linalg.solve_triangular(
            self._cholesky, pull.unsqueeze(-1), upper=False
        )
        moved = torch.linalg.solve_triangular(self._cholesky.mT, half, upper=True)
        moved = moved.squeeze(-1)
        return Response(moved, moved, half.square().sum((-2, -1)))

    def covariance_times(self, values: Tensor) -> Tensor:
        """See base class."""
        inner = self._half @ self._rows.adjoint_matrix(values)
        return self._rows.apply_matrix(self._half.mT @ inner)

    def influence(self) -> Tensor:
        """See base class."""
        return self._rows.apply_matrix(self._points_influence())

    def variance(self) -> Tensor:
        """See base class."""
        return self.row_root().square().sum(-1)

    def root(self) -> Tensor:
        """See base class."""
        u = psd_root(self._gram)
        cholesky = site_cholesky(plus_identity(u.mT @ self._solver.covar @ u))
        return torch.linalg.solve_triangular(cholesky, u.mT, upper=False).mT

    def precision(self) -> Tensor:
        """See base class."""
        half = self._half @ self._gram
        return self._gram - half.mT @ half

    def noise_precision(self, noise: NoiseBlocks) -> Tensor:
        """See base class."""
        # T - T Sigma T
        t = self.tau.unsqueeze(-1)
        spread = noise.take(t * self.row_root())
        return torch.diag_embed(noise.take(t).squeeze(-1)) - spread @ spread.mT

    def row_root(self) -> Tensor:
        """See base class."""
        return self._rows.apply_matrix(self._half.mT)


class PointSolver(SiteSolver):
    """Solver on ``K``, n x n: for fewer points than rows."""

    def __init__(self, covar: Tensor, rows: SparseDesign) -> None:
        super().__init__(covar, rows)
        self.root = psd_root(covar)

    def factor(self, tau: Tensor) -> SitePosterior:
        """See base class."""
        return _PointFactor(self, tau)

    @cached_property
    def variance(self) -> Tensor:
        """See base class."""
        return self.rows.apply_matrix(self.root).square().sum(-1)

    def prior_times(self, values: Tensor) -> Tensor:
        """See base class."""
        return self.rows.apply_matrix(self.covar @ self.rows.adjoint_matrix(values))

    def gather(self, forces: Tensor) -> Tensor:
        """See base class."""
        pull = self.rows.adjoint(forces).unsqueeze(-1)
        return (self.root.mT @ pull).squeeze(-1)

    def moved_by(self, pull: Tensor) -> Tensor:
        """See base class."""
        return pull

    def rows_of(self, moved: Tensor) -> Tensor:
        """See base class."""
        return self.rows.apply((self.root @ moved.unsqueeze(-1)).squeeze(-1))
