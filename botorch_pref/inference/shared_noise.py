"""Noise that rows of one answer share, as unknowns beside the utilities."""

from __future__ import annotations

import torch
from torch import Tensor


def append_shared_noise(
    covar: Tensor, mean: Tensor, shared_noise: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The joint prior of utilities and shared noise variables.

    Args:
        covar: Prior covariance of the utilities, ``batch_shape x n x n``.
        mean: Prior mean, ``batch_shape x n``.
        shared_noise: Variances of independent variables of mean zero,
            ``batch_shape x s``; None for none.

    Returns:
        Covariance and mean of n + s unknowns.
    """
    if shared_noise is None:
        return covar, mean
    n, s = covar.shape[-1], shared_noise.shape[-1]
    batch = torch.broadcast_shapes(covar.shape[:-2], shared_noise.shape[:-1])
    joint = covar.new_zeros(*batch, n + s, n + s)
    joint[..., :n, :n] = covar
    joint[..., n:, n:] = torch.diag_embed(shared_noise)
    batch = torch.broadcast_shapes(batch, mean.shape[:-1])
    zeros = mean.new_zeros(*batch, s)
    return joint, torch.cat([mean.expand(*batch, n), zeros], dim=-1)
