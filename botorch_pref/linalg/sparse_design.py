"""The sparse linear map from utilities to rows, and the noise that rows share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from botorch_pref.linalg.covariance import join_rows, joint_shape


def take_rows(values: Tensor, indices: Tensor) -> Tensor:
    """Takes rows of ``batch_shape x n x k`` values at indices, ``m`` or ``batch x m``.

    Batches broadcast; the result is ``... x m x k``.
    """
    if indices.dim() == 1:
        return values.index_select(-2, indices)
    batch = joint_shape(values.shape[:-2], indices.shape[:-1])
    index = indices.unsqueeze(-1).expand(*batch, -1, values.shape[-1])
    return values.expand(*batch, *values.shape[-2:]).gather(-2, index)


@dataclass(frozen=True)
class SparseDesign:
    """Rows of :math:`A` in :math:`z = A f(X)`, each with at most ``w`` non-zeros.

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
        """Takes the rows at some places, ``batch_shape x m'`` long."""
        index, coefficients = (
            take_rows(part, places) for part in (self.indices, self.coefficients)
        )
        return SparseDesign(index, coefficients, self.num_points)

    def reindex(self, inverse: Tensor, num_points: int) -> SparseDesign:
        """Returns the same rows over other points, such as the distinct ones alone.

        ``inverse``, ``batch_shape x n`` long, has the place of each present point among
        the ``num_points`` new ones.
        """
        if inverse.dim() == 1:
            return SparseDesign(inverse[self.indices], self.coefficients, num_points)
        batch = joint_shape(inverse.shape[:-1], self.indices.shape[:-2])
        flat = self.indices.flatten(-2).expand(*batch, -1)
        index = inverse.expand(*batch, -1).gather(-1, flat)
        index = index.unflatten(-1, self.indices.shape[-2:])
        return SparseDesign(index, self.coefficients.expand(index.shape), num_points)

    def with_columns(self, values: Tensor) -> SparseDesign:
        """Appends ``p`` columns to the rows, with ``batch_shape x m x p`` entries.

        They stand for variables behind the ``n`` points, such as weights of covariates.
        Each row gets as many terms more as there are non-zeros in the row of ``values``
        that has the most.
        """
        n, p = self.num_points, values.shape[-1]
        columns = torch.arange(n, n + p, device=self.indices.device)
        is_seen = values != 0
        width = int(is_seen.sum(-1).max()) if is_seen.any() else 0
        if width < p:
            # Few of many columns, such as those of raters, concern a row.
            order = is_seen.sort(dim=-1, descending=True, stable=True).indices
            columns = n + order[..., :width]
            values = values.gather(-1, order[..., :width])
        coefficients = join_rows([self.coefficients, values])
        index = self.indices.expand(*coefficients.shape[:-1], -1)
        return SparseDesign(join_rows([index, columns]), coefficients, n + p)

    def dense(self) -> Tensor:
        """Makes the dense matrix ``A``, ``batch_shape x m x n``."""
        like = self.coefficients
        return self.apply_matrix(
            torch.eye(self.num_points, dtype=like.dtype, device=like.device)
        )

    def apply(self, values: Tensor) -> Tensor:
        """Multiplies ``A values`` for ``batch_shape x n``."""
        batch = self.indices.shape[:-2]
        index = self.indices.flatten(-2)
        if not batch:
            point_values = values.index_select(-1, index)
        else:
            batch = joint_shape(values.shape[:-1], batch)
            index = index.expand(*batch, -1)
            point_values = values.expand(*batch, -1).gather(-1, index)
        point_values = point_values.unflatten(-1, self.indices.shape[-2:])
        return (point_values * self.coefficients).sum(-1)

    def apply_matrix(self, values: Tensor) -> Tensor:
        """Multiplies ``A values`` for ``batch_shape x n x k``."""
        (index, coefficient), *more_terms = self._terms
        # In place, so that the products of all terms are never in memory together.
        out = coefficient.unsqueeze(-1) * take_rows(values, index)
        for index, coefficient in more_terms:
            out.addcmul_(coefficient.unsqueeze(-1), take_rows(values, index))
        return out

    def row_squares(self, values: Tensor) -> Tensor:
        """Squares and sums the rows of ``A values``, for ``batch_shape x n x k``.

        These are variances of rows, ``batch_shape x m``, if the values are a root of
        the covariance of points.
        """
        # A product of many rows would be made in memory that is slow to get.
        at_once = max(1, _AT_ONCE // values.shape[-1])
        if self.num_rows <= at_once:
            return self.apply_matrix(values).square().sum(-1)
        every = torch.arange(self.num_rows, device=values.device)
        parts = (self.take(rows).apply_matrix(values) for rows in every.split(at_once))
        # One product at a time is in memory.
        return torch.cat([part.square().sum(-1) for part in parts], dim=-1)

    def adjoint(self, values: Tensor) -> Tensor:
        """Multiplies ``A' values`` for ``batch_shape x m``."""
        return self.adjoint_matrix(values.unsqueeze(-1)).squeeze(-1)

    def adjoint_matrix(self, values: Tensor) -> Tensor:
        """Multiplies ``A' values`` for ``batch_shape x m x k``."""
        batch = joint_shape(values.shape[:-2], self.indices.shape[:-2])
        out = values.new_zeros(*batch, self.num_points, values.shape[-1])
        index, width = self.indices, self.indices.shape[-1]
        if index.dim() == 2 and width * values.numel() <= _AT_ONCE:
            # Of few values one call takes less time than one for each term.
            spread = self.coefficients.unsqueeze(-1) * values.unsqueeze(-2)
            spread = spread.flatten(-3, -2).expand(*batch, -1, -1)
            return out.index_add_(-2, index.flatten(), spread)
        for index, coefficient in self._terms:
            term = (coefficient.unsqueeze(-1) * values).expand(*batch, -1, -1)
            if index.dim() == 1:
                out.index_add_(-2, index, term)
            else:
                out.scatter_add_(-2, index.unsqueeze(-1).expand(term.shape), term)
        return out

    def congruence(self, matrix: Tensor) -> Tensor:
        """Computes ``A M A'``, the covariance of rows if ``M`` is that of points."""
        # Rows are gathered and scattered three times faster when they are contiguous.
        return self.apply_matrix(self.apply_matrix(matrix).mT.contiguous())

    def congruence_diagonal(self, matrix: Tensor) -> Tensor:
        """Computes the diagonal of ``A M A'`` alone, ``batch_shape x m``.

        These are the variances of rows if ``M``, ``batch_shape x n x n``, is the
        covariance of points.
        """
        n, c = self.num_points, self.coefficients
        places = self.indices.unsqueeze(-1) * n + self.indices.unsqueeze(-2)
        entries = take_places(matrix.flatten(-2), places.flatten(-3))
        entries = entries.unflatten(-1, places.shape[-3:])
        return (entries * c.unsqueeze(-1) * c.unsqueeze(-2)).sum((-2, -1))

    def adjoint_congruence(self, matrix: Tensor) -> Tensor:
        """Computes ``A' M A`` of a symmetric ``M``, ``batch_shape x m x m``."""
        return self.adjoint_matrix(self.adjoint_matrix(matrix).mT.contiguous())

    def gram(self, precisions: Tensor) -> Tensor:
        """Computes ``A' diag(t) A`` for ``batch_shape x m`` without a dense ``A``.

        It is ``batch_shape x n x n``: the precision that rows of precisions ``t`` give
        to the points.
        """
        n = self.num_points
        batch = joint_shape(precisions.shape[:-1], self.indices.shape[:-2])
        places = self.indices.unsqueeze(-1) * n + self.indices.unsqueeze(-2)
        c = self.coefficients
        values = precisions[..., None, None] * c.unsqueeze(-1) * c.unsqueeze(-2)
        values = values.expand(*batch, *values.shape[-3:]).flatten(-3)
        places = places.expand(*batch, *places.shape[-3:]).flatten(-3)
        sums = values.new_zeros(*batch, n * n).scatter_add(-1, places, values)
        return sums.unflatten(-1, (n, n))


def stack_rows(blocks: Sequence[SparseDesign]) -> SparseDesign:
    """Stacks blocks of rows about the same points, padded to the widest.

    There is at least one of ``blocks``, whose batches broadcast.
    """
    if len(blocks) == 1:
        return blocks[0]
    width = max(block.indices.shape[-1] for block in blocks)
    indices, coefficients = [], []
    for block in blocks:
        missing = width - block.indices.shape[-1]
        last = block.indices[..., -1:].expand(*block.indices.shape[:-1], missing)
        indices.append(torch.cat([block.indices, last], dim=-1))
        coefficients.append(pad(block.coefficients, (0, missing)))
    index, coefficient = (join_rows(p, along=-2) for p in (indices, coefficients))
    return SparseDesign(index, coefficient, blocks[0].num_points)


def pair_rows(pairs: Tensor, num_points: int, like: Tensor) -> SparseDesign:
    """Makes rows :math:`f_a - f_b` of ``pairs``, ``batch_shape x m x 2`` long.

    ``num_points`` is n; coefficients have the dtype and device of ``like``.
    """
    signs = torch.tensor([1.0, -1.0], dtype=like.dtype, device=like.device)
    return SparseDesign(pairs, signs.expand(*pairs.shape), num_points)


def point_rows(indices: Tensor, num_points: int, like: Tensor) -> SparseDesign:
    """Makes rows of single utilities :math:`f_i` of ``indices``, ``batch_shape x m``.

    ``num_points`` is n; coefficients have the dtype and device of ``like``.
    """
    index = indices.unsqueeze(-1)
    return SparseDesign(index, like.new_ones(index.shape), num_points)


_FEW_COLUMNS = 8
_AT_ONCE = 2**18


@dataclass(frozen=True, eq=False)
class RowGroups:
    """The ``m`` groups of ``M`` rows that are equal up to their sign.

    ``first``, ``batch_shape x m``, is the first row of each group, and ``present``
    False where an element of the batch has no such group; ``group`` and ``sign``,
    ``batch_shape x M``, are those of each row, -1 for minus the first.
    """

    first: Tensor
    group: Tensor
    sign: Tensor
    present: Tensor

    @property
    def num_groups(self) -> int:
        """The number ``m`` of groups."""
        return self.first.shape[-1]

    def total(self, values: Tensor) -> Tensor:
        """Sums values of rows over groups, ``batch_shape x M`` to ``batch_shape x m``.

        Signs do not count: multiply values that turn with their row, as slopes do, by
        ``sign`` first.
        """
        batch = joint_shape(values.shape[:-1], self.group.shape[:-1])
        out = values.new_zeros(*batch, self.num_groups)
        values = values.expand(*batch, -1)
        return out.scatter_add(-1, self.group.expand_as(values), values)

    def spread(self, values: Tensor) -> Tensor:
        """Spreads values of groups to rows, ``batch_shape x m`` to ``... x M``."""
        return self.sign * take_places(values, self.group)

    def in_line(self, batch: torch.Size) -> RowGroups:
        """Returns the groups of all elements of a batch in one line, without a batch.

        Rows and groups of an element follow those of the element before, and are
        numbered on. So integrals of all elements are computed at once.
        """
        first, present = (t.expand(*batch, -1) for t in (self.first, self.present))
        group, sign = (t.expand(*batch, -1) for t in (self.group, self.sign))
        element = torch.arange(batch.numel(), device=first.device).view(*batch, 1)
        first = first + element * group.shape[-1]
        group = group + element * first.shape[-1]
        return RowGroups(*(t.flatten() for t in (first, group, sign, present)))

    def merged(self, rows: SparseDesign) -> SparseDesign:
        """Takes one row of each group, with zeros for a group that is not present."""
        first_rows = rows.take(self.first)
        present = self.present.unsqueeze(-1)
        return replace(first_rows, coefficients=first_rows.coefficients * present)


def take_places(values: Tensor, places: Tensor) -> Tensor:
    """Takes entries of the last dimension at ``batch_shape x k`` places."""
    if places.dim() == 1:
        return values.index_select(-1, places)
    batch = joint_shape(values.shape[:-1], places.shape[:-1])
    return values.expand(*batch, -1).gather(-1, places.expand(*batch, -1))


def distinct_rows(table: Tensor) -> tuple[Tensor, Tensor]:
    """Finds where distinct rows of ``M x k`` first occur, and which each row is.

    The first tensor has the places of first occurrences in ascending order, which
    models rely on; the second, ``M`` long, says which of these each row equals. Numbers
    are compared without any tolerance.
    """
    if table.shape[-1] <= _FEW_COLUMNS:
        # Thirty times faster than torch's comparison of whole rows.
        group = torch.zeros_like(table[:, 0], dtype=torch.long)
        for column in table.unbind(-1):
            values, value_index = torch.unique(column, return_inverse=True)
            if len(values) > 1:
                # Different for rows that differ in a column so far, and less than M^2.
                key = group * len(values) + value_index
                group = torch.unique(key, return_inverse=True)[1]
    else:
        group = torch.unique(table, dim=0, return_inverse=True)[1]
    places = torch.arange(len(table), device=table.device)
    first = places.new_full((int(group.max()) + 1,), len(table))
    first, order = first.scatter_reduce(0, group, places, "amin").sort()
    rank = torch.empty_like(order).scatter(0, order, places[: len(order)])
    return first, rank[group]


def row_groups(
    rows: SparseDesign, label: Tensor | None = None, per_element: bool = True
) -> RowGroups | None:
    """Groups the rows that are equal up to their sign; None where no two are.

    Such rows see the same sum of utilities, so that their answers can be one factor.
    Rows of different ``label``, ``M`` numbers, stay apart. With ``per_element`` each
    element of a batch is grouped by itself, and may have fewer groups than others; else
    rows are one group if they are equal in all elements, with the same relative signs.
    """
    # A table that equal rows share: points in order, with the padding, n, at the end,
    # and coefficients with the sign that makes the first of them positive.
    is_used = rows.coefficients != 0
    order = torch.where(is_used, rows.indices, rows.num_points)
    index, place = order.sort(dim=-1, stable=True)
    value = rows.coefficients.detach().expand_as(place).gather(-1, place)
    sign = value[..., :1].sign()
    sign = torch.where(sign == 0, 1.0, sign)
    table = torch.cat([index.to(value), sign * value], dim=-1).double()
    num_rows, batch, sign = rows.num_rows, table.shape[:-2], sign.squeeze(-1)
    if label is not None:
        label = label.double().unsqueeze(-1).expand(*batch, -1, 1)
        table = torch.cat([table, label], dim=-1)
    if batch and not per_element:
        # Signs beside those in the first element are to be equal too.
        table = torch.cat(
            [table, (sign * sign.reshape(-1, num_rows)[0]).unsqueeze(-1)], -1
        )
        table = table.movedim(-2, 0).reshape(num_rows, 1, -1).movedim(1, 0)
        batch, sign = torch.Size(), sign.reshape(-1, num_rows)[0]
    flat = table.reshape(-1, table.shape[-1])
    element = torch.arange(batch.numel(), device=flat.device)
    element = element.repeat_interleave(num_rows)
    if batch:
        flat = torch.cat([element.double().unsqueeze(-1), flat], dim=-1)
    first, group = distinct_rows(flat)
    if len(first) == len(flat):
        return None
    group_counts = torch.bincount(element[first], minlength=batch.numel())
    start = group_counts.cumsum(0) - group_counts
    max_groups = int(group_counts.max())
    rank = torch.arange(max_groups, device=flat.device)
    present = rank < group_counts.unsqueeze(-1)
    first_rows = first[(start.unsqueeze(-1) + rank).clamp_max(len(first) - 1)]
    # Counted from the first row of their element.
    first_rows = torch.where(
        present, first_rows - element.unique().unsqueeze(-1) * num_rows, 0
    )
    group = (group - start[element]).reshape(*batch, num_rows)
    first_rows, present = (
        first_rows.reshape(*batch, max_groups),
        present.reshape(*batch, max_groups),
    )
    # Signs are relative to the first row of a group, which has 1.
    lead = take_places(take_places(sign, first_rows), group)
    return RowGroups(first_rows, group, sign * lead, present)


class RowFinder:
    """Finds the groups of rows, once as long as the rows stay the same."""

    def __init__(self) -> None:
        self._memory: list[
            tuple[SparseDesign, Tensor | None, bool, RowGroups | None]
        ] = []

    def __call__(
        self, rows: SparseDesign, label: Tensor | None = None, per_element: bool = True
    ) -> RowGroups | None:
        """Returns the groups of `row_groups`, found anew only for other arguments.

        The last four calls are remembered and compared by their values: a fit makes the
        same rows at every step, and only their noise changes.
        """
        for old_rows, old_label, old_per_element, groups in self._memory:
            fits = (
                rows.num_points == old_rows.num_points
                and per_element == old_per_element
            )
            parts = (
                (rows.indices, old_rows.indices),
                (rows.coefficients, old_rows.coefficients),
            )
            if fits and all(_are_equal(*part) for part in (*parts, (label, old_label))):
                return groups
        groups = row_groups(rows, label, per_element)
        self._memory = [*self._memory[-3:], (rows, label, per_element, groups)]
        return groups


def _are_equal(first: Tensor | None, second: Tensor | None) -> bool:
    if first is None or second is None:
        return first is second
    return torch.equal(first, second)


@dataclass(frozen=True)
class NoiseBlocks:
    """A positive semi-definite covariance ``N`` of m rows, a block for each answer.

    Rows outside of blocks have none. ``rows``, ``num_blocks x k`` long, are those of
    each block; an answer with fewer than ``k`` is padded with ``num_rows``, a row that
    does not exist. ``covariance`` is ``batch_shape x num_blocks x k x k``.
    """

    rows: Tensor
    covariance: Tensor
    num_rows: int

    @property
    def parts(self) -> tuple[NoiseBlocks, ...]:
        """Blocks of one width each, which share no row."""
        return (self,)

    @cached_property
    def inside(self) -> Tensor:
        """Whether each row is in a block, ``m`` booleans, be its noise zero or not."""
        inside = self.rows.new_zeros(self.num_rows + 1, dtype=torch.bool)
        return inside.index_fill(0, self.rows.flatten(), True)[:-1]

    def take(self, values: Tensor) -> Tensor:
        """Takes the rows, ``batch_shape x m x c``, of each block; zero at padding."""
        return pad(values, (0, 0, 0, 1))[..., self.rows, :]

    def put(self, blocks: Tensor, values: Tensor) -> Tensor:
        """Returns a copy of ``values`` in which rows of blocks are those of ``blocks``.

        ``values`` are ``batch_shape x m x c``, ``blocks`` ``batch_shape x num_blocks x
        k x c``; their padding goes to a last row that is dropped.
        """
        batch = joint_shape(blocks.shape[:-3], values.shape[:-2])
        out = pad(values, (0, 0, 0, 1)).expand(*batch, -1, -1).clone()
        flat = blocks.expand(*batch, *blocks.shape[-3:]).flatten(-3, -2)
        return out.index_copy(-2, self.rows.flatten(), flat)[..., :-1, :]

    def take_square(self, matrix: Tensor) -> Tensor:
        """Takes the diagonal blocks of a matrix of rows, zero at padding."""
        padded = pad(matrix, (0, 1, 0, 1))
        return padded[..., self.rows.unsqueeze(-1), self.rows.unsqueeze(-2)]

    def dense(self) -> Tensor:
        """Makes the dense matrix ``N``, ``batch_shape x m x m``."""
        m = self.num_rows
        # Padding goes to one more row and column.
        out = self.covariance.new_zeros(*self.covariance.shape[:-3], m + 1, m + 1)
        out[..., self.rows.unsqueeze(-1), self.rows.unsqueeze(-2)] = self.covariance
        return out[..., :m, :m]

    def diagonal(self) -> Tensor:
        """Returns the diagonal of ``N``, ``batch_shape x m``."""
        variances = self.covariance.diagonal(dim1=-2, dim2=-1)
        zeros = variances.new_zeros(*variances.shape[:-2], self.num_rows, 1)
        return self.put(variances.unsqueeze(-1), zeros).squeeze(-1)

    def times(self, values: Tensor) -> Tensor:
        """Multiplies ``N values``, both ``batch_shape x m x c``."""
        product = self.covariance @ self.take(values)
        return self.put(product, torch.zeros_like(values))


class NoiseBuckets(NoiseBlocks):
    """Blocks of different widths, in parts of similar ones.

    A block is padded to the widest of its part. What asks for ``rows`` or
    ``covariance`` gets all blocks, padded to the widest of all.
    """

    def __init__(self, parts: Sequence[NoiseBlocks]) -> None:
        # The base class is frozen.
        vars(self).update(_parts=tuple(parts), num_rows=parts[0].num_rows)

    @property
    def parts(self) -> tuple[NoiseBlocks, ...]:
        """See base class."""
        parts: tuple[NoiseBlocks, ...] = vars(self)["_parts"]
        return parts

    @property
    def _width(self) -> int:
        return max(part.rows.shape[-1] for part in self.parts)

    @cached_property
    def rows(self) -> Tensor:
        """The rows of all blocks, ``num_blocks x k``, padded to the widest one."""
        width = self._width
        return torch.cat(
            [
                pad(part.rows, (0, width - part.rows.shape[-1]), value=self.num_rows)
                for part in self.parts
            ]
        )

    @cached_property
    def covariance(self) -> Tensor:
        """The covariances of blocks, ``... x num_blocks x k x k``, 0 at padding."""
        padded = []
        for part in self.parts:
            missing = self._width - part.rows.shape[-1]
            padded.append(pad(part.covariance, (0, missing, 0, missing)))
        return torch.cat(padded, dim=-3)

    def dense(self) -> Tensor:
        """See base class."""
        return torch.stack([part.dense() for part in self.parts]).sum(0)

    def diagonal(self) -> Tensor:
        """See base class."""
        return torch.stack([part.diagonal() for part in self.parts]).sum(0)

    def times(self, values: Tensor) -> Tensor:
        """See base class."""
        return torch.stack([part.times(values) for part in self.parts]).sum(0)


class _BlockColumns(NamedTuple):
    """Non-zeros of rows by blocks: one of each row, or some at points that all share.

    ``points`` are ``... x b x k`` with coefficients alike, or ``... x b x q`` with
    coefficients ``... x b x k x q``.
    """

    points: Tensor
    coefficients: Tensor
    is_shared: bool

    def to_rows(self, values: Tensor) -> Tensor:
        """Makes rows of values at points, both ``batch_shape x b x ... x l``."""
        if self.is_shared:
            return self.coefficients @ values
        return self.coefficients.unsqueeze(-1) * values

    def to_points(self, values: Tensor) -> Tensor:
        """Makes values at points of values of rows, by the transpose."""
        if self.is_shared:
            return self.coefficients.mT @ values
        return self.coefficients.unsqueeze(-1) * values


@dataclass(frozen=True)
class BlockRows:
    """Rows of a design by blocks, ``... x num_blocks x k x w``, padded with zeros."""

    indices: Tensor
    coefficients: Tensor
    num_points: int

    @classmethod
    def from_design(cls, rows: SparseDesign, blocks: Tensor) -> BlockRows:
        """Takes the rows of blocks from a design, at ``num_blocks x k`` places.

        A place that is the number of rows is padding, and has coefficients of zero.
        """
        is_row = blocks < rows.num_rows
        # Padding repeats a row of the block, so that what all rows share stays shared.
        place = torch.where(is_row, blocks, blocks.amin(-1, keepdim=True))
        # Of a block of padding alone any row will do.
        place = place.clamp_max(rows.num_rows - 1)
        coefficients = rows.coefficients[..., place, :] * is_row.unsqueeze(-1)
        return cls(rows.indices[..., place, :], coefficients, rows.num_points)

    @cached_property
    def _columns(self) -> list[_BlockColumns]:
        """The non-zeros in groups: those at points that rows of a block share are one.

        Products take one column for such points, as a rater's bias. Non-zeros at other
        points are a group for each of the ``w`` places.
        """
        is_constant = (self.indices == self.indices[..., :1, :]).flatten(0, -2).all(0)
        columns = [
            _BlockColumns(
                self.indices[..., i], self.coefficients[..., i], is_shared=False
            )
            for i in (~is_constant).nonzero().flatten().tolist()
        ]
        if bool(is_constant.any()):
            points = self.indices[..., 0, is_constant]
            coefficients = self.coefficients[..., is_constant]
            columns.append(_BlockColumns(points, coefficients, is_shared=True))
        return columns

    def _places(self, rows: _BlockColumns, columns: _BlockColumns) -> Tensor:
        """Finds entries in a flat matrix of points, ``... x b x p x q``."""
        return rows.points.unsqueeze(-1) * self.num_points + columns.points.unsqueeze(
            -2
        )

    def congruence(self, matrix: Tensor) -> Tensor:
        """Computes ``A K A'``, ``... x num_blocks x k x k``, of ``... x n x n``."""
        flat, total = matrix.flatten(-2), matrix.new_zeros(())
        for first, second in product(self._columns, repeat=2):
            places = self._places(first, second)
            entries = take_places(flat, places.flatten(-3))
            entries = entries.unflatten(-1, places.shape[-3:])
            total = total + first.to_rows(second.to_rows(entries.mT).mT)
        return total

    def add_gram(self, blocks: Tensor, total: Tensor) -> None:
        """Adds ``A' P A`` of ``P``, a ``k x k`` for each block, to a matrix of points.

        ``total``, ``batch_shape x n x n``, is changed in place: it is contiguous, with
        the batches of both.
        """
        flat = total.view(*total.shape[:-2], -1)
        for first, second in product(self._columns, repeat=2):
            values = first.to_points(second.to_points(blocks.mT).mT)
            places = self._places(first, second)
            shape = *flat.shape[:-1], *places.shape[-3:]
            values, places = (
                part.expand(shape).flatten(-3) for part in (values, places)
            )
            flat.scatter_add_(-1, places, values)


def stack_noise_blocks(
    blocks: Sequence[tuple[NoiseBlocks | None, int]],
) -> NoiseBlocks | None:
    """Stacks the noise of designs that are stacked; None where none has any.

    Each of ``blocks`` is the noise of a design, None for none, and its number of rows,
    by which the rows of all later ones move on.
    """
    total = sum(size for _, size in blocks)
    shared = [noise for noise, _ in blocks if noise is not None]
    if not shared:
        return None
    width = max(noise.rows.shape[-1] for noise in shared)
    batch = torch.broadcast_shapes(*(n.covariance.shape[:-3] for n in shared))
    rows, covariances, before = [], [], 0
    for noise, size in blocks:
        if noise is not None:
            missing = width - noise.rows.shape[-1]
            moved = torch.where(noise.rows < size, noise.rows + before, total)
            rows.append(pad(moved, (0, missing), value=total))
            wide = pad(noise.covariance, (0, missing, 0, missing))
            covariances.append(wide.expand(*batch, *wide.shape[-3:]))
        before += size
    return NoiseBlocks(torch.cat(rows), torch.cat(covariances, dim=-3), total)
