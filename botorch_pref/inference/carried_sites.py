"""Sites of earlier answers as a start with more answers."""

from __future__ import annotations

import torch
from torch import Tensor

from botorch_pref.feedback.sparse_rows import SparseRows


def carried_sites(
    sites: tuple[Tensor, Tensor],
    before: SparseRows,
    after: SparseRows,
    batch_shape: torch.Size,
) -> tuple[Tensor, Tensor]:
    """The sites of the answers that were there, and empty ones of those that are new.

    New answers are about points after the ``before.num_points`` there were; so rows of
    earlier points only are the earlier ones, in their order, wherever more answers of
    the same kind, or wider sets, put them. From here the first sweep of expectation
    propagation sets new sites to those that the earlier posterior suggests (assumed
    density filtering) and leaves the others, and Laplace starts at the earlier mode.

    Args:
        sites: Precisions and shifts, each ``batch_shape' x m``.
        before: The rows that they belong to, ``m`` of them.
        after: The rows of all answers, ``m'`` of them.
        batch_shape: Of the answers that there are now.

    Returns:
        Precisions and shifts, each ``batch x m'``, where ``batch`` is ``batch_shape'``
        broadcast with ``batch_shape``.
    """
    batch = torch.broadcast_shapes(sites[0].shape[:-1], batch_shape)
    there = _is_row(before).expand(*batch, before.num_rows)
    earlier = (after.indices < before.num_points).all(-1) & _is_row(after)
    earlier = earlier.expand(*batch, after.num_rows)
    carried = []
    for values in sites:
        wide = values.new_zeros(*batch, after.num_rows)
        wide[earlier] = values.expand(*batch, before.num_rows)[there]
        carried.append(wide)
    return carried[0], carried[1]


def _is_row(rows: SparseRows) -> Tensor:
    """Whether a row is one, rather than padding, ``batch_shape x m``."""
    return (rows.coefficients != 0).any(-1)
