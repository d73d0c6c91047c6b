"""The batch shape of tensors that are used together."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def joint_shape(*shapes: torch.Size) -> torch.Size:
    """The shapes broadcast; torch's own function takes as long as a product.

    Args:
        shapes: Mostly equal, or empty.

    Raises:
        RuntimeError: They do not broadcast.
    """
    distinct = {shape for shape in shapes if shape}
    if len(distinct) > 1:
        return torch.broadcast_shapes(*distinct)
    return distinct.pop() if distinct else torch.Size()


def join_rows(parts: Sequence[Tensor]) -> Tensor:
    """Blocks of rows, one after the other, with broadcast batches.

    Args:
        parts: ``batch_shape x m`` each, of any ``m``.
    """
    batch = joint_shape(*(part.shape[:-1] for part in parts))
    return torch.cat([p.expand(*batch, p.shape[-1]) for p in parts], dim=-1)
