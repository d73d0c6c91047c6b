r"""Gaussian conditioning on sites of any sign, and the digits that it loses.

``K`` (n x n) is the prior covariance of the utilities ``f``, ``A`` (m x n) sparse rows,
and ``C = A K A' + N`` that of ``u = A (f - mean) + e``, where ``e``, of block-diagonal
covariance ``N``, is noise that rows of one answer share. Sites :math:`\exp(\nu' u - u'
T u / 2)` with ``T = diag(tau)`` give

.. math::
    \Sigma = (C^{-1} + T)^{-1}, \qquad E[u] = \Sigma \nu, \qquad
    W = (C + T^{-1})^{-1} = T^{1/2} B^{-1} T^{1/2}, \qquad
    B = I + T^{1/2} C T^{1/2},

and for utilities anywhere, with ``k = K(x, X)``,

.. math::
    E[f(x)] = m(x) + k A' a, \qquad a = (I + T C)^{-1} \nu = \nu - T E[u], \qquad
    \mathrm{cov} = K_{**} - k A' W A k'.

The forces ``a`` are never computed as that difference: of answers much more precise
than the prior, its two numbers agree in all their digits. Neither are the weights ``w =
A' a`` of points a sum of forces: where a thousand answers contradict each other, it is
smaller than the rounding of its terms. Both are solved for, in the smaller space: see
:class:`SiteSolver`. Nothing is inverted, so that duplicate points, repeated answers and
contradictions are ordinary input (Rasmussen and Williams 2006, section 3.4.3 and
algorithm 3.5, for the row space).

A factor that is not log-concave may say that a row is *less* certain than its
neighbours make it. With :math:`T = T_1 - E T_2 E'`, both non-negative, where ``E``
picks the few rows with a negative precision, conditioning on ``T1`` gives
:math:`\Sigma_1`, which the rest widens to

.. math::
    \Sigma = \Sigma_1 + U U', \qquad
    U = \Sigma_1 E T_2^{1/2} L^{-T}, \qquad
    L L' = I - T_2^{1/2} E' \Sigma_1 E T_2^{1/2}, \qquad
    |B| = |B_1| \, |L L'|,

a Gaussian if and only if ``L`` exists. With :math:`V = (I + T_1 C)^{-1} E T_2^{1/2}
L^{-T}`, :math:`W = W_1 - V V'`. Shifts ``s`` which ``T1`` alone turns into forces
:math:`a_1` and movements :math:`u_1` have

.. math::
    a = a_1 + V g, \qquad \Sigma s = u_1 + U g, \qquad
    g = L^{-1} T_2^{1/2} E' u_1 .
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from botorch_pref.errors import PrecisionError
from botorch_pref.linalg.sparse_design import NoiseBlocks, SparseDesign

_ROUNDING = 16.0


def plus_identity(matrix: Tensor) -> Tensor:
    """Adds the identity: ``I + M``, both ``batch_shape x n x n``."""
    out = matrix.clone()
    out.diagonal(dim1=-2, dim2=-1).add_(1.0)
    return out


def site_cholesky(matrix: Tensor) -> Tensor:
    """Computes the Cholesky factor of ``I + M``, with ``M`` positive semi-definite.

    Entries of the ``matrix`` above its diagonal are not read.

    Raises:
        PrecisionError: Rounding of the prior covariance left no factor.
    """
    factor, info = torch.linalg.cholesky_ex(matrix)
    if bool(info.any()):
        raise PrecisionError(
            f"I + T^(1/2) C T^(1/2) is not positive definite in {matrix.dtype}: "
            "rounding errors of the prior covariance exceed the noise of the answers. "
            "Use double precision, a larger noise or a smaller output scale."
        )
    return factor


def log_det(cholesky: Tensor) -> Tensor:
    """Computes the log determinant by a Cholesky factor, ``batch_shape``."""
    return 2.0 * cholesky.diagonal(dim1=-2, dim2=-1).log().sum(-1)


class Balance(NamedTuple):
    r"""Balance of site shifts ``s`` with the prior, ``k`` columns side by side.

    The ``forces`` :math:`a = (I + T C)^{-1} s` and ``moved``, :math:`\Sigma s`, are
    ``batch_shape x m x k``; the ``weights`` :math:`A' a` of the points have more digits
    than the sum of forces; the ``energy`` :math:`a' C a`, ``batch_shape x k``, is a sum
    of squares.
    """

    forces: Tensor
    moved: Tensor
    weights: Tensor
    energy: Tensor

    def of_column(self) -> Balance:
        """Drops the dimension of a single column."""
        return Balance(*(part.squeeze(-1) for part in self))


class Response(NamedTuple):
    """The response of prior and sites to a pull, in the space of the solver.

    ``moved`` is the movement, ``opposed`` the pull of the prior against it, and the
    ``decrement``, pull times movement, its squared length in posterior deviations.
    """

    opposed: Tensor
    moved: Tensor
    decrement: Tensor


class SitePosterior(ABC):
    """The posterior of sites on ``rows`` with precisions ``tau``, ``batch_shape x m``.

    One factorisation, reused. Five methods are to be written; others may be, where they
    can be computed faster or to more digits.
    """

    rows: SparseDesign
    tau: Tensor

    @property
    @abstractmethod
    def log_det(self) -> Tensor:
        """``log |B|``, ``batch_shape``."""

    @abstractmethod
    def solve(self, shifts: Tensor) -> Balance:
        """Solves for forces of sites and means of rows, ``batch_shape x m x k``."""

    @abstractmethod
    def variance(self) -> Tensor:
        """Computes the diagonal of ``Sigma``, ``batch_shape x m``."""

    @abstractmethod
    def root(self) -> Tensor:
        """Computes ``Q`` with ``A' W A = Q Q' - P P'``, ``batch_shape x n x r``."""

    @abstractmethod
    def row_root(self) -> Tensor:
        """Computes ``H`` with ``Sigma = H H'``, ``batch_shape x m x k``."""

    def widening(self) -> Tensor | None:
        """Computes ``P`` of :meth:`root`, ``batch_shape x n x k``; None for zero."""
        return None

    def respond(self, pull: Tensor) -> Response:
        """Responds to a pull in the space of the solver: Newton's step."""
        balance = self.solve(pull.unsqueeze(-1)).of_column()
        return Response(balance.forces, balance.moved, (pull * balance.moved).sum(-1))

    def covariance_times(self, values: Tensor) -> Tensor:
        """Multiplies ``Sigma values``, both ``batch_shape x m x k``."""
        return self.solve(values).moved

    def squared_covariance(self) -> Callable[[Tensor], Tensor]:
        r"""Makes the function that multiplies values by :math:`\Sigma \circ \Sigma`.

        :math:`\Sigma` is the posterior covariance of rows; values and product are
        ``batch_shape x m``. If the values are changes of site precisions, minus the
        product is the change of the variances of rows.
        """
        h = self.row_root()
        # Entry i is h_i' (h' diag(x) h) h_i, since Sigma is h h'.
        return lambda x: ((h @ (h.mT @ (x.unsqueeze(-1) * h))) * h).sum(-1)

    def mean(self, nu: Tensor) -> Tensor:
        """Computes ``E[u]`` for site shifts ``nu``, both ``batch_shape x m``."""
        return self.covariance_times(nu.unsqueeze(-1)).squeeze(-1)

    def weights(self, targets: Tensor) -> Tensor:
        """Computes ``A' W t`` for columns ``t`` of ``u`` with noise ``1 / tau``."""
        return self.solve(self.tau.unsqueeze(-1) * targets).weights

    def cavity_ratio(self, variance: Tensor) -> Tensor:
        r"""Divides variances by those of cavities, as :math:`I - T \Sigma` does."""
        return 1 - self.tau * variance

    def influence(self) -> Tensor:
        """Computes ``(I - Sigma T) A``, ``batch_shape x m x n``.

        It is the derivative of the posterior means of the rows ``A f`` in the prior
        means of the points while the sites, of precisions ``T``, stay; ``Sigma`` is the
        posterior covariance of the rows.
        """
        return self.shrunk(self.rows.dense(), self.variance())

    def rows_form(self, rows: SparseDesign, covar: Tensor) -> Tensor:
        r"""Makes a form with the gradient of ``log |I + T C| / 2`` in coefficients.

        Site precisions are ``T``, prior covariances ``C`` of rows and ``covar`` of
        points. The gradient in the coefficient :math:`A_{ij}` is :math:`\tau_i` times
        the posterior covariance of row ``i`` and point ``j``. The form's value is not
        that of the logarithm.
        """
        with torch.no_grad():
            covariance = self.influence() @ covar
            index = rows.indices.expand(*covariance.shape[:-1], -1)
            gradient = self.tau.unsqueeze(-1) * covariance.gather(-1, index)
        return (gradient * rows.coefficients).sum((-2, -1))

    def shrunk(self, values: Tensor, variance: Tensor) -> Tensor:
        """Computes ``(I - Sigma T) values`` of rows, ``batch_shape x m x k``.

        With the posterior covariance ``Sigma`` of rows and the site precisions ``T`` it
        turns changes of prior means into those of posterior means. ``variance`` are the
        diagonal of ``Sigma``, ``batch_shape x m``.
        """
        tau = self.tau.unsqueeze(-1)
        forces, moved, *_ = self.solve(tau * values)
        # T^-1 forces where a site leaves less than half of its cavity's variance: there
        # the difference of values and movements has lost digits.
        precise = tau * variance.unsqueeze(-1) > 0.5
        return torch.where(
            precise, forces / torch.where(precise, tau, 1.0), values - moved
        )

    def precision(self) -> Tensor:
        """Computes ``A' W A``, ``batch_shape x n x n``."""
        q, p = self.root(), self.widening()
        return q @ q.mT if p is None else q @ q.mT - p @ p.mT

    def noise_precision(self, noise: NoiseBlocks) -> Tensor:
        """Computes blocks of ``W = T - T Sigma T`` for rows that share noise.

        With the site precisions ``T`` and the posterior covariance ``Sigma`` of rows,
        ``-W / 2`` is a part of the evidence's gradient in their noise. The result is
        ``... x num_blocks x k x k``.
        """
        t = self.tau.unsqueeze(-1)
        spread = noise.take(t * self.row_root())
        return torch.diag_embed(noise.take(t).squeeze(-1)) - spread @ spread.mT


