r"""Gaussian conditioning on sites, in the smaller of rows and points.

Symbols: ``K`` (n x n) prior covariance of the utilities ``f``, ``A`` (m x n) sparse
rows, ``C = A K A' + N`` prior covariance of ``u = A (f - mean) + e``, where ``e`` with
the block-diagonal covariance ``N`` is noise that rows of one answer share, sites
:math:`\exp(\nu' u - u' T u / 2)` with ``T = diag(tau)``, non-negative here (for others
see :mod:`botorch_pref.inference.widened_factor`). Then

.. math::
    \Sigma = (C^{-1} + T)^{-1}, \qquad E[u] = \Sigma \nu, \qquad
    W = (C + T^{-1})^{-1} = T^{1/2} B^{-1} T^{1/2}, \qquad
    B = I + T^{1/2} C T^{1/2},

and for utilities anywhere, with ``k = K(x, X)``,

.. math::
    E[f(x)] = m(x) + k A' (\nu - T E[u]), \qquad
    \mathrm{cov} = K_{**} - k A' W A k'.

Neither ``K`` nor ``C`` is ever inverted, so duplicate points, repeated answers and
answers that contradict each other are ordinary input. See Rasmussen and Williams
(2006), section 3.4.3 and algorithm 3.5, for the row space.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property

import torch
from torch import Tensor

from botorch_pref.errors import PrecisionError
from botorch_pref.feedback.sparse_rows import SparseRows
from botorch_pref.likelihoods.noise_blocks import NoiseBlocks
from botorch_pref.numerics.psd_root import psd_root

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
    """Of a matrix with this Cholesky factor, ``batch_shape``."""
    return 2.0 * cholesky.diagonal(dim1=-2, dim2=-1).log().sum(-1)


class SiteFactor(ABC):
    """The posterior of one choice of site precisions: one Cholesky, reused.

    Attributes:
        tau: The precisions, ``batch_shape x m``.
        log_det: ``log |B|``, ``batch_shape``.
    """

    tau: Tensor
    log_det: Tensor

    @abstractmethod
    def covariance_times(self, values: Tensor) -> Tensor:
        """``Sigma values``, both ``batch_shape x m x k``."""

    def mean(self, nu: Tensor) -> Tensor:
        """``E[u]`` for site shifts ``nu``, both ``batch_shape x m``."""
        return self.covariance_times(nu.unsqueeze(-1)).squeeze(-1)

    @abstractmethod
    def variance(self) -> Tensor:
        """The diagonal of ``Sigma``, ``batch_shape x m``."""

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
    """Everything about ``K`` and ``A`` that does not change with the sites.

    Attributes:
        rows: ``A``.
    """

    def __init__(self, covar: Tensor, rows: SparseRows) -> None:
        self._points, self.rows = covar, rows

    @cached_property
    def rounding(self) -> Tensor:
        """The rounding error of prior row variances, ``batch_shape x m``.

        A row whose variance is below this has none: it compares duplicates.
        """
        squares = SparseRows(
            self.rows.indices,
            self.rows.coefficients.square(),
            self.rows.num_points,
        )
        terms = squares.apply(self._points.diagonal(dim1=-2, dim2=-1))
        return _ROUNDING * torch.finfo(terms.dtype).eps * terms

    @abstractmethod
    def factor(self, tau: Tensor) -> SiteFactor:
        """Conditions on sites of precision ``tau``: ``batch_shape x m``."""

    @property
    @abstractmethod
    def variance(self) -> Tensor:
        """The diagonal of ``C``, ``batch_shape x m``."""

    @abstractmethod
    def covariance_times(self, values: Tensor) -> Tensor:
        """``C values``, both ``batch_shape x m``."""


class _RowFactor(SiteFactor):
    def __init__(self, rows: SparseRows, covar: Tensor, tau: Tensor) -> None:
        self._rows, self._covar, self.tau = rows, covar, tau
        self._scale = tau.sqrt()
        scaled = self._scale.unsqueeze(-1) * covar
        b = scaled * self._scale.unsqueeze(-2)
        b.diagonal(dim1=-2, dim2=-1).add_(1.0)
        self._cholesky = site_cholesky(b)
        self._scaled = scaled
        self.log_det = log_det(self._cholesky)

    def covariance_times(self, values: Tensor) -> Tensor:
        prior = self._covar @ values
        inner = self._scale.unsqueeze(-1) * prior
        inner = torch.cholesky_solve(inner, self._cholesky)
        return prior - self._scaled.mT @ inner

    def variance(self) -> Tensor:
        v = torch.linalg.solve_triangular(self._cholesky, self._scaled, upper=False)
        return self._covar.diagonal(dim1=-2, dim2=-1) - v.square().sum(-2)

    def weights(self, targets: Tensor) -> Tensor:
        scale = self._scale.unsqueeze(-1)
        inner = torch.cholesky_solve(scale * targets, self._cholesky)
        return self._rows.adjoint_matrix(scale * inner)

    def root(self) -> Tensor:
        scale = torch.diag_embed(self._scale)
        y = torch.linalg.solve_triangular(self._cholesky, scale, upper=False)
        return self._rows.adjoint_matrix(y.mT)

    def _row_precision(self) -> Tensor:
        inverse = torch.cholesky_inverse(self._cholesky)
        return inverse * (self._scale.unsqueeze(-1) * self._scale.unsqueeze(-2))

    def precision(self) -> Tensor:
        return self._rows.adjoint_congruence(self._row_precision())

    def noise_precision(self, noise: NoiseBlocks) -> Tensor:
        return noise.take_square(self._row_precision())

    def row_root(self) -> Tensor:
        return _conditioned_root(psd_root(self._covar), self._scale)


class RowSolver(SiteSolver):
    """Works on ``C``, m x m: for fewer rows than points."""

    def __init__(
        self, covar: Tensor, rows: SparseRows, noise: NoiseBlocks | None = None
    ) -> None:
        super().__init__(covar, rows)
        self._covar = rows.congruence(covar)
        if noise is not None:
            self._covar = self._covar + noise.dense()

    def factor(self, tau: Tensor) -> SiteFactor:
        """See base class."""
        return _RowFactor(self.rows, self._covar, tau)

    @property
    def variance(self) -> Tensor:
        """See base class."""
        return self._covar.diagonal(dim1=-2, dim2=-1)

    def covariance_times(self, values: Tensor) -> Tensor:
        """See base class."""
        return (self._covar @ values.unsqueeze(-1)).squeeze(-1)


def _conditioned_root(root: Tensor, scale: Tensor) -> Tensor:
    """``H = S L^-T`` with ``L L' = I + S' T S``, for ``C = S S'``."""
    scaled = scale.unsqueeze(-1) * root
    cholesky = site_cholesky(plus_identity(scaled.mT @ scaled))
    return torch.linalg.solve_triangular(cholesky, root.mT, upper=False).mT


