"""Noise that rows of one answer share: a block-diagonal covariance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from botorch_pref.linalg.joint_shape import joint_shape


@dataclass(frozen=True)
class NoiseBlocks:
    r"""A positive semi-definite covariance ``N`` of m rows, a block for each answer.

    Rows outside of blocks have none. An answer with fewer than ``k`` rows is padded
    with rows that do not exist and have no covariance.

    Attributes:
        rows: ``num_blocks x k`` long, the rows of each block, padded with ``num_rows``.
        covariance: ``batch_shape x num_blocks x k x k``.
        num_rows: ``m``.
    """

    rows: Tensor
    covariance: Tensor
    num_rows: int

    def take(self, values: Tensor) -> Tensor:
        """The rows of each block.

        Args:
            values: ``batch_shape x m x c``.

        Returns:
            ``batch_shape x num_blocks x k x c``, zero at padding.
        """
        return pad(values, (0, 0, 0, 1))[..., self.rows, :]

    def put(self, blocks: Tensor, values: Tensor) -> Tensor:
        """``values`` with the rows of all blocks replaced.

        Args:
            blocks: ``batch_shape x num_blocks x k x c``.
            values: ``batch_shape x m x c``.
        """
        batch = joint_shape(blocks.shape[:-3], values.shape[:-2])
        out = pad(values, (0, 0, 0, 1)).expand(*batch, -1, -1).clone()
        flat = blocks.expand(*batch, *blocks.shape[-3:]).flatten(-3, -2)
        return out.index_copy(-2, self.rows.flatten(), flat)[..., :-1, :]

    def take_square(self, matrix: Tensor) -> Tensor:
        """The diagonal blocks of a matrix.

        Args:
            matrix: ``batch_shape x m x m``.

        Returns:
            ``batch_shape x num_blocks x k x k``, zero at padding.
        """
        padded = pad(matrix, (0, 1, 0, 1))
        return padded[..., self.rows.unsqueeze(-1), self.rows.unsqueeze(-2)]

    def dense(self) -> Tensor:
        """``N``, ``batch_shape x m x m``."""
        m = self.num_rows
        out = self.covariance.new_zeros(*self.covariance.shape[:-3], m + 1, m + 1)
        out[..., self.rows.unsqueeze(-1), self.rows.unsqueeze(-2)] = self.covariance
        return out[..., :m, :m]

    def diagonal(self) -> Tensor:
        """The diagonal of ``N``, ``batch_shape x m``."""
        own = self.covariance.diagonal(dim1=-2, dim2=-1)
        zeros = own.new_zeros(*own.shape[:-2], self.num_rows, 1)
        return self.put(own.unsqueeze(-1), zeros).squeeze(-1)

    def times(self, values: Tensor) -> Tensor:
        """``N values``, both ``batch_shape x m x c``."""
        product = self.covariance @ self.take(values)
        return self.put(product, torch.zeros_like(values))


def stack_noise_blocks(
    blocks: Sequence[tuple[NoiseBlocks | None, int]],
) -> NoiseBlocks | None:
    """The noise of blocks of rows that stand one under another.

    Args:
        blocks: For each the noise that its rows share, if any, and how many there are.

    Returns:
        None where no block shares noise.
    """
    total = sum(size for _, size in blocks)
    shared = [noise for noise, _ in blocks if noise is not None]
    if not shared:
        return None
    width = max(noise.rows.shape[-1] for noise in shared)
    batch = torch.broadcast_shapes(*(n.covariance.shape[:-3] for n in shared))
    rows, covariances, before = [], [], 0
    for noise, size in blocks:
        if noise is not None:
            missing = width - noise.rows.shape[-1]
            moved = torch.where(noise.rows < size, noise.rows + before, total)
            rows.append(pad(moved, (0, missing), value=total))
            wide = pad(noise.covariance, (0, missing, 0, missing))
            covariances.append(wide.expand(*batch, *wide.shape[-3:]))
        before += size
    return NoiseBlocks(torch.cat(rows), torch.cat(covariances, dim=-3), total)
