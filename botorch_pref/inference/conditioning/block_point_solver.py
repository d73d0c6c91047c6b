r"""Conditioning in the space of points where rows of one answer share noise.

The rows are :math:`u = A (f - m) + e` with ``e ~ N(0, N)``, ``N`` block-diagonal with
a small block for each answer. Given sites of precision ``T`` the noise integrates out
of each block,

.. math::
    P = (N + T^{-1})^{-1}, \qquad Q = (I + N T)^{-1} = I - N P, \qquad
    M = (N^{-1} + T)^{-1} = Q N,

and leaves utilities with the sites :math:`P` on :math:`A f`, so that

.. math::
    \Sigma_f = (K^{-1} + A' P A)^{-1}, \qquad
    \Sigma = Q A \Sigma_f A' Q' + M, \qquad
    \log |B| = \log |I + N T| + \log |I + K A' P A| .

The cost is that of points cubed plus answers times the cube of their size: 5,000
rankings of ten items are as cheap as comparisons.
"""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from botorch_pref.inference.conditioning.refined_posterior import RefinedPosterior
from botorch_pref.inference.conditioning.site_solver import (
    Balance,
    SitePosterior,
    SiteSolver,
    log_det,
    plus_identity,
    site_cholesky,
)
from botorch_pref.linalg.noise_blocks import NoiseBlocks
from botorch_pref.linalg.psd_root import psd_root
from botorch_pref.linalg.sparse_design import SparseDesign


class _BlockPointFactor(RefinedPosterior):
    _solver: BlockPointSolver

    def __init__(self, solver: BlockPointSolver, tau: Tensor) -> None:
        noise = solver.noise
        scale = noise.take(tau.unsqueeze(-1)).sqrt()
        covariance = noise.covariance
        inner = site_cholesky(plus_identity(scale * covariance * scale.mT))
        precision_half = torch.linalg.solve_triangular(
            inner, torch.diag_embed(scale.squeeze(-1)), upper=False
        )
        self._p = precision_half.mT @ precision_half
        self._np = covariance @ self._p
        self._m = covariance - self._np @ covariance
        a = solver.dense_rows
        self._pa = noise.put(self._p @ noise.take(a), tau.unsqueeze(-1) * a)
        self._inner = inner
        super().__init__(solver, tau, solver.rows.adjoint_matrix(self._pa), solver.root)

    @property
    def log_det(self) -> Tensor:
        """See base class."""
        return log_det(self._cholesky) + log_det(self._inner).sum(-1)

    @property
    def batch_shape(self) -> torch.Size:
        """See base class."""
        return self._cholesky.shape[:-2]

    @cached_property
    def _spread(self) -> Tensor:
        """``Q A Sigma_f^(1/2)``, ``batch_shape x m x n``."""
        noise, rows = self._solver.noise, self._solver.rows
        spread = rows.apply_matrix(self._half.mT)
        taken = noise.take(spread)
        return noise.put(taken - self._np @ taken, spread)

    def solve(self, shifts: Tensor) -> Balance:
        """See base class: ``a = Q' s - P A f`` and ``Sigma s = Q A f + M s``."""
        noise, rows = self._solver.noise, self._solver.rows
        taken = noise.take(shifts)
        heard = noise.put(taken - self._np.mT @ taken, shifts)
        pull = rows.adjoint_matrix(heard)
        white = self._white(pull)
        moved = rows.apply_matrix(self._solver.root @ white)
        seen = noise.take(moved)
        opposed = noise.put(self._p @ seen, self.tau.unsqueeze(-1) * moved)
        own = noise.put(seen - self._np @ seen + self._m @ taken, moved)
        forces = heard - opposed
        energy = white.square().sum(-2) + (forces * noise.times(forces)).sum(-2)
        return Balance(forces, own, self._weights(pull), energy)

    def covariance_times(self, values: Tensor) -> Tensor:
        """See base class."""
        noise = self._solver.noise
        own = noise.put(self._m @ noise.take(values), torch.zeros_like(values))
        return own + self._spread @ (self._spread.mT @ values)

    def influence(self) -> Tensor:
        """See base class: ``Q A (I + K G)^-1``."""
        noise = self._solver.noise
        seen = self._solver.rows.apply_matrix(self._points_influence())
        taken = noise.take(seen)
        return noise.put(taken - self._np @ taken, seen)

    def variance(self) -> Tensor:
        """See base class."""
        noise = self._solver.noise
        own = self._m.diagonal(dim1=-2, dim2=-1).unsqueeze(-1)
        spread = self._spread.square().sum(-1, keepdim=True)
        return noise.put(own + noise.take(spread), spread).squeeze(-1)

    def root(self) -> Tensor:
        """See base class."""
        u = psd_root(self._gram)
        b = plus_identity(u.mT @ self._solver.covar @ u)
        return torch.linalg.solve_triangular(site_cholesky(b), u.mT, upper=False).mT

    def precision(self) -> Tensor:
        """See base class."""
        half = self._half @ self._gram
        return self._gram - half.mT @ half

    def noise_precision(self, noise: NoiseBlocks) -> Tensor:
        """See base class."""
        spread = noise.take(self._pa @ self._half.mT)
        return self._p - spread @ spread.mT

    def row_root(self) -> Tensor:
        """See base class."""
        noise = self._solver.noise
        own = psd_root(noise.covariance)
        t = noise.take(self.tau.unsqueeze(-1))
        inner = site_cholesky(plus_identity(own.mT @ (t * own)))
        own = torch.linalg.solve_triangular(inner, own.mT, upper=False).mT
        blocks, _, k = own.shape[-3:]
        columns = torch.eye(blocks, dtype=own.dtype, device=own.device)
        # Each block has columns of its own.
        wide = (own.unsqueeze(-2) * columns.view(blocks, 1, blocks, 1)).flatten(-2)
        zeros = wide.new_zeros(*wide.shape[:-3], noise.num_rows, blocks * k)
        return torch.cat([self._spread, noise.put(wide, zeros)], dim=-1)


class BlockPointSolver(SiteSolver):
    """Solver on ``K``, n x n, and on the noise of each answer by itself."""

    noise: NoiseBlocks

    def __init__(self, covar: Tensor, rows: SparseDesign, noise: NoiseBlocks) -> None:
        super().__init__(covar, rows, noise)
        self.root = psd_root(covar)
        eye = torch.eye(rows.num_points, dtype=covar.dtype, device=covar.device)
        self.dense_rows = rows.apply_matrix(eye)

    def factor(self, tau: Tensor) -> SitePosterior:
        """See base class."""
        return _BlockPointFactor(self, tau)

    @cached_property
    def variance(self) -> Tensor:
        """See base class."""
        known = self.rows.apply_matrix(self.root).square().sum(-1)
        return known + self.noise.diagonal()

    def prior_times(self, values: Tensor) -> Tensor:
        """See base class."""
        inner = self.covar @ self.rows.adjoint_matrix(values)
        return self.rows.apply_matrix(inner) + self.noise.times(values)
