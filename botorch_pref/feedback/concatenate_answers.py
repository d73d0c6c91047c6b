"""Concatenation of the answers of two blocks."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

PADDING = -1


def concatenate_answers(first: Tensor, second: Tensor, along: int) -> Tensor:
    """The answers of one tensor and then those of another, with batches broadcast.

    Args:
        first: ``batch_shape x m``, or ``batch_shape x m x k``.
        second: ``batch_shape' x m'``, or ``batch_shape' x m' x k'``.
        along: The dimension of answers: -1, or -2 where rows of k and k' indices are
            padded with -1 to the longer of the two.

    Returns:
        ``batch x (m + m')``, or ``batch x (m + m') x max(k, k')``.
    """
    if along == -2:
        widest = max(first.shape[-1], second.shape[-1])
        first, second = (
            pad(rows, (0, widest - rows.shape[-1]), value=PADDING)
            for rows in (first, second)
        )
    batch = torch.broadcast_shapes(first.shape[:along], second.shape[:along])
    parts = [rows.expand(*batch, *rows.shape[along:]) for rows in (first, second)]
    return torch.cat(parts, dim=along)