class SiteSolver(ABC):
    """The part of ``K``, ``A`` and ``N``, None for zero, that no site changes.

    A solver works in the smaller of two spaces, where sites pull and the prior holds.
    That of rows has the prior covariance ``C`` and is pulled by forces as they are.
    That of points is white: utilities are ``R v`` with ``K = R R'``, forces pull by
    ``R' A' a``, the sum over the answers of a point, and the prior covariance is one.
    """

    def __init__(
        self, covar: Tensor, rows: SparseDesign, noise: NoiseBlocks | None = None
    ) -> None:
        self.covar, self.rows, self.noise = covar, rows, noise

    @abstractmethod
    def factor(self, tau: Tensor) -> SitePosterior:
        """Conditions on sites of precisions ``tau >= 0``, ``batch_shape x m``."""

    @property
    @abstractmethod
    def variance(self) -> Tensor:
        """The diagonal of ``C``, ``batch_shape x m``."""

    @property
    def row_covariance(self) -> Tensor | None:
        """``C``, ``batch_shape x m x m``; None where a solver has none at hand."""
        return None

    @cached_property
    def rounding(self) -> Tensor:
        """The rounding error of prior row variances, ``batch_shape x m``, positive.

        A row whose variance is not above this compares duplicates, or is padding.
        """
        variance = self.summed_variance
        digits = torch.finfo(variance.dtype)
        return (_ROUNDING * digits.eps * variance).clamp_min(digits.tiny)

    @cached_property
    def summed_variance(self) -> Tensor:
        """Sums of the prior variances of a row's utilities, ``batch_shape x m``."""
        return self.squares.apply(self.covar.diagonal(dim1=-2, dim2=-1))

    @cached_property
    def squares(self) -> SparseDesign:
        """The rows with their coefficients squared."""
        return replace(self.rows, coefficients=self.rows.coefficients.square())

    def rounding_given(self, tau: Tensor) -> Tensor:
        """Computes rounding errors of row variances with sites, ``batch_shape x m``."""
        eps = torch.finfo(tau.dtype).eps
        return self.rounding.minimum(_ROUNDING * eps / tau.abs())

    @cached_property
    def resolved(self) -> Tensor:
        """Whether the prior leaves a row any variance, ``batch_shape x m``."""
        return self.variance > self.rounding

    @cached_property
    def resolves_all(self) -> bool:
        """Whether it does so for every row."""
        return bool(self.resolved.all())

    def total(self, values: Tensor) -> Tensor:
        """Sums values that each process has of its own rows."""
        return values

    def largest(self, values: Tensor) -> Tensor:
        """Finds the largest of values that each process has of its own rows."""
        return values

    def in_all_processes(self, holds: Tensor) -> Tensor:
        """Tells whether something holds for the rows of every process."""
        return holds

    def bends(self, tau: Tensor) -> bool:
        """Tells whether any precision is negative."""
        return bool((tau < 0).any())

    def predict(self, forces: Tensor, weights: Tensor) -> Tensor:
        """Predicts ``C a = A K w + N a`` by weights of points, ``batch_shape x m``.

        The forces are ``a``, the weights ``w = A' a``; ``K`` is the prior covariance of
        points, ``N`` that of shared noise. How far the result is from the movements
        that were solved for shows how many digits were lost.
        """
        rows = self.rows.apply((self.covar @ weights.unsqueeze(-1)).squeeze(-1))
        if self.noise is None:
            return rows
        return rows + self.noise.times(forces.unsqueeze(-1)).squeeze(-1)

    def gather(self, forces: Tensor) -> Tensor:
        """Gathers forces of the rows, ``batch_shape x m``, to a pull in the space."""
        return forces

    def rows_of(self, moved: Tensor) -> Tensor:
        """Moves the rows, ``batch_shape x m``, by the movement of the space."""
        return moved

    def movement(self, forces: Tensor, rows: Tensor) -> Tensor:
        """Returns how the space moves by forces that move ``rows = C forces``."""
        return rows


