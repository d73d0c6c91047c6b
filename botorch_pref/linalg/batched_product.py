"""A matrix product that copies no matrix of a batch of models."""

from __future__ import annotations

import torch
from torch import Tensor


def batched_product(left: Tensor, right: Tensor) -> Tensor:
    """``left @ right``, without a copy of ``right`` for each t-batch.

    Args:
        left: ``t_batch x batch_shape x q x n``.
        right: ``batch_shape x n x r``.

    Returns:
        ``t_batch x batch_shape x q x r``.
    """
    if right.dim() != 3 or left.dim() < 4:
        return left @ right
    return torch.einsum("...sqn,snr->...sqr", left, right)
