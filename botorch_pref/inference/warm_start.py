"""Where the rows of earlier answers are among those of all."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from botorch_pref.linalg.sparse_design import SparseDesign


def row_sources(
    before: SparseDesign, further: SparseDesign, after: SparseDesign
) -> Tensor:
    """Where each row comes from when further answers, about further points, join.

    Rows about the first ``before.num_points`` points only are earlier ones, in their
    order, wherever more answers of the same kind, or wider sets, put them; all others
    are further ones.

    Args:
        before: Rows of the earlier answers, ``m`` of them.
        further: Rows of the further answers about their own points, ``m'`` of them.
        after: Rows of all answers about all points, ``m''`` of them.

    Returns:
        ``batch_shape x m''`` long, places among the rows of ``before`` followed by
        those of ``further``; ``m + m'`` for rows that are padding.
    """
    earlier = (after.indices < before.num_points).all(-1) & _is_row(after)
    later = (after.indices >= before.num_points).all(-1) & _is_row(after)
    from_before = _place_of_each(earlier, _is_row(before))
    from_further = _place_of_each(later, _is_row(further)) + before.num_rows
    sources = torch.where(earlier, from_before, from_further)
    nowhere = before.num_rows + further.num_rows
    return torch.where(earlier | later, sources, nowhere)


def carry_rows(sources: Tensor, before: Tensor, further: Tensor) -> Tensor:
    """Values of earlier and of further rows as values of all.

    Args:
        sources: Of :func:`row_sources`, ``batch_shape x m''``.
        before: ``... x batch_shape x m``.
        further: ``... x batch_shape x m'``.

    Returns:
        ``... x batch_shape x m''``, zero for rows that are padding.
    """
    batch = torch.broadcast_shapes(
        before.shape[:-1], further.shape[:-1], sources.shape[:-1]
    )
    both = [values.expand(*batch, values.shape[-1]) for values in (before, further)]
    values = pad(torch.cat(both, dim=-1), (0, 1))
    return values.gather(-1, sources.expand(*batch, sources.shape[-1]))


def _is_row(rows: SparseDesign) -> Tensor:
    """Whether a row is one, rather than padding, ``batch_shape x m``."""
    return (rows.coefficients != 0).any(-1)


def _place_of_each(where: Tensor, there: Tensor) -> Tensor:
    """For the i-th True of ``where``, the place of the i-th True of ``there``."""
    places = (~there).long().argsort(dim=-1, stable=True)
    batch = torch.broadcast_shapes(where.shape[:-1], there.shape[:-1])
    rank = (where.cumsum(-1) - 1).clamp(0, places.shape[-1] - 1)
    places = places.expand(*batch, places.shape[-1])
    return places.gather(-1, rank.expand(*batch, rank.shape[-1]))