class NegativeSites(SitePosterior):
    """The posterior of sites with precisions of either sign.

    ``proper``, ``batch_shape``, says whether there is one. Where there is none, the
    factor is that of the non-negative precisions alone, ``base``, and ``tau`` says so.
    """

    def __init__(self, base: SitePosterior, solver: SiteSolver, tau: Tensor) -> None:
        """Widens the posterior ``base`` of ``T1``, the non-negative part of ``tau``.

        There rows have the covariance ``Sigma_1``, ``C`` a priori. Negative precisions,
        ``-T2`` at the rows that ``E`` picks, add ``U U'`` to ``Sigma_1`` and take ``V
        V'`` from ``W = (C + T1^-1)^-1``, with ``U = Sigma_1 E T2^(1/2) L^-T``, ``V = (I
        + T1 C)^-1 E T2^(1/2) L^-T`` and ``L L' = I - T2^(1/2) E' Sigma_1 E T2^(1/2)``.
        The widening of the weights of points is ``A' V``.
        """
        self._base, self._solver, self.rows = base, solver, solver.rows
        negative_rows = (tau < 0).view(-1, tau.shape[-1]).any(0).nonzero().squeeze(-1)
        scale = (-tau[..., negative_rows]).clamp_min(0.0).sqrt()
        # E T2^(1/2), of rows that are negative in any element of the batch: zero in
        # elements in which they are not.
        columns = tau.new_zeros(*tau.shape, len(negative_rows))
        columns[
            ..., negative_rows, torch.arange(len(negative_rows), device=tau.device)
        ] = scale
        forces, narrow, weights, _ = base.solve(columns)
        cholesky, info = torch.linalg.cholesky_ex(plus_identity(-columns.mT @ narrow))
        self.proper = info == 0
        keep = self.proper.unsqueeze(-1)
        self.tau = torch.where(keep, tau, tau.clamp_min(0.0))
        diagonal = cholesky.diagonal(dim1=-2, dim2=-1)
        # A factor that failed holds any numbers: ones replace them here, zeros below.
        self._log_det = 2.0 * torch.where(keep, diagonal, 1.0).log().sum(-1)
        parts = torch.cat([narrow, forces, columns, weights], dim=-2).mT
        parts = torch.linalg.solve_triangular(cholesky, parts, upper=False).mT
        parts = torch.where(keep.unsqueeze(-1), parts, 0.0)
        m, n = tau.shape[-1], weights.shape[-2]
        self._rows_widening, self._forces_widening, self._columns, self._widening = (
            parts.split([m, m, m, n], dim=-2)
        )

    @property
    def log_det(self) -> Tensor:
        """See base class."""
        return self._base.log_det + self._log_det

    def solve(self, shifts: Tensor) -> Balance:
        """Solves for forces and movements, by ``V g`` and ``U g`` beyond the base's.

        ``U`` and ``V`` widen the posteriors of rows and forces, and ``g = L^-1 T2^(1/2)
        E' u1`` is of the movements ``u1`` of rows under ``base``. Weights of points get
        ``A' V g``; shifts are ``batch_shape x m x k``.
        """
        forces, moved, weights, _ = self._base.solve(shifts)
        g = self._columns.mT @ moved
        forces = forces + self._forces_widening @ g
        moved = moved + self._rows_widening @ g
        energy = (forces * moved).sum(-2)
        return Balance(forces, moved, weights + self._widening @ g, energy)

    def respond(self, pull: Tensor) -> Response:
        """Adds the widening to Newton's step of ``base``, in the space of the solver.

        It is forces ``V g`` and movements ``U g`` of rows, with the ``g`` of `solve`,
        translated to that space.
        """
        solver, (opposed, moved, decrement) = self._solver, self._base.respond(pull)
        g = self._columns.mT @ solver.rows_of(moved).unsqueeze(-1)
        forces = (self._forces_widening @ g).squeeze(-1)
        rows = (self._rows_widening @ g).squeeze(-1)
        return Response(
            opposed + solver.gather(forces),
            moved + solver.movement(forces, rows),
            decrement + g.square().sum((-2, -1)),
        )

    def influence(self) -> Tensor:
        """See base class."""
        return self._base.influence() + self._rows_widening @ self._widening.mT

    def variance(self) -> Tensor:
        """See base class."""
        return self._base_variance + self._rows_widening.square().sum(-1)

    @cached_property
    def _base_variance(self) -> Tensor:
        return self._base.variance()

    def cavity_ratio(self, variance: Tensor) -> Tensor:
        """Computes ``1 - tau_i Sigma_ii`` of rows, positive where a row has a cavity.

        The base gives ``1 - max(tau, 0) Sigma_1`` to more digits than the difference
        has, from variances of its own: ``variance`` is not read.
        """
        widened = self.tau * self._rows_widening.square().sum(-1)
        # The base has a precision of 0 where this one has a negative one.
        correction = self._base_variance * self.tau.clamp_max(0.0)
        return self._base.cavity_ratio(self._base_variance) - correction - widened

    def root(self) -> Tensor:
        """Computes ``Q`` of non-negative precisions; :meth:`widening` is the rest."""
        return self._base.root()

    def widening(self) -> Tensor:
        """See base class."""
        return self._widening

    def precision(self) -> Tensor:
        """See base class."""
        return self._base.precision() - self._widening @ self._widening.mT

    def noise_precision(self, noise: NoiseBlocks) -> Tensor:
        """Computes blocks of ``W``, those of ``base`` less ``V V'``; see base class."""
        v = noise.take(self._forces_widening)
        return self._base.noise_precision(noise) - v @ v.mT

    def row_root(self) -> Tensor:
        """See base class."""
        return torch.cat([self._base.row_root(), self._rows_widening], dim=-1)


