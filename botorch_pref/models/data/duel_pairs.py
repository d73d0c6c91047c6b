"""The pairs of points that duel, in an order that does not depend on who is first."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class DuelPairs(NamedTuple):
    """Pairs of points in the order of their coordinates.

    What is computed of a pair is then the same, to the last digit, whichever of the two
    is asked about.

    Attributes:
        points: ``batch_shape x q x 2 x d``.
        sign: ``batch_shape x q``: 1 where the first point is the first one given, -1
            where it is the second.
    """

    points: Tensor
    sign: Tensor


def duel_pairs(X1: Tensor, X2: Tensor) -> DuelPairs:
    """Pairs of points, the one with the smaller first different coordinate first.

    Args:
        X1: ``batch_shape x q x d``.
        X2: Broadcastable with ``X1``.
    """
    X1, X2 = torch.broadcast_tensors(X1, X2)
    gap = (X1 - X2).detach()
    decides = (gap != 0).to(torch.uint8).argmax(-1, keepdim=True)
    swapped = gap.gather(-1, decides) > 0
    points = torch.stack(
        [torch.where(swapped, X2, X1), torch.where(swapped, X1, X2)], dim=-2
    )
    return DuelPairs(points, 1 - 2 * swapped.squeeze(-1).to(gap))
