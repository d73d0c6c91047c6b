"""Points that are exactly equal, counted once."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


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
