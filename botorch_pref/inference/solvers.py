r"""Solvers of Gaussian conditioning, in the space of rows or of points.

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

import math
from abc import abstractmethod
from functools import cached_property

import torch
from torch import Tensor

from botorch_pref.inference.conditioning import (
    Balance,
    Response,
    SitePosterior,
    SiteSolver,
    log_det,
    plus_identity,
    site_cholesky,
)
from botorch_pref.linalg.covariance import psd_root
from botorch_pref.linalg.sparse_design import NoiseBlocks, SparseDesign

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


def choose_solver(
    covar: Tensor, rows: SparseDesign, noise: NoiseBlocks | None = None
) -> SiteSolver:
    """The solver of the smaller space.

    Args:
        covar: ``K``, ``batch_shape x n x n``.
        rows: ``A``, m rows over n points.
        noise: What rows of one answer share, if they do.

    Returns:
        A :class:`RowSolver` when ``m <= n``, else a solver of the points.
    """
    if rows.num_rows <= rows.num_points:
        return RowSolver(covar, rows, noise)
    if noise is None:
        return PointSolver(covar, rows)
    return BlockPointSolver(covar, rows, noise)