def site_posterior(solver: SiteSolver, tau: Tensor) -> tuple[SitePosterior, Tensor]:
    """Makes the posterior of sites of either sign, and tells where it is proper.

    The second result is ``batch_shape``, booleans. Where it is False ``C^-1 + T`` is
    not positive definite, and the posterior is that of the non-negative precisions
    alone.
    """
    if not solver.bends(tau):
        base = solver.factor(tau)
        return base, torch.ones_like(base.log_det, dtype=torch.bool)
    widened = NegativeSites(solver.factor(tau.clamp_min(0.0)), solver, tau)
    return widened, widened.proper


# Below this share of a posterior variance the exact value is of no interest.
_NEGLIGIBLE = 1e-4


@torch.no_grad()
def lost_digits(
    solver: SiteSolver, posterior: SitePosterior, balance: Balance, eps: float
) -> float:
    r"""Bounds rounding errors of a posterior at the worst row, in posterior deviations.

    It is the largest of three errors in a rounding unit ``eps``, or an upper bound of
    them, if that is at most 1e-4. The first is that of the prior covariance,

    .. math::
        \max_i \epsilon \, c_i \, \frac{1 - \Sigma_{ii} / C_{ii}}
        {\Sigma_{ii} + (1 - C_{ii} / c_i) \, a_i^2 / t},

    where :math:`c_i` is the sum of the prior variances that cancel in :math:`C_{ii}`,
    :math:`a_i` the largest coefficient of the row and ``t`` the largest precision of
    all answers about one point: whatever the algorithm, a prediction is off by about
    this share of itself, since the prior covariance is known to rounding only. The
    second term in the denominator is for near-copies, whose difference answers cannot
    tell from zero.

    A mean is a sum over points of terms that may be far larger than it: :math:`\epsilon
    \, (|A| |K| |w|)_i`, over the root of the same denominator. And weights that lost
    digits miss the movement ``u`` of a row, by :math:`(A K w - u)_i` over this root.
    """
    tau = posterior.tau.clamp_min(0.0)
    variance = posterior.variance().maximum(solver.rounding_given(tau))
    residual = (solver.predict(balance.forces, balance.weights) - balance.moved).abs()
    sums, spread = _bounds(solver, tau, balance.weights)
    error_bound = residual.maximum(eps * sums.unsqueeze(-1)) * variance.rsqrt()
    # In processes that share answers, all take part in each `largest`, in this order.
    largest = torch.maximum(error_bound.max(), 2 * eps * spread.max())
    bound = float(solver.largest(largest))
    if bound <= _NEGLIGIBLE:
        return bound
    prior = solver.variance
    sharpest = solver.largest(solver.squares.adjoint(tau).amax(-1, keepdim=True))
    sharpest = sharpest.clamp_min(torch.finfo(tau.dtype).tiny)
    coefficient = solver.squares.coefficients.amax(-1)
    blur = (1 - prior / solver.summed_variance).clamp_min(0.0) * coefficient / sharpest
    of_means = residual.maximum(eps * _sums_of_means(solver, balance.weights))
    of_means = of_means / (variance + blur).sqrt()
    # A point and its copy differ by nothing, whatever the sums are.
    means = float(solver.largest(torch.where(prior > 0, of_means, 0.0).max()))
    errors = solver.summed_variance * (1 - variance / prior).clamp_min(0.0)
    errors = errors / (variance + blur)
    worst = solver.largest(torch.where(solver.resolved, errors, 0.0).max())
    return max(means, eps * float(worst))


def _bounds(solver: SiteSolver, tau: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Bounds two numbers of all rows cheaply, so that most solutions need neither.

    They are the largest of `_sums_of_means`, ``|A| |K| |w|``, and the largest ratio of
    prior to posterior variance; the bounds are ``batch_shape``.
    """
    c, k = solver.rows.coefficients.abs().max(), solver.rows.coefficients.shape[-1]
    largest = solver.covar.diagonal(dim1=-2, dim2=-1).amax(-1) * c * k
    precision = solver.total(tau.sum(-1)) * c * k
    return largest * weights.abs().sum(-1), largest * precision


def _sums_of_means(solver: SiteSolver, weights: Tensor) -> Tensor:
    """Computes ``|A| |K| |w|``, sizes that add up to means, ``batch_shape x m``.

    Rounding of a mean is ``eps`` times this, and not times the mean.
    """
    sums = (solver.covar.abs() @ weights.abs().unsqueeze(-1)).squeeze(-1)
    sizes = replace(solver.rows, coefficients=solver.rows.coefficients.abs())
    return sizes.apply(sums)
