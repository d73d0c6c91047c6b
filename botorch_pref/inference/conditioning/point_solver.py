"""Conditioning in the space of points, for answers that outnumber them."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from botorch_pref.inference.conditioning.refined_posterior import RefinedPosterior
from botorch_pref.inference.conditioning.site_solver import (
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
        super().__init__(solver, tau)
        self._rows, root = solver.rows, solver.root
        self._gram = self._rows.gram(tau)
        self._cholesky = site_cholesky(plus_identity(root.mT @ self._gram @ root))
        self._half = torch.linalg.solve_triangular(self._cholesky, root.mT, upper=False)

    @property
    def log_det(self) -> Tensor:
        """See base class."""
        return log_det(self._cholesky)

    @property
    def batch_shape(self) -> torch.Size:
        """See base class."""
        return self._cholesky.shape[:-2]

    def covariance_times(self, values: Tensor) -> Tensor:
        """See base class."""
        inner = self._half @ self._rows.adjoint_matrix(values)
        return self._rows.apply_matrix(self._half.mT @ inner)

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
        self.covar, self.root = covar, psd_root(covar)

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
