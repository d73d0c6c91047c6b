"""The sparse linear map from utilities to what each answer sees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from botorch_pref.linalg.joint_shape import joint_shape


def _take_rows(values: Tensor, indices: Tensor) -> Tensor:
    """Rows of a matrix by indices that may carry batch dimensions (``batch x m``)."""
    if indices.dim() == 1:
        return values.index_select(-2, indices)
    batch = joint_shape(values.shape[:-2], indices.shape[:-1])
    index = indices.unsqueeze(-1).expand(*batch, -1, values.shape[-1])
    return values.expand(*batch, *values.shape[-2:]).gather(-2, index)


def _sums_like(values: Tensor, *shape: int) -> Tensor:
    """Zeros to add thousands of values to, one by one, without adding up rounding.

    Sums of thousands in single precision lose four of its seven digits, all in one
    direction where the values are equal.
    """
    return values.new_zeros(*shape, dtype=torch.float64)


@dataclass(frozen=True)
class SparseDesign:
    r"""Rows of :math:`A` in :math:`z = A f(X)`, each with at most ``w`` non-zeros.

    Attributes:
        indices: ``batch_shape x m x w`` long, columns of the non-zeros (points).
        coefficients: ``batch_shape x m x w``, their values. A row with fewer than ``w``
            non-zeros repeats an index with coefficient 0.
        num_points: ``n``, the number of columns.
    """

    indices: Tensor
    coefficients: Tensor
    num_points: int

    @property
    def num_rows(self) -> int:
        """The number ``m`` of rows."""
        return self.indices.shape[-2]

    @property
    def _terms(self) -> list[tuple[Tensor, Tensor]]:
        return list(
            zip(self.indices.unbind(-1), self.coefficients.unbind(-1), strict=True)
        )

    def take(self, places: Tensor) -> SparseDesign:
        """Some of the rows.

        Args:
            places: ``m'`` long, which.
        """
        return SparseDesign(
            self.indices[..., places, :],
            self.coefficients[..., places, :],
            self.num_points,
        )

    def reindex(self, inverse: Tensor, num_points: int) -> SparseDesign:
        """The same rows over points that are counted once.

        Args:
            inverse: ``batch_shape x n`` long, for each point its place among the
                distinct points.
            num_points: The number of distinct points.
        """
        if inverse.dim() == 1:
            return SparseDesign(inverse[self.indices], self.coefficients, num_points)
        batch = joint_shape(inverse.shape[:-1], self.indices.shape[:-2])
        flat = self.indices.flatten(-2).expand(*batch, -1)
        index = inverse.expand(*batch, -1).gather(-1, flat)
        index = index.unflatten(-1, self.indices.shape[-2:])
        return SparseDesign(index, self.coefficients.expand(index.shape), num_points)

    def apply(self, values: Tensor) -> Tensor:
        """Product ``A values`` of the map and values.

        Args:
            values: ``batch_shape x n``.

        Returns:
            ``batch_shape x m``.
        """
        batch = self.indices.shape[:-2]
        index = self.indices.flatten(-2)
        if not batch:
            taken = values.index_select(-1, index)
        else:
            batch = joint_shape(values.shape[:-1], batch)
            index = index.expand(*batch, -1)
            taken = values.expand(*batch, -1).gather(-1, index)
        taken = taken.unflatten(-1, self.indices.shape[-2:])
        return (taken * self.coefficients).sum(-1)

    def apply_matrix(self, values: Tensor) -> Tensor:
        """``A values`` for a matrix.

        Args:
            values: ``batch_shape x n x k``.

        Returns:
            ``batch_shape x m x k``.
        """
        (index, coefficient), *others = self._terms
        out = coefficient.unsqueeze(-1) * _take_rows(values, index)
        for index, coefficient in others:
            out = out.addcmul(coefficient.unsqueeze(-1), _take_rows(values, index))
        return out

    def adjoint(self, values: Tensor) -> Tensor:
        """Product ``A' values`` of the transposed map and values.

        Args:
            values: ``batch_shape x m``.

        Returns:
            ``batch_shape x n``.
        """
        terms = (self.coefficients * values.unsqueeze(-1)).flatten(-2)
        batch = joint_shape(terms.shape[:-1], self.indices.shape[:-2])
        out = _sums_like(values, *batch, self.num_points)
        index, terms = self.indices.flatten(-2), terms.double()
        if index.dim() == 1:
            return out.index_add_(-1, index, terms).to(values.dtype)
        index, terms = index.expand(*batch, -1), terms.expand(*batch, -1)
        return out.scatter_add_(-1, index, terms).to(values.dtype)

    def adjoint_matrix(self, values: Tensor) -> Tensor:
        """``A' values`` for a matrix.

        Args:
            values: ``batch_shape x m x k``.

        Returns:
            ``batch_shape x n x k``.
        """
        batch = joint_shape(values.shape[:-2], self.indices.shape[:-2])
        out = _sums_like(values, *batch, self.num_points, values.shape[-1])
        for index, coefficient in self._terms:
            term = (coefficient.unsqueeze(-1) * values).double().expand(*batch, -1, -1)
            if index.dim() == 1:
                out.index_add_(-2, index, term)
            else:
                out.scatter_add_(-2, index.unsqueeze(-1).expand(term.shape), term)
        return out.to(values.dtype)

    def congruence(self, matrix: Tensor) -> Tensor:
        """``A M A'``, the covariance of the rows when ``M`` is that of the points.

        Args:
            matrix: ``batch_shape x n x n``, symmetric.

        Returns:
            ``batch_shape x m x m``.
        """
        # Rows are gathered and scattered three times faster when they are contiguous.
        return self.apply_matrix(self.apply_matrix(matrix).mT.contiguous())

    def adjoint_congruence(self, matrix: Tensor) -> Tensor:
        """``A' M A``.

        Args:
            matrix: ``batch_shape x m x m``, symmetric.

        Returns:
            ``batch_shape x n x n``.
        """
        return self.adjoint_matrix(self.adjoint_matrix(matrix).mT.contiguous())

    def gram(self, precisions: Tensor) -> Tensor:
        """``A' diag(t) A`` without forming a dense ``A``.

        Args:
            precisions: ``t``, ``batch_shape x m``.

        Returns:
            ``batch_shape x n x n``.
        """
        n = self.num_points
        batch = joint_shape(precisions.shape[:-1], self.indices.shape[:-2])
        where = self.indices.unsqueeze(-1) * n + self.indices.unsqueeze(-2)
        c = self.coefficients
        values = precisions[..., None, None] * c.unsqueeze(-1) * c.unsqueeze(-2)
        out = _sums_like(values, *batch, n * n)
        values = values.double().expand(*batch, *values.shape[-3:]).flatten(-3)
        where = where.expand(*batch, *where.shape[-3:]).flatten(-3)
        sums = out.scatter_add(-1, where, values).to(precisions.dtype)
        return sums.unflatten(-1, (n, n))


def stack_rows(blocks: Sequence[SparseDesign]) -> SparseDesign:
    """One block of rows under another, padded to the widest.

    Args:
        blocks: At least one; all with the same ``num_points`` and broadcastable batch
            shapes.

    Returns:
        The rows of all blocks, in order.
    """
    if len(blocks) == 1:
        return blocks[0]
    width = max(block.indices.shape[-1] for block in blocks)
    batch = torch.broadcast_shapes(*(block.indices.shape[:-2] for block in blocks))
    indices, coefficients = [], []
    for block in blocks:
        missing = width - block.indices.shape[-1]
        last = block.indices[..., -1:].expand(*block.indices.shape[:-1], missing)
        zeros = block.coefficients.new_zeros(last.shape)
        index = torch.cat([block.indices, last], dim=-1)
        coefficient = torch.cat([block.coefficients, zeros], dim=-1)
        indices.append(index.expand(*batch, *index.shape[-2:]))
        coefficients.append(coefficient.expand(*batch, *coefficient.shape[-2:]))
    return SparseDesign(
        indices=torch.cat(indices, dim=-2),
        coefficients=torch.cat(coefficients, dim=-2),
        num_points=blocks[0].num_points,
    )


def pair_rows(pairs: Tensor, num_points: int, like: Tensor) -> SparseDesign:
    r"""Rows of differences :math:`f_a - f_b`.

    Args:
        pairs: ``batch_shape x m x 2`` long, ``a`` before ``b``.
        num_points: ``n``.
        like: A tensor whose dtype and device the coefficients take.
    """
    signs = torch.tensor([1.0, -1.0], dtype=like.dtype, device=like.device)
    return SparseDesign(pairs, signs.expand(*pairs.shape), num_points)


def point_rows(indices: Tensor, num_points: int, like: Tensor) -> SparseDesign:
    r"""Rows of single utilities :math:`f_i`.

    Args:
        indices: ``batch_shape x m`` long.
        num_points: ``n``.
        like: A tensor whose dtype and device the coefficients take.
    """
    index = indices.unsqueeze(-1)
    return SparseDesign(index, like.new_ones(index.shape), num_points)
