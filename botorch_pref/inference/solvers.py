r"""Solvers of Gaussian conditioning, in the space of rows or of points.

Where rows outnumber points, noise ``e ~ N(0, N)`` that rows of one answer share
integrates out of each block first. Given sites of precision ``T``,

.. math::
    P = (N + T^{-1})^{-1}, \qquad Q = (I + N T)^{-1} = I - N P, \qquad
    M = (N^{-1} + T)^{-1} = Q N,

and leaves utilities with the sites :math:`P` on :math:`A f`, so that

.. math::
    \Sigma_f = (K^{-1} + A' P A)^{-1}, \qquad
    \Sigma = Q A \Sigma_f A' Q' + M, \qquad
    \log |B| = \log |I + N T| + \log |I + K A' P A| .

Its cost is that of points cubed plus answers times the cube of their size. Without such
noise ``P`` is ``T``, ``Q`` is ``I`` and ``M`` is zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import ClassVar

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
from botorch_pref.linalg.covariance import (
    join_rows,
    product_of_sparse,
    psd_root,
    sparse_congruence,
    sparse_matrix,
    sparse_product,
    triangular_congruence,
)
from botorch_pref.linalg.sparse_design import BlockRows, NoiseBlocks, SparseDesign

# Precisions of sites beside the prior's whose differences keep enough digits.
_PRECISE = 100.0


class _RowFactor(SitePosterior):
    r"""Conditioned rows, each in the form that keeps its digits.

    A site more precise than the prior is divided by its precision, where others are
    multiplied: with :math:`a = T^{1/2} B^{-1} T^{-1/2} s` for shifts of the first kind
    and :math:`a = s - T^{1/2} B^{-1} T^{1/2} C s` for the others there is no difference
    of large numbers, and neither in :math:`\Sigma s = T^{-1} (s - a)`. Where no site is
    a hundred times as precise as the prior, all take the second form, which costs two
    digits.
    """

    def __init__(self, rows: SparseDesign, covar: Tensor, tau: Tensor) -> None:
        """Factors ``B = I + T^(1/2) C T^(1/2)``, ``batch_shape x m x m``.

        ``covar`` is ``C``, the prior covariance of rows with the noise that they share;
        ``T = diag(tau)`` are precisions of sites, none negative.
        """
        self.rows, self._covar, self.tau = rows, covar, tau
        self._scale = tau.sqrt()
        # C T^(1/2): its transpose is what LAPACK takes without a copy.
        self._scaled = covar * self._scale.unsqueeze(-2)
        b = self._scaled * self._scale.unsqueeze(-1)
        diagonal = b.diagonal(dim1=-2, dim2=-1)
        self._any_precise = bool((diagonal > _PRECISE).any())
        self._precise = diagonal > 1
        # Last, for it adds the identity to b in place.
        diagonal.add_(1.0)
        self._cholesky = site_cholesky(b)

    @property
    def log_det(self) -> Tensor:
        """See base class."""
        return log_det(self._cholesky)

    def solve(self, shifts: Tensor) -> Balance:
        """Solves for forces ``a = (I + T C)^-1 s`` of sites of shifts ``s``.

        All are ``batch_shape x m x k``. With site precisions ``T`` and the prior
        covariance ``C`` of rows, these move by ``Sigma s = C a`` from their prior
        means; points have the weights ``A' a``, with which the prior covariance
        predicts. The energy is ``a' C a``.
        """
        forces, moved = self._settled(shifts)
        weights = self.rows.adjoint_matrix(forces)
        return Balance(forces, moved, weights, (forces * moved).sum(-2))

    def respond(self, pull: Tensor) -> Response:
        """Computes Newton's step of the rows for a ``pull``, ``batch_shape x m``.

        Like `solve`, but without weights, which no step needs.
        """
        settled = self._settled(pull.unsqueeze(-1))
        forces, moved = (part.squeeze(-1) for part in settled)
        return Response(forces, moved, (pull * moved).sum(-1))

    def covariance_times(self, values: Tensor) -> Tensor:
        """See base class."""
        return self._settled(values)[1]

    def _settled(self, shifts: Tensor) -> tuple[Tensor, Tensor]:
        """Solves for forces ``a = (I + T C)^-1 s`` and movements ``u = C a`` of rows.

        Shifts ``s`` and results are ``batch_shape x m x k``. Of sites more precise than
        the prior ``a = T^(1/2) B^-1 T^(-1/2) s`` and ``u = T^-1 (s - a)``, of others
        ``a = s - T^(1/2) B^-1 T^(1/2) C s``: neither has a difference of large numbers.
        Forces are linear in ``s``, so that those of both kinds of shifts are added.
        """
        scale = self._scale.unsqueeze(-1)
        if not self._any_precise:
            inner = scale * (self._covar @ shifts)
            forces = shifts - scale * torch.cholesky_solve(inner, self._cholesky)
            return forces, self._covar @ forces
        precise = self._precise.unsqueeze(-1)
        vague = torch.where(precise, 0.0, shifts)
        inner = torch.where(precise, shifts / scale, 0.0) - self._scaled.mT @ vague
        forces = vague + scale * torch.cholesky_solve(inner, self._cholesky)
        moved = (shifts - forces) / self.tau.unsqueeze(-1)
        return forces, torch.where(precise, moved, self._covar @ forces)

    @cached_property
    def _variances(self) -> tuple[Tensor, Tensor]:
        """Posterior variances of rows, and ratios to those of cavities, ``... x m``.

        They are ``Sigma_ii`` and ``1 - tau_i Sigma_ii``. Each as a difference may lose
        its digits: of precise sites the ratio is a sum of squares, ``(B^-1)_ii``, from
        which the variance follows, of others the other way round.
        """
        # Rows of T^(1/2) C or, where a site is precise, of the identity.
        columns = self._scaled.mT
        if self._any_precise:
            unit = torch.diag_embed(self._precise.to(columns))
            columns = torch.where(self._precise.unsqueeze(-2), unit, columns)
        half = torch.linalg.solve_triangular(self._cholesky, columns, upper=False)
        # The norm makes no matrix of squares.
        squares = torch.linalg.vector_norm(half, dim=-2).square()
        variance = self._covar.diagonal(dim1=-2, dim2=-1) - squares
        if not self._any_precise:
            return variance, 1 - self.tau * variance
        variance = torch.where(self._precise, (1 - squares) / self.tau, variance)
        return variance, torch.where(self._precise, squares, 1 - self.tau * variance)

    def variance(self) -> Tensor:
        """See base class."""
        return self._variances[0]

    def cavity_ratio(self, variance: Tensor) -> Tensor:
        """Returns ``1 - tau_i Sigma_ii`` to its own digits, without the argument."""
        return self._variances[1]

    def root(self) -> Tensor:
        """Computes ``Q`` with ``A' W A = Q Q'``, ``batch_shape x n x m``.

        That is by what answers reduce the prior covariance ``K`` of points, to ``K - K
        A' W A K``. It is ``A' T^(1/2) L^-T`` with the Cholesky factor ``L`` of ``B``.
        """
        scale = torch.diag_embed(self._scale)
        y = torch.linalg.solve_triangular(self._cholesky, scale, upper=False)
        return self.rows.adjoint_matrix(y.mT)

    def _row_precision(self) -> Tensor:
        inverse = torch.cholesky_inverse(self._cholesky)
        return inverse * (self._scale.unsqueeze(-1) * self._scale.unsqueeze(-2))

    def precision(self) -> Tensor:
        """See base class."""
        return self.rows.adjoint_congruence(self._row_precision())

    def noise_precision(self, noise: NoiseBlocks) -> Tensor:
        """See base class."""
        return noise.take_square(self._row_precision())

    def row_root(self) -> Tensor:
        """Computes a root ``H`` of the posterior covariance of rows, ``... x m x m``.

        It is ``S L^-T`` with ``L L' = I + S' T S``, for the prior covariance ``S S'``,
        singular or not.
        """
        root = psd_root(self._covar)
        scaled = self._scale.unsqueeze(-1) * root
        cholesky = site_cholesky(plus_identity(scaled.mT @ scaled))
        return torch.linalg.solve_triangular(cholesky, root.mT, upper=False).mT


class RowSolver(SiteSolver):
    """Solver on ``C``, m x m: for fewer rows than points."""

    def __init__(
        self, covar: Tensor, rows: SparseDesign, noise: NoiseBlocks | None = None
    ) -> None:
        """Computes the prior covariance of rows, ``C = A K A' + N``, once."""
        super().__init__(covar, rows, noise)
        covariance = rows.congruence(covar)
        self._covar = covariance if noise is None else covariance + noise.dense()

    @property
    def row_covariance(self) -> Tensor:
        """See base class."""
        return self._covar

    def factor(self, tau: Tensor) -> SitePosterior:
        """See base class."""
        return _RowFactor(self.rows, self._covar, tau)

    @cached_property
    def variance(self) -> Tensor:
        """See base class."""
        return self._covar.diagonal(dim1=-2, dim2=-1)


