"""Covariance matrices as tensors, and their roots, singular or not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from gpytorch import settings
from gpytorch.kernels import Kernel, MaternKernel, RBFKernel, ScaleKernel
from linear_operator.operators import DenseLinearOperator, RootLinearOperator
from numpy.typing import NDArray
from scipy.linalg import get_lapack_funcs
from scipy.linalg.lapack import dsygst
from torch import Tensor
from torch.autograd import Function
from torch.linalg import LinAlgError  # type: ignore[attr-defined]

from botorch_pref.errors import BotorchPrefError, PrecisionError


def joint_shape(*shapes: torch.Size) -> torch.Size:
    """Broadcasts batch shapes, without torch where all that are not empty agree.

    ``torch.broadcast_shapes`` takes as long as a product of small matrices, and each
    product with a design asks for a shape.
    """
    distinct = {shape for shape in shapes if shape}
    if len(distinct) > 1:
        return torch.broadcast_shapes(*distinct)
    return distinct.pop() if distinct else torch.Size()


def join_rows(parts: Sequence[Tensor], along: int = -1) -> Tensor:
    """Joins blocks ``... x m``, or along -2 ``... x m x k``, one after the other."""
    batch = joint_shape(*(part.shape[:along] for part in parts))
    rows = [part.expand(*batch, *part.shape[along:]) for part in parts]
    return torch.cat(rows, dim=along)


def batched_product(points: Tensor, weights: Tensor) -> Tensor:
    """Multiplies ``t_batch x batch_shape x q x n`` by ``batch_shape x n x r``."""
    if weights.dim() != 3 or points.dim() < 4:
        return points @ weights
    return torch.einsum("...sqn,snr->...sqr", points, weights)


def block_diagonal(first: Tensor, second: Tensor) -> Tensor:
    """Joins ``batch_shape x m x n`` and ``... x m' x n'`` blocks; the rest is zero."""
    batch = joint_shape(first.shape[:-2], second.shape[:-2])
    (m, n), (rows, columns) = first.shape[-2:], second.shape[-2:]
    out = first.new_zeros(*batch, m + rows, n + columns)
    out[..., :m, :n], out[..., m:, n:] = first, second
    return out


def dense_covariance(kernel: Kernel, x1: Tensor, x2: Tensor | None = None) -> Tensor:
    """Computes the covariance of two sets of points at once, ``batch_shape x q x n``.

    The result is a tensor: GPyTorch's lazy ones, which are evaluated in this same way,
    cost as much again as a kernel of some hundred points. Without ``x2`` it is the
    covariance of ``x1`` with itself. If `has_closed_form` accepts the kernel, the
    gradient in its scales is written out then, and to differentiate that gradient is an
    error.
    """
    if x2 is None and has_closed_form(kernel, x1):
        base: Any = kernel.base_kernel
        covariance: Tensor = _ScaledStationary.apply(
            x1, base.lengthscale, kernel.outputscale, isinstance(base, MaternKernel)
        )
        return covariance
    with settings.lazily_evaluate_kernels(False):
        return kernel(x1, x2).to_dense()


def has_closed_form(kernel: Kernel, x: Tensor) -> bool:
    """Tells whether a kernel's derivatives in its scales are written out here.

    They are for an RBF or a Matern-5/2 kernel of all features times an output scale,
    where no gradient in the points ``x``, ``... x n x d``, is wanted: by
    `_ScaledStationary` for `dense_covariance`, and by `RowKernel` for fits.
    """
    # Not isinstance: a subclass may compute something else.
    if type(kernel) is not ScaleKernel or x.requires_grad:
        return False
    base = kernel.base_kernel
    usual = type(base) is RBFKernel or (type(base) is MaternKernel and base.nu == 2.5)
    if not usual or kernel.active_dims is not None or base.active_dims is not None:
        return False
    # Where the number of features is wrong, the kernel's own call says so.
    fits = x.dim() > 1 and base.ard_num_dims in (None, x.shape[-1])
    return fits and x.dtype == base.lengthscale.dtype


class _Once(Function):
    """Gradient that refuses to be differentiated."""

    @staticmethod
    def forward(ctx: Any, gradient: Tensor, *sources: Tensor) -> Tensor:
        """See base class."""
        return gradient.view_as(gradient)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        """Raises an error: no second derivative is known."""
        raise BotorchPrefError(
            "Gradients of evidences and of covariances in hyper-parameters are known "
            "in closed form, and their own derivatives are not; take differences of "
            "gradients for second derivatives."
        )


def differentiated_once(gradient: Tensor, *sources: Tensor) -> Tensor:
    """Returns a gradient whose own derivative is an error, and not a wrong number.

    Backward passes that are written out call it on the ``gradient`` that comes in. The
    ``sources`` are tensors that their result depends on too: for these the error is
    raised even where the incoming gradient has no graph. It does nothing unless the
    backward pass is recorded (``create_graph=True``).
    """
    applied: Tensor = gradient
    if torch.is_grad_enabled():
        applied = _Once.apply(gradient, *sources)
    return applied


class _ScaledStationary(Function):
    r"""An RBF or a Matern-5/2 kernel times an output scale, of points with themselves.

    Entries are :math:`s k(D)` of :math:`D_{ij} = \sum_k (z_{ik} - z_{jk})^2`, :math:`z
    = x / \ell`. With :math:`H = -2 s G \circ k'(D)` and its row and column sums r,
    :math:`\langle G, s k(D) \rangle` has the derivative in :math:`\ell_k`

    .. math:: \frac{1}{\ell_k} \Big( \sum_i r_i z_{ik}^2 - 2 z_k' H z_k \Big).

    Autograd takes a dozen matrices of points for it, which take longer to get than to
    fill.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, lengthscale: Tensor, outputscale: Tensor, matern: bool
    ) -> Tensor:
        """Computes ``s k(D)``, ``batch_shape x n x n``, of the points ``x``.

        ``D`` are squared distances in lengthscales and ``s`` is the output scale;
        ``k(D)`` is ``exp(-D / 2)``, or ``(1 + r + r^2 / 3) exp(-r)`` with ``r = sqrt(5
        D)`` for ``matern``. The slope ``F = -2 s k'(D)`` is stored for the gradient.
        """
        # In GPyTorch's order, so that covariances with other points round as these do.
        z = (x - x.mean(dim=-2, keepdim=True) if matern else x) / lengthscale
        z = z - z.mean(dim=-2, keepdim=True)
        squares = z.square().sum(-1, keepdim=True)
        unit_column = torch.ones_like(squares)
        # By one product: |z_i|^2 + |z_j|^2 - 2 z_i' z_j.
        left_columns, right_columns = (
            (-2.0 * z, squares, unit_column),
            (z, unit_column, squares),
        )
        distance = torch.cat(left_columns, dim=-1) @ torch.cat(right_columns, dim=-1).mT
        distance.clamp_min_(0.0).diagonal(dim1=-2, dim2=-1).fill_(0.0)
        # In place, so in this order: the distance becomes r, and r its square once the
        # slope is made. The derivative in D is minus half of the slope.
        if matern:
            root = distance.mul_(5.0).sqrt_()
            decay = (-root).exp_() * outputscale[..., None, None]
            slope = decay.addcmul(root, decay)
            covariance = torch.addcmul(slope, root.square_(), decay, value=1 / 3)
            slope.mul_(5 / 3)
        else:
            covariance = distance.mul_(-0.5).exp_() * outputscale[..., None, None]
            slope = covariance
        ctx.save_for_backward(z, lengthscale, outputscale, covariance, slope)
        return covariance

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Computes the gradient in both scales from ``gradient``, that in the entries.

        With ``H = gradient * F`` entry by entry (``F`` is `slope`), its row and column
        sums ``r`` and the points ``z`` in lengthscales it is ``(sum_i r_i z_ik^2 - 2
        z_k' H z_k) / l_k`` in the lengthscale ``l_k``, and ``<gradient, s k> / s`` in
        the output scale. Points and ``matern`` have none.
        """
        z, lengthscale, outputscale, covariance, slope = ctx.saved_tensors
        gradient = differentiated_once(gradient, lengthscale, outputscale)
        total = torch.linalg.vecdot(gradient.flatten(-2), covariance.flatten(-2))
        h = gradient * slope
        r = h.sum(-1) + h.sum(-2)
        inner = (r.unsqueeze(-1) * z - h @ (2.0 * z)) * z
        of_length = inner.sum(-2, keepdim=True) / lengthscale
        of_output = (total / outputscale).sum_to_size(outputscale.shape)
        return None, of_length.sum_to_size(lengthscale.shape), of_output, None


# --- A kernel of few rows, in the logs of its scales


Array = NDArray[np.float64]


class RowSlopes(NamedTuple):
    r"""Parts of the derivatives at some scales, of all pairs of terms, ``km x km``.

    Attributes:
        precision: Of the features, :math:`1 / \ell^2`, ``d``.
        covar: ``s k``, with the signs of the terms, as the others.
        slope: ``F``.
        bend: ``G``.
    """

    precision: Array
    covar: Array
    slope: Array
    bend: Array


class RowKernel:
    r"""The covariance of ``m`` rows of a kernel, by its ``p`` scales, in NumPy.

    These are the lengthscales, in their order, and the output scale. With :math:`E_i =
    (x_i - x_i')^2 / \ell_i^2`, :math:`D = \sum_i E_i`, :math:`F = -2 s k'(D)` and
    :math:`G = 4 s k''(D)` the kernel :math:`s \, k(D)` has the derivatives

    .. math::
        \frac{\partial \, s k}{\partial \log \ell_i} = F E_i, \qquad
        \frac{\partial^2 \, s k}{\partial \log \ell_i \, \partial \log \ell_j}
        = G E_i E_j - 2 \delta_{ij} F E_i,

    and one in :math:`\log s` changes nothing. The RBF kernel has :math:`F = G = s k`;
    the Matern-5/2 kernel, with :math:`r = \sqrt{5 D}`, has :math:`F = \frac53 s (1 + r)
    e^{-r}` and :math:`G = \frac{25}{3} s e^{-r}`.

    Args:
        kernel: One that :func:`has_closed_form` at the points.
        points: ``n x d``.
        indices: Points of the ``k`` terms of each row, ``m x k`` long.
        coefficients: Of the terms, ``m x k``.
    """

    def __init__(
        self, kernel: Kernel, points: Tensor, indices: Tensor, coefficients: Tensor
    ) -> None:
        """Stores what no scale changes, of the ``k`` terms of each of ``m`` rows.

        These are, for each two terms, the product of their coefficients, ``k m x k m``,
        and the squared difference in each feature, ``d x k^2 x m x m``; for each term
        the products of each two features, ``k m x d^2``.
        """
        self._kernel, self._base = kernel, cast("Any", kernel.base_kernel)
        # All first terms of the rows, then all second ones: `_blocks` relies on it.
        places, signs = indices.mT, coefficients.mT.flatten().numpy()
        self._signs, self._num_terms = np.outer(signs, signs), len(places)
        centred = (points - points.mean(0))[places].numpy()
        x = self._x = centred.reshape(-1, centred.shape[-1])
        terms = centred.transpose(2, 0, 1)
        squares = terms[:, :, None, :, None] - terms[:, None, :, None, :]
        squares *= squares
        self._squares = squares.reshape(len(terms), -1, *squares.shape[-2:])
        self._mixed = (self._x[:, :, None] * self._x[:, None, :]).reshape(len(x), -1)
        self._is_shared = self._base.lengthscale.shape[-1] == 1

    @property
    def raw_scales(self) -> tuple[Tensor, Tensor]:
        """The parameters behind lengthscales and output scale."""
        return self._base.raw_lengthscale, self._kernel.raw_outputscale

    def log_scales(self) -> Tensor:
        """Returns the logs of all scales, ``p``, with their graph."""
        scales = self._base.lengthscale.flatten(), self._kernel.outputscale.view(1)
        return torch.cat(scales).log()

    def places(self, raw: Sequence[Tensor]) -> Array:
        """Finds at which places of `log_scales` the entries of raw parameters stand.

        A fit has those that are learned, in an order of its own. What is not the
        lengthscale is taken for the output scale, the last one.
        """
        count = self._base.raw_lengthscale.numel()
        positions = {id(self._base.raw_lengthscale): [*range(count)]}
        return np.concatenate(
            [positions.get(id(parameter), [count]) for parameter in raw]
        )

    def slopes(self) -> RowSlopes:
        """Computes the parts of the derivatives at the kernel's present scales.

        They are ``s k(D)``, ``F = -2 s k'(D)`` and ``G = 4 s k''(D)`` for all pairs of
        terms, ``k m x k m``, each times the coefficients of both, with squared
        distances ``D`` in lengthscales. `first` and `second` make derivatives in the
        logs of scales of them.
        """
        lengthscale = self._base.lengthscale.detach().numpy().reshape(-1)
        precision = np.broadcast_to(lengthscale**-2.0, self._x.shape[-1:])
        squared_norms = self._x**2 @ precision
        distance = np.add.outer(squared_norms, squared_norms)
        distance -= 2 * (self._x * precision) @ self._x.T
        np.maximum(distance, 0.0, out=distance)
        signed = float(self._kernel.outputscale.detach()) * self._signs
        if not isinstance(self._base, MaternKernel):
            covar = signed * np.exp(-0.5 * distance)
            # F and G are s k itself; `second` asks whether they are one array.
            return RowSlopes(precision, covar, covar, covar)
        root = np.sqrt(5 * distance)
        decay = signed * np.exp(-root)
        slope = (1 + root) * decay
        covar = slope + 5 / 3 * distance * decay
        return RowSlopes(precision, covar, 5 / 3 * slope, 25 / 3 * decay)

    def first(self, slopes: RowSlopes) -> Array:
        """Computes the first derivatives of the covariance of rows, ``p x m x m``.

        The one in the log of lengthscale ``i`` is ``F E_i``, with the squared
        differences ``E_i`` of feature ``i`` in lengthscales, and the one in the log of
        the output scale is the covariance itself, both summed over the terms of two
        rows. A lengthscale that features share has the sum of theirs.
        """
        slope = self._blocks(slopes.slope)
        of_length = np.einsum("pkab,kab->pab", self._squares, slope)
        of_length *= slopes.precision[:, None, None]
        if self._is_shared:
            of_length = of_length.sum(0, keepdims=True)
        return np.concatenate([of_length, [self._blocks(slopes.covar).sum(0)]])

    def second(self, slopes: RowSlopes, weights: Array) -> Array:
        """Sums weighted second derivatives of the covariance of rows, ``p x p``.

        Entry ``ij`` is ``sum_ab weights_ab d2 C_ab / (dt_i dt_j)``, with the logs ``t``
        of the scales and symmetric ``weights``, ``m x m``. In two lengthscales the
        derivative is ``G E_i E_j``, less ``2 F E_i`` where ``i = j``; in the output
        scale and another one it is the first derivative in the other one.
        """
        tiled = np.tile(weights, (self._num_terms, self._num_terms))
        of_length, of_pairs = self._moments(tiled * slopes.slope)
        if slopes.bend is not slopes.slope:
            _, of_pairs = self._moments(tiled * slopes.bend)
        of_length = slopes.precision * of_length
        of_pairs = slopes.precision[
            :, None
        ] * of_pairs * slopes.precision - 2 * np.diag(of_length)
        if self._is_shared:
            of_length, of_pairs = (
                of_length.sum(keepdims=True),
                of_pairs.sum(keepdims=True),
            )
        of_output = np.append(of_length, (tiled * slopes.covar).sum())
        return np.block([[of_pairs, of_length[:, None]], [of_output]])

    def _moments(self, weights: Array) -> tuple[Array, Array]:
        """Sums weighted squared differences, ``d``, and products of two, ``d x d``.

        They are ``sum_ab w_ab (x_ai - x_bi)^2`` and ``sum_ab w_ab (x_ai - x_bi)^2 (x_aj
        - x_bj)^2`` for symmetric weights of all pairs of terms, ``k m x k m``. The
        squares are multiplied out: otherwise each two features would take a matrix of
        all pairs of terms.
        """
        x, mixed, d = self._x, self._mixed, self._x.shape[-1]
        squares, total = mixed[:, :: d + 1], weights.sum(-1)
        of_x, of_mixed = weights @ x, weights @ mixed
        single = 2 * (total @ squares - (x * of_x).sum(0))
        odd = squares.T @ (x * of_x)
        even = (squares.T * total) @ squares + squares.T @ of_mixed[:, :: d + 1]
        cross = (mixed * of_mixed).sum(0).reshape(d, d)
        return single, 2 * even - 4 * (odd + odd.T - cross)

    def _blocks(self, terms: Array) -> Array:
        """Splits a matrix of all terms into matrices of rows, ``k^2 x m x m``."""
        k, m = self._num_terms, len(terms) // self._num_terms
        return terms.reshape(k, m, k, m).swapaxes(1, 2).reshape(-1, m, m)


_LARGE, _SPARSE = 200, 0.05
"""Rows from which a product over non-zeros alone may be faster, and their share below
which it is. Of fewer rows the count would take longer than it saves."""


def sparse_product(matrix: Tensor, factor: Tensor) -> Tensor:
    """Multiplies ``matrix @ factor``, where faster over non-zeros of ``matrix`` alone.

    Args:
        matrix: ``batch_shape x k x k``; with a batch it is multiplied as a dense one.
        factor: ``batch_shape x k x l``.
    """
    sparse = sparse_matrix(matrix)
    return matrix @ factor if sparse is None else product_of_sparse(sparse, factor)


def sparse_matrix(matrix: Tensor) -> Tensor | None:
    """Converts a matrix to a sparse one if this makes products faster, else None.

    It does from 200 rows on where at most a twentieth of the entries is not zero, as
    for items without features, whose prior is nearly diagonal. A matrix with a batch is
    never converted.
    """
    if matrix.dim() > 2 or len(matrix) < _LARGE:
        return None
    if int(matrix.count_nonzero()) > _SPARSE * matrix.numel():
        return None
    return matrix.to_sparse()


def product_of_sparse(sparse: Tensor, matrix: Tensor) -> Tensor:
    """Multiplies a sparse ``k x n`` matrix by ``batch_shape x n x l``."""
    # torch multiplies by one matrix alone: elements of a batch stand side by side.
    columns = matrix.movedim(-2, 0)
    product = sparse @ columns.flatten(1)
    return product.unflatten(1, columns.shape[1:]).movedim(0, -2)


def sparse_congruence(sparse: Tensor, matrix: Tensor) -> Tensor:
    """Computes ``S M S'`` of a sparse ``k x n`` and a symmetric ``... x n x n``."""
    return product_of_sparse(sparse, product_of_sparse(sparse, matrix).mT)


def triangular_congruence(matrix: Tensor, root: Tensor) -> Tensor:
    """Computes ``L' M L`` of a symmetric ``M``, in the lower triangle of the result.

    Above the diagonal the entries of ``M`` are left: read no more than the triangle, as
    Cholesky's algorithm does. LAPACK's `sygst` takes ``n^3`` operations, two products
    take four times as many.

    Args:
        matrix: ``k x k``, in double precision.
        root: Lower triangular, ``k x k``.
    """
    # To LAPACK rows are columns: the root is the upper triangular one.
    product, _ = dsygst(matrix.numpy().T, root.numpy().T, itype=2, lower=0)
    return torch.from_numpy(product.T)


def psd_root(matrix: Tensor) -> Tensor:
    r"""Computes a square root :math:`S` with :math:`S S^T = M`, to rounding.

    The Cholesky factor where it exists. Where it does not, because ``M`` is singular
    (duplicate points, comparisons that see only differences), the eigenvectors scaled
    by the roots of the eigenvalues. Eigenvalues below zero are rounding errors of a
    semi-definite matrix, of size :math:`\epsilon \|M\|`, and count as zero: nothing is
    added to the diagonal, and ``S S'`` is as close to ``M`` as a Cholesky factor is.

    Not for autograd: eigenvectors of repeated eigenvalues have no derivative.

    Args:
        matrix: ``batch_shape x k x k``, symmetric positive semi-definite.

    Returns:
        ``batch_shape x k x k``.

    Raises:
        PrecisionError: Entries are not finite, or too large for eigenvalues.
    """
    cholesky, info = torch.linalg.cholesky_ex(matrix)
    if not bool(info.any()):
        return cholesky
    try:
        eigenvalues, eigenvectors = torch.linalg.eigh(matrix)
    except LinAlgError as error:
        raise PrecisionError(
            f"A matrix of shape {tuple(matrix.shape)} has no eigenvalues that can be "
            f"computed ({error}); its entries reach {float(matrix.abs().amax()):.3g}. "
            "Are the hyper-parameters finite, and of the size of the data?"
        ) from error
    return eigenvectors * eigenvalues.clamp_min(0.0).sqrt().unsqueeze(-2)


_ROUNDING_FACTOR = 4.0


def semidefinite_cholesky(matrix: Tensor) -> Tensor:
    """Computes a lower triangular ``L`` with ``L L' = M``, both ``... x k x k``.

    Its diagonal is nonnegative. It is the Cholesky factor where every pivot (the
    variance left in a point given those before it) exceeds ``4 k eps M_jj``. Elsewhere
    elimination would multiply rounding errors, and the rows of a root of ``M`` with
    pivoting are orthogonalised in order instead; a point whose pivot does not exceed
    the threshold adds no column. Nothing is added to the diagonal, equal points
    have equal rows to rounding, and what is left out of a standardised sample has a
    deviation of at most ``sqrt(4 k eps)``. The derivative is that of the Cholesky
    factor with the pivots left out held at 0.
    """
    factor: Tensor = _SemidefiniteCholesky.apply(matrix)
    return factor


class _SemidefiniteCholesky(Function):
    """Cholesky factor of semi-definite matrices, with its gradient."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor) -> Tensor:
        """Factors each matrix by Cholesky's algorithm, singular ones by Gram-Schmidt.

        A matrix is singular without a factor, or where a squared diagonal entry of the
        factor, a pivot, is at most ``4 k eps`` of the matrix's. It is scaled to a
        diagonal of ones first, so that the threshold is relative to each point.
        """
        factor, info = torch.linalg.cholesky_ex(matrix)
        diagonal = matrix.diagonal(dim1=-2, dim2=-1)
        rounding = _ROUNDING_FACTOR * matrix.shape[-1] * torch.finfo(matrix.dtype).eps
        pivots = factor.diagonal(dim1=-2, dim2=-1).square()
        # A failed elimination may leave NaN, which exceeds nothing: no pivot either.
        regular = (info == 0) & (pivots > rounding * diagonal).all(-1)
        if not bool(regular.all()):
            scale = diagonal[~regular].clamp(min=0.0).sqrt()
            safe = torch.where(scale > 0, scale, 1.0)
            correlation = matrix[~regular] / (safe.unsqueeze(-1) * safe.unsqueeze(-2))
            root = _ordered_root(correlation, rounding)
            factor[~regular] = scale.unsqueeze(-1) * root
        ctx.save_for_backward(factor)
        return factor

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        """Computes the gradient with the pivots left out held at 0."""
        # With S = L^-T Phi(L' G) L^-1, Phi the lower triangle with half its diagonal,
        # the gradient is (S + S') / 2 (Murray 2016, "Differentiation of the Cholesky
        # decomposition", eq. 10). A unit pivot stands in for one that was left out.
        (factor,) = ctx.saved_tensors
        absent = factor.diagonal(dim1=-2, dim2=-1) == 0
        present = torch.where(absent.unsqueeze(-2), 0.0, gradient)
        regular = factor + torch.diag_embed(absent.to(factor.dtype))
        inner = (regular.mT @ present).tril()
        inner = inner - 0.5 * torch.diag_embed(inner.diagonal(dim1=-2, dim2=-1))
        half_solved = torch.linalg.solve_triangular(regular.mT, inner, upper=True)
        full = torch.linalg.solve_triangular(
            regular, half_solved, upper=False, left=False
        )
        return 0.5 * (full + full.mT)


_BLOCK = 32
"""Rows that are orthogonalised to earlier directions together, in one product."""


def _ordered_root(correlation: Tensor, threshold: float) -> Tensor:
    """Computes lower triangular roots of correlations, ``... x k x k``, of any rank.

    Their diagonal is one, or zero for a variable without variance. Gram-Schmidt goes
    through the rows of another root in order and orthogonalises each twice. A remainder
    whose square is within the threshold gives no direction: the column of its row stays
    zero.
    """
    rows = pivoted_root(correlation)
    # The first rows, as many as `places`, are the directions so far: far fewer than
    # points where these crowd.
    directions = rows.new_zeros(*rows.shape[:-2], rows.shape[-2], rows.shape[-1])
    places: list[int] = []
    for start in range(0, rows.shape[-2], _BLOCK):
        earlier, before = directions[..., : len(places), :], len(places)
        block = rows[..., start : start + _BLOCK, :]
        for _ in range(2):
            block = block - (block @ earlier.mT) @ earlier
        for j, row in enumerate(block.unbind(-2), start):
            new = directions[..., before : len(places), :]
            remainder = row.unsqueeze(-1)
            for _ in range(2):
                remainder = remainder - new.mT @ (new @ remainder)
            square = remainder.square().sum((-2, -1))
            if bool((square > threshold).any()):
                # An element of the batch that lacks this direction gets zeros.
                length = torch.where(square > threshold, square.sqrt(), torch.inf)
                unit = (remainder / length[..., None, None]).squeeze(-1)
                directions[..., len(places), :] = unit
                places.append(j)
    root = torch.zeros_like(correlation)
    root[..., places] = rows @ directions[..., : len(places), :].mT
    # Rounding alone is above the diagonal.
    return root.tril()


def pivoted_root(matrix: Tensor) -> Tensor:
    """Computes a root of covariances by Cholesky's algorithm with pivoting.

    It is ``... x k x r`` for the largest rank ``r``, with zeros behind smaller ones:
    where points crowd, far fewer columns than eigenvectors. What it leaves of a
    variance is at most ``k eps / 2`` of the largest one, LAPACK's tolerance.

    Raises:
        PrecisionError: Entries are not finite.
    """
    if not bool(matrix.isfinite().all()):
        raise PrecisionError(
            "A covariance holds entries that are not finite. Are the hyper-parameters "
            "finite, and of the size of the data?"
        )
    k = matrix.shape[-1]
    matrices = matrix.detach().cpu().reshape(-1, k, k).numpy()
    (pstrf,) = get_lapack_funcs(("pstrf",), (matrices,))
    roots, largest = np.zeros_like(matrices), 0
    for root, values in zip(roots, matrices, strict=True):
        factor, pivots, rank, _ = pstrf(values, lower=1)
        root[pivots - 1, :rank] = np.tril(factor)[:, :rank]
        largest = max(largest, rank)
    shape = *matrix.shape[:-1], largest
    return torch.from_numpy(roots[..., :largest]).to(matrix).reshape(shape)


class SemidefiniteLinearOperator(DenseLinearOperator):
    """A dense covariance whose root needs no jitter where it is singular.

    GPyTorch's own adds to the diagonal, with a warning, wherever Cholesky's algorithm
    fails, as at two equal points. This root gives equal points equal samples.
    """

    def root_decomposition(self, method: str | None = None) -> RootLinearOperator:
        """Returns the lower triangular root, zero in columns of dependent points."""
        return RootLinearOperator(semidefinite_cholesky(self.tensor))
