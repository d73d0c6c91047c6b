"""Rows of a sparse design that are equal up to their sign."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from botorch_pref.linalg.joint_shape import joint_shape
from botorch_pref.linalg.sparse_design import SparseDesign

_FEW_COLUMNS = 8


@dataclass(frozen=True, eq=False)
class RowGroups:
    """The groups of rows that are equal up to their sign.

    Elements of a batch may have different groups, and some fewer than others.

    Attributes:
        first: ``batch_shape x m`` long, the first row of each group.
        group: ``batch_shape x M`` long, the group of each row.
        sign: ``batch_shape x M``, -1 for rows that are minus the first of their group,
            else 1.
        there: ``batch_shape x m`` booleans, False where an element has no such group.
    """

    first: Tensor
    group: Tensor
    sign: Tensor
    there: Tensor

    @property
    def num_groups(self) -> int:
        """The number ``m`` of groups."""
        return self.first.shape[-1]

    def total(self, values: Tensor) -> Tensor:
        """Sums over groups, ``batch_shape x M`` to ``batch_shape x m``."""
        batch = joint_shape(values.shape[:-1], self.group.shape[:-1])
        out = values.new_zeros(*batch, self.num_groups)
        values = values.expand(*batch, -1)
        return out.scatter_add(-1, self.group.expand_as(values), values)

    def spread(self, values: Tensor) -> Tensor:
        """Values of the rows of each group, ``batch_shape x m`` to ``... x M``."""
        return self.sign * take_places(values, self.group)

    def merged(self, rows: SparseDesign) -> SparseDesign:
        """One row of each group; of a group that is not there none.

        Args:
            rows: ``M`` rows.
        """
        if self.first.dim() == 1:
            return rows.take(self.first)
        places = self.first.unsqueeze(-1)
        shape = (*self.first.shape, rows.indices.shape[-1])
        before = (*shape[:-2], *rows.indices.shape[-2:])
        index, coefficients = (
            part.expand(before).gather(-2, places.expand(shape))
            for part in (rows.indices, rows.coefficients)
        )
        coefficients = coefficients * self.there.unsqueeze(-1)
        return SparseDesign(index, coefficients, rows.num_points)


def take_places(values: Tensor, places: Tensor) -> Tensor:
    """Entries of the last dimension.

    Args:
        values: ``batch_shape x m``.
        places: ``batch_shape' x k`` long.

    Returns:
        ``batch x k``.
    """
    if places.dim() == 1:
        return values.index_select(-1, places)
    batch = joint_shape(values.shape[:-1], places.shape[:-1])
    return values.expand(*batch, -1).gather(-1, places.expand(*batch, -1))


def distinct_rows(table: Tensor) -> tuple[Tensor, Tensor]:
    """The distinct rows of a table in the order in which they first occur.

    Args:
        table: ``M x k``.

    Returns:
        ``m`` long, where each first occurs; and ``M`` long, which of them each row is.
    """
    if table.shape[-1] <= _FEW_COLUMNS:
        # Thirty times faster than torch's comparison of whole rows.
        group = torch.zeros_like(table[:, 0], dtype=torch.long)
        for column in table.unbind(-1):
            values, own = torch.unique(column, return_inverse=True)
            if len(values) > 1:
                key = group * len(values) + own
                group = torch.unique(key, return_inverse=True)[1]
    else:
        group = torch.unique(table, dim=0, return_inverse=True)[1]
    places = torch.arange(len(table), device=table.device)
    first = places.new_full((int(group.max()) + 1,), len(table))
    first, order = first.scatter_reduce(0, group, places, "amin").sort()
    rank = torch.empty_like(order).scatter(0, order, places[: len(order)])
    return first, rank[group]


def row_groups(
    rows: SparseDesign, label: Tensor | None = None, each: bool = True
) -> RowGroups | None:
    """Groups the rows that are equal up to their sign.

    Args:
        rows: ``M`` rows.
        label: ``M`` numbers, other ones for rows that are to stay apart.
        each: Whether each element of a batch is grouped by itself; else rows are equal
            that are so in all.

    Returns:
        None where every row is a group of its own.
    """
    there = rows.coefficients != 0
    order = torch.where(there, rows.indices, rows.num_points)
    index, place = order.sort(dim=-1, stable=True)
    value = rows.coefficients.detach().expand_as(place).gather(-1, place)
    sign = value[..., :1].sign()
    sign = torch.where(sign == 0, 1.0, sign)
    table = torch.cat([index.to(value), sign * value], dim=-1).double()
    num_rows, batch, sign = rows.num_rows, table.shape[:-2], sign.squeeze(-1)
    if label is not None:
        label = label.double().unsqueeze(-1).expand(*batch, -1, 1)
        table = torch.cat([table, label], dim=-1)
    if batch and not each:
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
    of_each = torch.bincount(element[first], minlength=batch.numel())
    start = of_each.cumsum(0) - of_each
    most = int(of_each.max())
    rank = torch.arange(most, device=flat.device)
    real = rank < of_each.unsqueeze(-1)
    own = first[(start.unsqueeze(-1) + rank).clamp_max(len(first) - 1)]
    own = torch.where(real, own - element.unique().unsqueeze(-1) * num_rows, 0)
    group = (group - start[element]).reshape(*batch, num_rows)
    own, real = own.reshape(*batch, most), real.reshape(*batch, most)
    lead = take_places(take_places(sign, own), group)
    return RowGroups(own, group, sign * lead, real)


class RowFinder:
    """Finds the groups of rows, once as long as the rows stay the same."""

    def __init__(self) -> None:
        self._known: list[
            tuple[SparseDesign, Tensor | None, bool, RowGroups | None]
        ] = []

    def __call__(
        self, rows: SparseDesign, label: Tensor | None = None, each: bool = True
    ) -> RowGroups | None:
        """See :func:`row_groups`."""
        for other, known, per_element, found in self._known:
            same = _same_rows(rows, other) and _same(label, known)
            if same and each == per_element:
                return found
        found = row_groups(rows, label, each)
        self._known = [*self._known[-3:], (rows, label, each, found)]
        return found


def _same(first: Tensor | None, second: Tensor | None) -> bool:
    if first is None or second is None:
        return first is second
    return torch.equal(first, second)


def _same_rows(first: SparseDesign, second: SparseDesign) -> bool:
    return (
        first.num_points == second.num_points
        and torch.equal(first.indices, second.indices)
        and torch.equal(first.coefficients, second.coefficients)
    )