# Posterior deviations by which weights may be off without being refined.
_NEGLIGIBLE = 1e-9
# A turn that leaves more of the error gains less than a digit, and may lose some: so
# many are tried in the hope that the bound on eigenvalues was too large.
_SLOWEST, _TRIED_TURNS = 0.1, 6


def _num_turns(largest: float, eps: float) -> int:
    """Counts the refinements of weights that are wanted, for `_PointFactor`.

    ``largest`` bounds the eigenvalues of ``C T``. Each turn multiplies the relative
    error of the weights, ``eps * largest`` at first, by ``eps * largest``, until it is
    ``eps``, after fifteen turns at most in double precision. Six are tried where each
    gains less than a digit. None is wanted where the first error moves no posterior
    mean by a billionth of its deviation.
    """
    if not eps * largest * math.sqrt(max(largest, 0.0)) > _NEGLIGIBLE:
        return 0
    if eps * largest > _SLOWEST:
        return _TRIED_TURNS
    return math.ceil(math.log(largest) / -math.log(eps * largest))


class _ConditionedBlocks:
    """The noise of blocks of one width, conditioned on their sites."""

    def __init__(self, blocks: NoiseBlocks, tau: Tensor) -> None:
        """Computes ``P``, ``Q`` and ``M`` of each block, ``... x num_blocks x k x k``.

        With the prior covariance ``N`` of a block's noise and the precisions ``T`` of
        its sites, `precision` is ``P = (N + T^-1)^-1``, `softening` ``Q = (I + N T)^-1
        = I - N P``, and `covariance` ``M = Q N``, the noise's posterior covariance
        given the points. ``tau`` is ``batch_shape x m x 1``, of all rows.
        """
        self.blocks = blocks
        scale = blocks.take(tau).sqrt()
        scaled_noise = scale * blocks.covariance * scale.mT
        inner = site_cholesky(plus_identity(scaled_noise))
        inverse = torch.cholesky_inverse(inner)
        self.precision = scale * inverse * scale.mT
        # Where a site is more precise than the noise, I - N P has no digits left.
        precise = scaled_noise.diagonal(dim1=-2, dim2=-1).unsqueeze(-1) > 1
        solved = inverse * scale.mT / torch.where(precise, scale, 1.0)
        difference = plus_identity(-blocks.covariance @ self.precision)
        self.softening = torch.where(precise, solved, difference)
        self.covariance = self.softening @ blocks.covariance
        self.log_det = log_det(inner).sum(-1)

    def softened(self, covariance: Tensor) -> Tensor:
        """Computes ``Q C Q'`` of covariances of blocks, ``batch_shape x b x k x k``."""
        return self.softening @ covariance @ self.softening.mT

    def root_columns(self, tau: Tensor) -> Tensor:
        """Computes a root of ``M``, the posterior covariance of noise given points.

        It is dense, ``batch_shape x m x (num_blocks k)``, a column for each row of a
        block, and zero at rows outside. With ``N = S S'`` it is ``S L^-T``, ``L L' = I
        + S' T S``.
        """
        noise = self.blocks
        root, t = psd_root(noise.covariance), noise.take(tau)
        inner = site_cholesky(plus_identity(root.mT @ (t * root)))
        root = torch.linalg.solve_triangular(inner, root.mT, upper=False).mT
        blocks, _, k = root.shape[-3:]
        columns = torch.eye(blocks, dtype=root.dtype, device=root.device)
        wide = (root.unsqueeze(-2) * columns.view(blocks, 1, blocks, 1)).flatten(-2)
        zeros = wide.new_zeros(*wide.shape[:-3], noise.num_rows, blocks * k)
        return noise.put(wide, zeros)


