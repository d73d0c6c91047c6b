"""Several kinds of answers as one block of factors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor

from botorch_pref.feedback.sparse_rows import SparseRows, stack_rows
from botorch_pref.likelihoods.box_factors import BoxFactors, CorrelatedBoxFactors
from botorch_pref.likelihoods.factors import (
    Factors,
    LogDerivatives,
    LogPartition,
    ScalarFactors,
)


def _num_shared(block: Factors) -> int:
    return 0 if block.shared_noise is None else block.shared_noise.shape[-1]


def _side_by_side(blocks: Sequence[Factors]) -> list[SparseRows]:
    """Rows of blocks over the points and everybody's shared variables, in order."""
    counts = [_num_shared(block) for block in blocks]
    points = blocks[0].rows.num_points - counts[0]
    out, before = [], 0
    for block, count in zip(blocks, counts, strict=True):
        index = block.rows.indices
        index = torch.where(index < points, index, index + before)
        before += count
        out.append(SparseRows(index, block.rows.coefficients, points + sum(counts)))
    return out


def _join(parts: Sequence[Tensor]) -> Tensor:
    """Blocks of rows, one after the other, with broadcast batches."""
    batch = torch.broadcast_shapes(*(part.shape[:-1] for part in parts))
    return torch.cat([p.expand(*batch, p.shape[-1]) for p in parts], dim=-1)


def _shared_noise(blocks: Sequence[Factors]) -> Tensor | None:
    shared = [b.shared_noise for b in blocks if b.shared_noise is not None]
    return _join(shared) if shared else None


class JointFactors(ScalarFactors):
    """Blocks of factors of different kinds, one under another.

    Args:
        blocks: At least one block.
    """

    def __init__(self, blocks: Sequence[Factors]) -> None:
        self.blocks = tuple(blocks)
        self.rows = stack_rows(_side_by_side(blocks))
        self.shared_noise = _shared_noise(blocks)
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
    rows = stack_rows(_side_by_side(blocks))
    ends = (
        _join([block.variance for block in blocks]),
        _join([block.lower for block in blocks]),
        _join([block.upper for block in blocks]),
    )
    shared = _shared_noise(blocks)
    if shared is None:
        return BoxFactors(rows, *ends)
    return CorrelatedBoxFactors(rows, *ends, shared)


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