class _PointFactor(SiteFactor):
    def __init__(
        self, rows: SparseRows, covar: Tensor, root: Tensor, tau: Tensor
    ) -> None:
        self._rows, self._covar, self.tau = rows, covar, tau
        self._gram = rows.gram(tau)
        self._cholesky = site_cholesky(plus_identity(root.mT @ self._gram @ root))
        self._half = torch.linalg.solve_triangular(self._cholesky, root.mT, upper=False)
        self.log_det = log_det(self._cholesky)

    def covariance_times(self, values: Tensor) -> Tensor:
        inner = self._half @ self._rows.adjoint_matrix(values)
        return self._rows.apply_matrix(self._half.mT @ inner)

    def variance(self) -> Tensor:
        return self.row_root().square().sum(-1)

    def weights(self, targets: Tensor) -> Tensor:
        scaled = self._rows.adjoint_matrix(self.tau.unsqueeze(-1) * targets)
        return scaled - self._gram @ (self._half.mT @ (self._half @ scaled))

    def root(self) -> Tensor:
        u = psd_root(self._gram)
        cholesky = site_cholesky(plus_identity(u.mT @ self._covar @ u))
        return torch.linalg.solve_triangular(cholesky, u.mT, upper=False).mT

    def precision(self) -> Tensor:
        half = self._half @ self._gram
        return self._gram - half.mT @ half

    def noise_precision(self, noise: NoiseBlocks) -> Tensor:
        # T - T Sigma T
        t = self.tau.unsqueeze(-1)
        spread = noise.take(t * self.row_root())
        return torch.diag_embed(noise.take(t).squeeze(-1)) - spread @ spread.mT

    def row_root(self) -> Tensor:
        return self._rows.apply_matrix(self._half.mT)


class PointSolver(SiteSolver):
    """Works on ``K``, n x n: for fewer points than rows."""

    def __init__(self, covar: Tensor, rows: SparseRows) -> None:
        super().__init__(covar, rows)
        self._root = psd_root(covar)

    def factor(self, tau: Tensor) -> SiteFactor:
        """See base class."""
        return _PointFactor(self.rows, self._points, self._root, tau)

    @cached_property
    def variance(self) -> Tensor:
        """See base class."""
        return self.rows.apply_matrix(self._root).square().sum(-1)

    def covariance_times(self, values: Tensor) -> Tensor:
        """See base class."""
        inner = self._points @ self.rows.adjoint(values).unsqueeze(-1)
        return self.rows.apply(inner.squeeze(-1))