class ConditionedNoise:
    """The noise of each answer conditioned on its sites: ``P``, ``Q`` and ``M``.

    Without noise, None, ``P`` is that of the sites, and ``M`` is zero.
    """

    def __init__(self, noise: NoiseBlocks | None, tau: Tensor) -> None:
        """Conditions each block of noise on sites of precisions ``tau``, ``... x m``.

        `log_det` is ``log |I + N T|``, zero without noise.
        """
        self._tau = tau.unsqueeze(-1)
        parts = () if noise is None else noise.parts
        self.parts = [_ConditionedBlocks(part, self._tau) for part in parts]
        self.log_det = tau.new_zeros(())
        for part in self.parts:
            self.log_det = self.log_det + part.log_det

    @property
    def precision(self) -> Tensor:
        """``P`` of blocks that have one width, ``batch_shape x b x k x k``."""
        (part,) = self.parts
        return part.precision

    @property
    def covariance(self) -> Tensor:
        """``M`` of blocks that have one width, ``batch_shape x b x k x k``."""
        (part,) = self.parts
        return part.covariance

    def oppose(self, values: Tensor) -> Tensor:
        """Multiplies ``P values``, ``batch_shape x m x k``, with ``P = (N + T^-1)^-1``.

        These are the precisions that sites ``T`` have on ``A f`` once noise ``N`` is
        integrated out, ``T`` itself outside of blocks.
        """
        opposed = self._tau * values
        for part in self.parts:
            opposed = part.blocks.put(
                part.precision @ part.blocks.take(values), opposed
            )
        return opposed

    def soften(self, values: Tensor, transposed: bool = False) -> Tensor:
        """Multiplies ``Q values`` of rows, or ``Q' values``, with ``Q = (I + N T)^-1``.

        Where the points are at ``A f``, the rows, with their noise, are at ``Q A f`` on
        average. Outside of blocks it is the identity.
        """
        softened = values
        for part in self.parts:
            q = part.softening.mT if transposed else part.softening
            softened = part.blocks.put(q @ part.blocks.take(values), softened)
        return softened

    def moved(self, values: Tensor, shifts: Tensor) -> Tensor:
        """Computes ``Q values + M shifts`` of rows, each ``batch_shape x m x k``.

        If ``values`` are the movement of ``A f`` by sites with these shifts, it is that
        of the rows with their noise: the first part is the movement softened by the
        sites, the second that of the shared noise, whose posterior covariance given the
        points is ``M = Q N``, with ``Q`` as in `soften`. If they are ``A Sigma_f A' Q'
        shifts``, it is the rows' posterior covariance times any ``shifts``. Without
        noise it is the values.
        """
        if not self.parts:
            return values
        # No two blocks share a row.
        spread = torch.zeros_like(shifts)
        for part in self.parts:
            inner = part.covariance @ part.blocks.take(shifts)
            spread = part.blocks.put(inner, spread)
        return self.soften(values) + spread

    def energy(self, forces: Tensor) -> Tensor:
        """Computes ``a' N a`` of forces, ``batch_shape x k``, a part of ``a' C a``.

        ``N`` is the prior covariance of the shared noise, zero without any.
        """
        energy = torch.zeros_like(forces[..., 0, :])
        for part in self.parts:
            block_forces = part.blocks.take(forces)
            energy = energy + (
                block_forces * (part.blocks.covariance @ block_forces)
            ).sum((-3, -2))
        return energy

    def with_root(self, values: Tensor) -> Tensor:
        """Joins ``Q values`` and a root of ``M``, with columns for each block.

        If ``values`` are the design times a root of the posterior covariance of points,
        the result is a root of the posterior covariance of rows, ``... x m x r``.
        """
        columns = [part.root_columns(self._tau) for part in self.parts]
        return join_rows([self.soften(values), *columns]) if columns else values


