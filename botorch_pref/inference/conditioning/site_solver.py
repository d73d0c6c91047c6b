r"""Gaussian conditioning on sites, in the smaller of rows and points.

Symbols: ``K`` (n x n) prior covariance of the utilities ``f``, ``A`` (m x n) sparse
rows, ``C = A K A' + N`` prior covariance of ``u = A (f - mean) + e``, where ``e`` with
the block-diagonal covariance ``N`` is noise that rows of one answer share, sites
:math:`\exp(\nu' u - u' T u / 2)` with ``T = diag(tau)``, non-negative here (for others
see :mod:`botorch_pref.inference.conditioning.negative_sites`). Then

.. math::
    \Sigma = (C^{-1} + T)^{-1}, \qquad E[u] = \Sigma \nu, \qquad
    W = (C + T^{-1})^{-1} = T^{1/2} B^{-1} T^{1/2}, \qquad
    B = I + T^{1/2} C T^{1/2},

and for utilities anywhere, with ``k = K(x, X)``,

.. math::
    E[f(x)] = m(x) + k A' a, \qquad a = (I + T C)^{-1} \nu = \nu - T E[u], \qquad
    \mathrm{cov} = K_{**} - k A' W A k'.

The forces ``a`` are never computed as that difference: where answers are much more
precise than the prior, it is of two numbers that agree in all their digits, and what is
left is multiplied by :math:`(C T)^2`. Neither are the weights ``w = A' a`` of points
with many answers a sum of their forces: where a thousand answers contradict each other,
the sum is smaller than the rounding of its terms. They are solved for as they are, in
the smaller space: see :class:`SiteSolver`.

Neither ``K`` nor ``C`` is ever inverted, so duplicate points, repeated answers and
answers that contradict each other are ordinary input. See Rasmussen and Williams
(2006), section 3.4.3 and algorithm 3.5, for the row space.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from botorch_pref.errors import PrecisionError
from botorch_pref.linalg.noise_blocks import NoiseBlocks
from botorch_pref.linalg.sparse_design import SparseDesign

_ROUNDING = 16.0


def plus_identity(matrix: Tensor) -> Tensor:
    """``I + M``, both ``batch_shape x n x n``."""
    out = matrix.clone()
    out.diagonal(dim1=-2, dim2=-1).add_(1.0)
    return out


def site_cholesky(matrix: Tensor) -> Tensor:
    """The factor of a matrix ``I + M`` with ``M`` positive semi-definite."""
    factor, info = torch.linalg.cholesky_ex(matrix)
    if bool(info.any()):
        raise PrecisionError(
            f"I + T^(1/2) C T^(1/2) is not positive definite in {matrix.dtype}: "
            "rounding errors of the prior covariance exceed the noise of the answers. "
            "Use double precision, a larger noise or a smaller output scale."
        )
    return factor


def log_det(cholesky: Tensor) -> Tensor:
    """The log determinant of a matrix with this Cholesky factor, ``batch_shape``."""
    return 2.0 * cholesky.diagonal(dim1=-2, dim2=-1).log().sum(-1)


class Balance(NamedTuple):
    r"""Balance of site shifts ``s`` with the prior, columns side by side.

    Attributes:
        forces: :math:`a = (I + T C)^{-1} s = s - T \Sigma s`, ``batch_shape x m x k``.
        moved: :math:`\Sigma s`, ``batch_shape x m x k``.
        weights: :math:`A' a` of the points, ``batch_shape x n x k``, to more digits
            than the sum of the forces has.
        energy: :math:`a' C a`, ``batch_shape x k``, a sum of squares.
    """

    forces: Tensor
    moved: Tensor
    weights: Tensor
    energy: Tensor

    def of_column(self) -> Balance:
        """Balance of a single column, without its dimension."""
        return Balance(*(part.squeeze(-1) for part in self))


class Response(NamedTuple):
    r"""The response of prior and sites to a pull, in the space of the solver.

    Attributes:
        opposed: The pull of the prior against it, ``batch_shape x k``.
        moved: The movement, ``batch_shape x k``, by which the prior pulls so.
        decrement: The squared length of the movement in posterior standard deviations,
            ``batch_shape``: the pull times what it moves.
    """

    opposed: Tensor
    moved: Tensor
    decrement: Tensor


class SitePosterior(ABC):
    """The posterior of one choice of site precisions: one Cholesky, reused.

    Attributes:
        tau: The precisions, ``batch_shape x m``.
    """

    tau: Tensor

    @property
    @abstractmethod
    def log_det(self) -> Tensor:
        """``log |B|``, ``batch_shape``."""

    @property
    @abstractmethod
    def batch_shape(self) -> torch.Size:
        """The batch shape of prior and sites."""

    @abstractmethod
    def solve(self, shifts: Tensor) -> Balance:
        """Forces of sites, and the means of the rows, to the digits that there are.

        Args:
            shifts: ``batch_shape x m x k``, a column a set of shifts.
        """

    def respond(self, pull: Tensor) -> Response:
        r"""The response to one pull: Newton's step where it is out of balance.

        Args:
            pull: In the space of the solver, ``batch_shape x k``.
        """
        found = self.solve(pull.unsqueeze(-1)).of_column()
        return Response(found.forces, found.moved, (pull * found.moved).sum(-1))

    def covariance_times(self, values: Tensor) -> Tensor:
        """``Sigma values``, both ``batch_shape x m x k``."""
        return self.solve(values).moved

    @abstractmethod
    def influence(self) -> Tensor:
        r"""``(I - Sigma T) A``, the influence of prior means, ``batch_shape x m x n``.

        Of a change of the prior means of the points, it is what answers leave of it in
        the posterior means of the rows.
        """

    def settle(self, nu: Tensor) -> tuple[Tensor, Tensor]:
        """``E[u]``, ``batch_shape x m``, and its energy, ``batch_shape``.

        Args:
            nu: Site shifts, ``batch_shape x m``.
        """
        found = self.solve(nu.unsqueeze(-1)).of_column()
        return found.moved, found.energy

    def mean(self, nu: Tensor) -> Tensor:
        """``E[u]`` for site shifts ``nu``, both ``batch_shape x m``."""
        return self.covariance_times(nu.unsqueeze(-1)).squeeze(-1)

    @abstractmethod
    def variance(self) -> Tensor:
        """The diagonal of ``Sigma``, ``batch_shape x m``."""

    @abstractmethod
    def cavity_ratio(self) -> Tensor:
        r"""Variances over those of the cavities, ``batch_shape x m``.

        The diagonal of :math:`I - T \Sigma = (I + T C)^{-1}`: one minus the leverage of
        an answer.
        """

    @abstractmethod
    def weights(self, targets: Tensor) -> Tensor:
        """``A' W t`` for values ``t`` of ``u`` seen with noise ``1 / tau``.

        Args:
            targets: ``batch_shape x m x k``, a column a set of values.

        Returns:
            ``batch_shape x n x k``.
        """

    @abstractmethod
    def root(self) -> Tensor:
        """``Q`` with ``A' W A = Q Q'``, ``batch_shape x n x r``."""

    @abstractmethod
    def precision(self) -> Tensor:
        """``A' W A``, ``batch_shape x n x n``."""

    @abstractmethod
    def noise_precision(self, noise: NoiseBlocks) -> Tensor:
        """The diagonal blocks of ``W`` where rows share noise.

        Args:
            noise: The blocks.

        Returns:
            ``batch_shape x num_blocks x k x k``.
        """

    @abstractmethod
    def row_root(self) -> Tensor:
        """``H`` with ``Sigma = H H'``, ``batch_shape x m x k``."""

    def widening(self) -> Tensor | None:
        """``P`` with ``A' W A = Q Q' - P P'``, ``batch_shape x n x k``; None for 0."""
        return None


