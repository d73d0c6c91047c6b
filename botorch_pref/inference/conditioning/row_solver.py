"""Conditioning in the space of rows: Rasmussen and Williams (2006), 3.4.3."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

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


def _conditioned_root(root: Tensor, scale: Tensor) -> Tensor:
    """``H = S L^-T`` with ``L L' = I + S' T S``, for ``C = S S'``."""
    scaled = scale.unsqueeze(-1) * root
    cholesky = site_cholesky(plus_identity(scaled.mT @ scaled))
    return torch.linalg.solve_triangular(cholesky, root.mT, upper=False).mT


class _RowFactor(SitePosterior):
    r"""Conditioned rows, each in the form that keeps its digits.

    A site more precise than the prior is divided by its precision, where others are
    multiplied: with :math:`a = T^{1/2} B^{-1} T^{-1/2} s` for shifts of the first kind
    and :math:`a = s - T^{1/2} B^{-1} T^{1/2} C s` for the others there is no difference
    of large numbers, and neither in :math:`\Sigma s = T^{-1} (s - a)`.
    """

    def __init__(self, rows: SparseDesign, covar: Tensor, tau: Tensor) -> None:
        self._rows, self._covar, self.tau = rows, covar, tau
        self._scale = tau.sqrt()
        # C T^(1/2): its transpose is what LAPACK takes without a copy.
        self._scaled = covar * self._scale.unsqueeze(-2)
        b = self._scaled * self._scale.unsqueeze(-1)
        diagonal = b.diagonal(dim1=-2, dim2=-1)
        self._precise = diagonal > 1
        self._any_precise = bool(self._precise.any())
        diagonal.add_(1.0)
        self._cholesky = site_cholesky(b)

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
        scale = self._scale.unsqueeze(-1)
        if not self._any_precise:
            inner = scale * (self._covar @ shifts)
            forces = shifts - scale * torch.cholesky_solve(inner, self._cholesky)
            return self._balance(forces, self._covar @ forces)
        precise = self._precise.unsqueeze(-1)
        vague = torch.where(precise, 0.0, shifts)
        inner = torch.where(precise, shifts / scale, 0.0) - self._scaled.mT @ vague
        forces = vague + scale * torch.cholesky_solve(inner, self._cholesky)
        given_way = (shifts - forces) / self.tau.unsqueeze(-1)
        moved = torch.where(precise, given_way, self._covar @ forces)
        return self._balance(forces, moved)

    def _balance(self, forces: Tensor, moved: Tensor) -> Balance:
        weights = self._rows.adjoint_matrix(forces)
        return Balance(forces, moved, weights, (forces * moved).sum(-2))

    @cached_property
    def _variances(self) -> tuple[Tensor, Tensor]:
        """Variances, and their ratios to those of cavities, ``batch_shape x m``."""
        columns = self._scaled.mT
        if self._any_precise:
            unit = torch.diag_embed(self._precise.to(columns))
            columns = torch.where(self._precise.unsqueeze(-2), unit, columns)
        half = torch.linalg.solve_triangular(self._cholesky, columns, upper=False)
        # No square of the matrix is written down.
        squares = torch.linalg.vector_norm(half, dim=-2).square()
        variance = self._covar.diagonal(dim1=-2, dim2=-1) - squares
        if not self._any_precise:
            return variance, 1 - self.tau * variance
        variance = torch.where(self._precise, (1 - squares) / self.tau, variance)
        return variance, torch.where(self._precise, squares, 1 - self.tau * variance)

    def variance(self) -> Tensor:
        """See base class."""
        return self._variances[0]

    def cavity_ratio(self) -> Tensor:
        """See base class."""
        return self._variances[1]

    def weights(self, targets: Tensor) -> Tensor:
        """See base class."""
        scale = self._scale.unsqueeze(-1)
        inner = torch.cholesky_solve(scale * targets, self._cholesky)
        return self._rows.adjoint_matrix(scale * inner)

    def influence(self) -> Tensor:
        """See base class."""
        rows, tau = self._rows, self.tau.unsqueeze(-1)
        eye = torch.eye(rows.num_points, dtype=tau.dtype, device=tau.device)
        values = rows.apply_matrix(eye)
        forces, moved, *_ = self.solve(tau * values)
        # The difference where it keeps its digits.
        precise = tau * self.variance().unsqueeze(-1) > 0.5
        safe = torch.where(precise, tau, 1.0)
        return torch.where(precise, forces / safe, values - moved)

    def root(self) -> Tensor:
        """See base class."""
        scale = torch.diag_embed(self._scale)
        y = torch.linalg.solve_triangular(self._cholesky, scale, upper=False)
        return self._rows.adjoint_matrix(y.mT)

    def _row_precision(self) -> Tensor:
        inverse = torch.cholesky_inverse(self._cholesky)
        return inverse * (self._scale.unsqueeze(-1) * self._scale.unsqueeze(-2))

    def precision(self) -> Tensor:
        """See base class."""
        return self._rows.adjoint_congruence(self._row_precision())

    def noise_precision(self, noise: NoiseBlocks) -> Tensor:
        """See base class."""
        return noise.take_square(self._row_precision())

    def row_root(self) -> Tensor:
        """See base class."""
        return _conditioned_root(psd_root(self._covar), self._scale)


class RowSolver(SiteSolver):
    """Solver on ``C``, m x m: for fewer rows than points."""

    def __init__(
        self, covar: Tensor, rows: SparseDesign, noise: NoiseBlocks | None = None
    ) -> None:
        super().__init__(covar, rows, noise)
        self._covar = rows.congruence(covar)
        if noise is not None:
            self._covar = self._covar + noise.dense()

    def factor(self, tau: Tensor) -> SitePosterior:
        """See base class."""
        return _RowFactor(self.rows, self._covar, tau)

    @cached_property
    def variance(self) -> Tensor:
        """See base class."""
        return self._covar.diagonal(dim1=-2, dim2=-1)

    def prior_times(self, values: Tensor) -> Tensor:
        """See base class."""
        return self._covar @ values