class _PointFactor(SitePosterior):
    r"""Conditioning whose weights of points are refined until that gains no more.

    The sites leave utilities with a pull ``b`` of each point and the precision ``G``
    between points. Weights :math:`w = (I + G K)^{-1} b` are refined from :math:`b - G
    \Sigma_f b` by the residual :math:`r = b - G K w - w`: each turn multiplies the
    error by about the rounding unit times the largest eigenvalue of ``C T``. Forces are
    summed in ``b`` before there is anything to solve for.
    """

    def __init__(self, solver: PointSolver, tau: Tensor) -> None:
        """Factors ``I + S' G S``, ``n x n``, with the prior covariance ``K = S S'``.

        ``G = A' P A`` is what sites of precisions ``tau``, ``batch_shape x m``, add to
        the precision of points once noise that rows share is integrated out.
        """
        self._solver, self.rows, self.tau = solver, solver.rows, tau
        self._site_noise = ConditionedNoise(solver.noise, tau)
        # Rows of blocks have P instead of T.
        self._tau_alone = tau
        if solver.noise is not None:
            self._tau_alone = torch.where(solver.noise.inside, 0.0, tau)
        self._gram = self.rows.gram(self._tau_alone)
        for rows, part in zip(solver.block_rows, self._site_noise.parts, strict=True):
            # In place, before anything is made of it.
            rows.add_gram(part.precision, self._gram)
        self._cholesky = site_cholesky(plus_identity(solver.whitened(self._gram)))
        self._turns = _num_turns(
            float((tau * solver.variance).sum(-1).amax()), torch.finfo(tau.dtype).eps
        )

    @cached_property
    def _half(self) -> Tensor:
        """A matrix ``H`` with ``H' H`` the posterior covariance of points."""
        return torch.linalg.solve_triangular(
            self._cholesky, self._solver.root.mT, upper=False
        )

    @cached_property
    def _covariance(self) -> Tensor:
        """The posterior covariance ``Sigma_f`` of points, ``batch_shape x n x n``."""
        root = self._solver.sparse_root
        if root is None:
            return self._half.mT @ self._half
        # The same by products with the root's non-zeros alone.
        return sparse_congruence(root, torch.cholesky_inverse(self._cholesky))

    def _points_times(self, values: Tensor) -> Tensor:
        """Multiplies ``Sigma_f values``, both ``batch_shape x n x k``."""
        root = self._solver.root
        return root @ torch.cholesky_solve(root.mT @ values, self._cholesky)

    @property
    def log_det(self) -> Tensor:
        """See base class."""
        return log_det(self._cholesky) + self._site_noise.log_det

    def solve(self, shifts: Tensor) -> Balance:
        """Solves for forces ``a = Q' s - P A f`` and movements ``Q A f + M s`` of rows.

        ``f`` are the movements of points from their prior means, ``P``, ``Q`` and ``M``
        those of `ConditionedNoise` (``T``, the identity and zero without noise). The
        shifts ``s`` are ``batch_shape x m x k``; the energy is ``f' K^-1 f + a' N a``.
        """
        noise = self._site_noise
        softened = noise.soften(shifts, transposed=True)
        pull = self.rows.adjoint_matrix(softened)
        white = torch.cholesky_solve(self._solver.root.mT @ pull, self._cholesky)
        row_movement = self.rows.apply_matrix(self._solver.root @ white)
        forces = softened - noise.oppose(row_movement)
        energy = white.square().sum(-2) + noise.energy(forces)
        return Balance(
            forces, noise.moved(row_movement, shifts), self._weights(pull), energy
        )

    def _weights(self, pull: Tensor) -> Tensor:
        """Solves ``(I + G K) w = b`` for weights of points, ``batch_shape x n x k``.

        ``b`` are pulls at points, ``G`` the precision that sites give these. Each turn
        adds the solution for the residual ``b - G K w - w``, as often as `_num_turns`
        says.
        """
        weights = pull - self._gram @ self._points_times(pull)
        for _ in range(self._turns):
            residual = pull - self._gram @ (self._solver.covar @ weights) - weights
            change = self._gram @ self._points_times(residual)
            weights = weights + residual - change
        return weights

    def respond(self, pull: Tensor) -> Response:
        """Computes Newton's step in the white space, ``f = S v``, for a ``pull`` there.

        All are ``batch_shape x n``. The prior of ``v`` is ``N(0, I)``, so that it
        opposes by the movement itself; the decrement is a sum of squares.
        """
        half = torch.linalg.solve_triangular(
            self._cholesky, pull.unsqueeze(-1), upper=False
        )
        moved = torch.linalg.solve_triangular(self._cholesky.mT, half, upper=True)
        moved = moved.squeeze(-1)
        return Response(moved, moved, half.square().sum((-2, -1)))

    def covariance_times(self, values: Tensor) -> Tensor:
        """Multiplies the posterior covariance of rows by values, ``... x m x k``.

        It is ``Q A Sigma_f A' Q' + M``, a sum without differences of large numbers.
        """
        softened = self._site_noise.soften(values, transposed=True)
        moved = self._points_times(self.rows.adjoint_matrix(softened))
        return self._site_noise.moved(self.rows.apply_matrix(moved), values)

    def squared_covariance(self) -> Callable[[Tensor], Tensor]:
        """Makes the function that multiplies by ``Sigma * Sigma``, entry by entry.

        The product with values ``x`` of rows is the diagonal of ``A S (A' diag(x) A) S
        A'``, where ``S`` is the posterior covariance of the points, ``n x n``. Rows
        that share noise have another ``Sigma``: see base class.
        """
        if self._solver.noise is not None:
            return super().squared_covariance()
        rows, covariance = self.rows, self._covariance
        return lambda x: rows.congruence_diagonal(
            covariance @ rows.gram(x) @ covariance
        )

    def influence(self) -> Tensor:
        """Computes ``(I - Sigma T) A``, ``... x m x n``, by ``Q A (I + K G)^-1``.

        It turns changes of prior means of points into those of posterior means of rows.
        """
        eye = torch.eye(
            self.rows.num_points, dtype=self.tau.dtype, device=self.tau.device
        )
        return self._site_noise.soften(self.rows.apply_matrix(self._weights(eye).mT))

    def rows_form(self, rows: SparseDesign, covar: Tensor) -> Tensor:
        """Makes a form with the gradient of ``log |I + T C| / 2``; see base class.

        It is ``<P, A Sigma_f A'> / 2`` with the posterior covariance ``Sigma_f`` of
        points held constant, and the coefficients of ``A`` not. ``covar`` is not read.
        """
        with torch.no_grad():
            covariance = self._covariance
        form = (self._tau_alone * rows.congruence_diagonal(covariance)).sum(-1)
        for part in self._site_noise.parts:
            block_rows = BlockRows.from_design(rows, part.blocks.rows)
            products = part.precision * block_rows.congruence(covariance)
            form = form + products.sum((-3, -2, -1))
        return 0.5 * form

    def variance(self) -> Tensor:
        """Computes posterior variances of rows, ``batch_shape x m``.

        They are the diagonal of ``Q A Sigma_f A' Q' + M`` with the posterior covariance
        ``Sigma_f`` of points, and of ``A Sigma_f A'`` for rows that share no noise.
        """
        site_noise, noise = self._site_noise, self._solver.noise
        if noise is None:
            return self.rows.row_squares(self._half.mT)
        variance = torch.zeros_like(self.tau)
        alone = (~noise.inside).nonzero().squeeze(-1)
        if len(alone):
            rows = self.rows.take(alone)
            variance[..., alone] = rows.row_squares(self._half.mT)
        variance = variance.unsqueeze(-1)
        for part, covariance in zip(
            site_noise.parts, self._block_covariances, strict=True
        ):
            # No other entry of the softened covariance is needed.
            spread = (part.softening @ covariance * part.softening).sum(-1)
            spread = spread + part.covariance.diagonal(dim1=-2, dim2=-1)
            variance = part.blocks.put(spread.unsqueeze(-1), variance)
        return variance.squeeze(-1)

    @cached_property
    def _block_covariances(self) -> list[Tensor]:
        """The covariances of ``A f`` in blocks, ``batch_shape x b x k x k`` each."""
        return [rows.congruence(self._covariance) for rows in self._solver.block_rows]

    def root(self) -> Tensor:
        """Computes ``Q`` with ``A' W A = Q Q'``, ``batch_shape x n x n``.

        That is by what answers reduce the prior covariance ``K`` of points, to ``K - K
        A' W A K``. It is ``U L^-T`` with ``G = U U'`` and ``L L' = I + U' K U``.
        """
        u = psd_root(self._gram)
        cholesky = site_cholesky(plus_identity(u.mT @ self._solver.covar @ u))
        return torch.linalg.solve_triangular(cholesky, u.mT, upper=False).mT

    def precision(self) -> Tensor:
        """Computes ``A' W A = G - G Sigma_f G``, ``batch_shape x n x n``.

        By this answers reduce the prior covariance ``K`` of points, to ``K - K A' W A
        K``.
        """
        root = self._solver.sparse_root
        if root is None:
            half = sparse_product(self._gram, self._half.mT).mT
        else:
            pulled = product_of_sparse(root.mT, self._gram)
            half = torch.linalg.solve_triangular(self._cholesky, pulled, upper=False)
        return self._gram - half.mT @ half

    def noise_precision(self, noise: NoiseBlocks) -> Tensor:
        """Computes blocks of ``W = P - P A Sigma_f A' P``, ``... x blocks x k x k``.

        ``-W / 2`` is a part of the evidence's gradient in shared noise. ``noise`` has
        to be a part of the solver's own: it is found by identity.
        """
        if self._solver.noise is None:
            return super().noise_precision(noise)
        parts = zip(self._site_noise.parts, self._block_covariances, strict=True)
        ((block_noise, covariance),) = [
            p for p in parts if p[0].blocks.rows is noise.rows
        ]
        return (
            block_noise.precision
            - block_noise.precision @ covariance @ block_noise.precision
        )

    def row_root(self) -> Tensor:
        """See base class."""
        return self._site_noise.with_root(self.rows.apply_matrix(self._half.mT))


