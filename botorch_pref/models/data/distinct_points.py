"""Points that are exactly equal, counted once."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from botorch_pref.linalg.row_groups import distinct_rows


class DistinctPoints(NamedTuple):
    """Positions of the distinct rows of a matrix of points.

    Attributes:
        first: ``n_distinct`` indices of the first occurrence of each distinct point.
        inverse: ``n`` indices into ``first``.
    """

    first: Tensor
    inverse: Tensor


def distinct_points(datapoints: Tensor) -> DistinctPoints | None:
    """Finds duplicates, so that engines work on distinct points only.

    Duplicates are legal anyway (nothing is inverted); counting them once is a matter of
    cost: 5,000 comparisons of 100 items may come as 10,000 datapoints.

    Args:
        datapoints: ``batch_shape x n x d``.

    Returns:
        The distinct points, or None where there is nothing to gain: all are distinct,
        there are batches (whose counts would differ), or a gradient in each row is
        wanted.
    """
    if datapoints.dim() > 2 or datapoints.requires_grad:
        return None
    _, inverse = torch.unique(datapoints, dim=0, return_inverse=True)
    count = int(inverse.max()) + 1
    n = datapoints.shape[0]
    if count == n:
        return None
    first = torch.full((count,), n, device=inverse.device)
    positions = torch.arange(n, device=inverse.device)
    first = first.scatter_reduce(0, inverse, positions, reduce="amin")
    return DistinctPoints(first=first, inverse=inverse)


def first_copies(datapoints: Tensor) -> Tensor | None:
    """The first point that equals it, for each point of a batch.

    Answers about either are then about one row. All points stay: elements of a batch
    may have different numbers of copies.

    Args:
        datapoints: ``batch_shape x n x d``.

    Returns:
        ``batch_shape x n`` long; None where there are no copies, no batch, or a
        gradient in each row is wanted.
    """
    if datapoints.dim() == 2 or datapoints.requires_grad:
        return None
    n = datapoints.shape[-2]
    flat = datapoints.reshape(-1, datapoints.shape[-1]).double()
    element = torch.arange(len(flat), device=flat.device) // n
    first, group = distinct_rows(torch.cat([element.unsqueeze(-1), flat], dim=-1))
    if len(first) == len(flat):
        return None
    return (first[group] - element * n).reshape(datapoints.shape[:-1])