class SiteSolver(ABC):
    """The part of ``K`` and ``A`` that does not change with the sites.

    A solver works in the smaller of two spaces, where sites pull and the prior holds.
    That of rows has the prior covariance ``C`` and is pulled by forces as they are.
    That of points is white: utilities are ``R v`` with ``K = R R'``, forces pull by
    ``R' A' a``, the sum over the answers of a point, and the prior covariance is one.

    Attributes:
        covar: ``K``.
        rows: ``A``.
        noise: ``N``; None for zero.
    """

    def __init__(
        self, covar: Tensor, rows: SparseDesign, noise: NoiseBlocks | None = None
    ) -> None:
        self.covar, self.rows, self.noise = covar, rows, noise

    @cached_property
    def rounding(self) -> Tensor:
        """The rounding error of prior row variances, ``batch_shape x m``.

        A row whose variance is not above this has none: it compares duplicates, or is
        padding, of which this is positive too.
        """
        known = torch.finfo(self.terms.dtype)
        return (_ROUNDING * known.eps * self.terms).clamp_min(known.tiny)

    @cached_property
    def terms(self) -> Tensor:
        """Prior variances of utilities that add up in a row, ``batch_shape x m``."""
        return self.squares.apply(self.covar.diagonal(dim1=-2, dim2=-1))

    @cached_property
    def squares(self) -> SparseDesign:
        """The rows with their coefficients squared."""
        rows = self.rows
        return SparseDesign(rows.indices, rows.coefficients.square(), rows.num_points)

    def rounding_given(self, tau: Tensor) -> Tensor:
        """The rounding error of posterior row variances, ``batch_shape x m``.

        Args:
            tau: Site precisions, ``batch_shape x m``.
        """
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

    @abstractmethod
    def factor(self, tau: Tensor) -> SitePosterior:
        """Conditions on sites of precision ``tau``: ``batch_shape x m``."""

    @property
    @abstractmethod
    def variance(self) -> Tensor:
        """The diagonal of ``C``, ``batch_shape x m``."""

    @abstractmethod
    def prior_times(self, values: Tensor) -> Tensor:
        """``C values``, both ``batch_shape x m x k``."""

    def predict(self, forces: Tensor, weights: Tensor) -> Tensor:
        """``C a`` as predictions make it: of weights of points, ``batch_shape x m``.

        Args:
            forces: ``a``, ``batch_shape x m``.
            weights: ``A' a``, ``batch_shape x n``.
        """
        rows = self.rows.apply((self.covar @ weights.unsqueeze(-1)).squeeze(-1))
        if self.noise is None:
            return rows
        return rows + self.noise.times(forces.unsqueeze(-1)).squeeze(-1)

    def covariance_times(self, values: Tensor) -> Tensor:
        """``C values``, both ``batch_shape x m``."""
        return self.prior_times(values.unsqueeze(-1)).squeeze(-1)

    def gather(self, forces: Tensor) -> Tensor:
        """Pull in the space by forces of the rows, ``batch_shape x m``."""
        return forces

    def moved_by(self, pull: Tensor) -> Tensor:
        """Movement of the space by a pull under the prior, ``batch_shape x k``."""
        return self.covariance_times(pull)

    def rows_of(self, moved: Tensor) -> Tensor:
        """Movement of the rows, ``batch_shape x m``, by that of the space."""
        return moved
