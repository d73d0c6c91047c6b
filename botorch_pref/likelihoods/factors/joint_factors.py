"""Several kinds of answers as one block of factors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor

from botorch_pref.likelihoods.factors.box_factors import (
    BoxFactors,
    CorrelatedBoxFactors,
)
from botorch_pref.likelihoods.factors.factors import (
    Factors,
    LogDerivatives,
    LogPartition,
    ScalarFactors,
)
from botorch_pref.linalg.joint_shape import joint_shape
from botorch_pref.linalg.noise_blocks import NoiseBlocks, stack_noise_blocks
from botorch_pref.linalg.sparse_design import stack_rows


def _join(parts: Sequence[Tensor]) -> Tensor:
    """Blocks of rows, one after the other, with broadcast batches."""
    batch = joint_shape(*(part.shape[:-1] for part in parts))
    return torch.cat([p.expand(*batch, p.shape[-1]) for p in parts], dim=-1)


def _noise(blocks: Sequence[Factors]) -> NoiseBlocks | None:
    return stack_noise_blocks([(b.noise, b.rows.num_rows) for b in blocks])


class JointFactors(ScalarFactors):
    """Blocks of factors of different kinds, one under another.

    Args:
        blocks: At least one block.
    """

    def __init__(self, blocks: Sequence[Factors]) -> None:
        self.blocks = tuple(blocks)
        self.rows = stack_rows([block.rows for block in blocks])
        self.noise = _noise(blocks)
        self._sizes = [block.rows.num_rows for block in blocks]

    def log_prob(self, z: Tensor) -> LogDerivatives:
        """See base class."""
        parts = zip(self.blocks, z.split(self._sizes, dim=-1), strict=True)
        results = [block.log_prob(part) for block, part in parts]
        return LogDerivatives(*map(_join, zip(*results, strict=True)))

    def curvature_gradient(self, z: Tensor, weights: Tensor) -> Tensor:
        """See base class."""
        parts = zip(
            self.blocks,
            z.split(self._sizes, dim=-1),
            weights.split(self._sizes, dim=-1),
            strict=True,
        )
        return _join([b.curvature_gradient(part, w) for b, part, w in parts])

    def log_partition(self, mean: Tensor, variance: Tensor) -> LogPartition:
        """See base class; every block must have one."""
        parts = zip(
            self.blocks,
            mean.split(self._sizes, dim=-1),
            variance.split(self._sizes, dim=-1),
            strict=True,
        )
        results = [cast("ScalarFactors", b).log_partition(m, v) for b, m, v in parts]
        return LogPartition(*map(_join, zip(*results, strict=True)))


def _stack_boxes(blocks: Sequence[BoxFactors]) -> BoxFactors:
    rows = stack_rows([block.rows for block in blocks])
    ends = (
        _join([block.variance for block in blocks]),
        _join([block.lower for block in blocks]),
        _join([block.upper for block in blocks]),
    )
    noise, width = _noise(blocks), _join([block.width for block in blocks])
    if noise is None:
        return BoxFactors(rows, *ends, width=width)
    return CorrelatedBoxFactors(rows, *ends, noise, width=width)


def joint_factors(blocks: Sequence[Factors]) -> Factors:
    """One block of factors out of several.

    Args:
        blocks: At least one block.

    Returns:
        A single block as it is; boxes of any feedback type as one
        :class:`BoxFactors`, which the exact engine needs; else a
        :class:`JointFactors`.
    """
    if len(blocks) == 1:
        return blocks[0]
    boxes = [block for block in blocks if isinstance(block, BoxFactors)]
    return _stack_boxes(boxes) if len(boxes) == len(blocks) else JointFactors(blocks)