class PointSolver(SiteSolver):
    """Solver on ``K``, n x n, and on the noise of each answer by itself.

    Attributes:
        lapack_points: Points from which products with a triangle are left to LAPACK. It
            takes a quarter of the operations of two products, and of fewer points no
            less time, which ``benchmarks/answer_cost.py`` prints.
    """

    lapack_points: ClassVar[int] = 200

    def __init__(
        self, covar: Tensor, rows: SparseDesign, noise: NoiseBlocks | None = None
    ) -> None:
        super().__init__(covar, rows, noise)
        self.root = psd_root(covar)

    def whitened(self, gram: Tensor) -> Tensor:
        """Computes ``S' G S`` of a precision of points, with the prior root ``S``.

        The lower triangle holds it: Cholesky's algorithm reads no more, and LAPACK
        leaves something else above.
        """
        if self.sparse_root is not None:
            return sparse_congruence(self.sparse_root.mT, gram)
        if gram.dim() == 2 and self._has_large_triangle:
            return triangular_congruence(gram, self.root)
        return self.root.mT @ sparse_product(gram, self.root)

    @cached_property
    def sparse_root(self) -> Tensor | None:
        """The root where most of it is zero, as that of items without features."""
        return sparse_matrix(self.root)

    @cached_property
    def _has_large_triangle(self) -> bool:
        """Whether the root is one that LAPACK takes, of ``lapack_points`` or more.

        The root of a singular prior comes from eigenvectors, and is not triangular.
        """
        root = self.root
        is_plain = root.dtype == torch.float64 and root.device.type == "cpu"
        is_large = root.dim() == 2 and len(root) >= self.lapack_points
        return is_large and is_plain and not bool(root.triu(1).any())

    @cached_property
    def block_rows(self) -> list[BlockRows]:
        """The rows of each block of noise, by parts."""
        parts = () if self.noise is None else self.noise.parts
        return [BlockRows.from_design(self.rows, part.rows) for part in parts]

    def factor(self, tau: Tensor) -> SitePosterior:
        """See base class."""
        return _PointFactor(self, tau)

    @cached_property
    def variance(self) -> Tensor:
        """See base class."""
        variance = self.rows.row_squares(self.root)
        return variance if self.noise is None else variance + self.noise.diagonal()

    def gather(self, forces: Tensor) -> Tensor:
        """See base class."""
        pull = self.rows.adjoint(forces).unsqueeze(-1)
        return (self.root.mT @ pull).squeeze(-1)

    def movement(self, forces: Tensor, rows: Tensor) -> Tensor:
        """See base class: the prior of a white space is one."""
        return self.gather(forces)

    def rows_of(self, moved: Tensor) -> Tensor:
        """See base class."""
        return self.rows.apply((self.root @ moved.unsqueeze(-1)).squeeze(-1))


def choose_solver(
    covar: Tensor, rows: SparseDesign, noise: NoiseBlocks | None = None
) -> SiteSolver:
    """Chooses the solver of the smaller space, that of rows if both are as large.

    ``covar`` is ``K``, ``batch_shape x n x n``; it costs the cube of the space.
    """
    if rows.num_rows <= rows.num_points:
        return RowSolver(covar, rows, noise)
    return PointSolver(covar, rows, noise)
