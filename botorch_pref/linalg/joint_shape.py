"""The batch shape of tensors that are used together."""

from __future__ import annotations

import torch


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
