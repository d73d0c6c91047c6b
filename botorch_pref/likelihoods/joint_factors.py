"""Several kinds of answers as one block of factors."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from botorch_pref.feedback.sparse_rows import stack_rows
from botorch_pref.likelihoods.box_factors import BoxFactors
from botorch_pref.likelihoods.factors import Factors, LogDerivatives, LogPartition


class JointFactors(Factors):
    """Blocks of factors of different kinds, one under another.

    Args:
        blocks: At least one block.
    """

    def __init__(self, blocks: Sequence[Factors]) -> None:
        self.blocks = tuple(blocks)
        self.rows = stack_rows([block.rows for block in blocks])
        self._sizes = [block.rows.num_rows for block in blocks]

    def log_prob(self, z: Tensor) -> LogDerivatives:
        """See base class."""
        parts = z.split(self._sizes, dim=-1)
        pairs = zip(self.blocks, parts, strict=True)
        return LogDerivatives(*_join([block.log_prob(part) for block, part in pairs]))

    def log_partition(self, mean: Tensor, variance: Tensor) -> LogPartition:
        """See base class."""
        parts = zip(
            self.blocks,
            mean.split(self._sizes, dim=-1),
            variance.split(self._sizes, dim=-1),
            strict=True,
        )
        return LogPartition(*_join([b.log_partition(m, v) for b, m, v in parts]))


def _join(results: Sequence[tuple[Tensor, ...]]) -> list[Tensor]:
    return [torch.cat(column, dim=-1) for column in zip(*results, strict=True)]


def _stack_boxes(blocks: Sequence[BoxFactors]) -> BoxFactors:
    rows = stack_rows([block.rows for block in blocks])
    batch = torch.broadcast_shapes(*(block.variance.shape[:-1] for block in blocks))

    def cat(parts: list[Tensor]) -> Tensor:
        return torch.cat([p.expand(*batch, p.shape[-1]) for p in parts], dim=-1)

    return BoxFactors(
        rows,
        variance=cat([block.variance for block in blocks]),
        lower=cat([block.lower for block in blocks]),
        upper=cat([block.upper for block in blocks]),
    )


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
