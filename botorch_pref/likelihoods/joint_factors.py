"""Several kinds of answers as one block of factors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from torch import Tensor

from botorch_pref.likelihoods.box_factors import BoxFactors, CorrelatedBoxFactors
from botorch_pref.likelihoods.factors import (
    Factors,
    GroupsOf,
    LogDerivatives,
    LogPartition,
    ScalarFactors,
    TiltedSlopes,
)
from botorch_pref.linalg.covariance import join_rows
from botorch_pref.linalg.sparse_design import (
    NoiseBlocks,
    row_groups,
    stack_noise_blocks,
    stack_rows,
)


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
        return LogDerivatives(*map(join_rows, zip(*results, strict=True)))

    def curvature_gradient(self, z: Tensor, weights: Tensor) -> Tensor:
        """See base class."""
        parts = zip(
            self.blocks,
            z.split(self._sizes, dim=-1),
            weights.split(self._sizes, dim=-1),
            strict=True,
        )
        return join_rows([b.curvature_gradient(part, w) for b, part, w in parts])

    def log_partition(self, mean: Tensor, variance: Tensor) -> LogPartition:
        """See base class; every block must have one."""
        parts = zip(
            self.blocks,
            mean.split(self._sizes, dim=-1),
            variance.split(self._sizes, dim=-1),
            strict=True,
        )
        results = [cast("ScalarFactors", b).log_partition(m, v) for b, m, v in parts]
        return LogPartition(*map(join_rows, zip(*results, strict=True)))

    def tilted_slopes(self, mean: Tensor, variance: Tensor) -> TiltedSlopes:
        """See base class."""
        parts = zip(
            self.blocks,
            mean.split(self._sizes, dim=-1),
            variance.split(self._sizes, dim=-1),
            strict=True,
        )
        results = [cast("ScalarFactors", b).tilted_slopes(m, v) for b, m, v in parts]
        return TiltedSlopes(*map(join_rows, zip(*results, strict=True)))


def _stack_boxes(blocks: Sequence[BoxFactors]) -> BoxFactors:
    rows = stack_rows([block.rows for block in blocks])
    ends = (
        join_rows([block.variance for block in blocks]),
        join_rows([block.lower for block in blocks]),
        join_rows([block.upper for block in blocks]),
    )
    noise, width = _noise(blocks), join_rows([block.width for block in blocks])
    if noise is None:
        return BoxFactors(rows, *ends, width=width)
    return CorrelatedBoxFactors(rows, *ends, noise, width=width)


def joint_factors(
    blocks: Sequence[Factors],
    counts: Sequence[Tensor | None] | None = None,
    groups_of: GroupsOf = row_groups,
) -> Factors:
    """One block of factors out of several, in which equal rows are one.

    Args:
        blocks: At least one block.
        counts: For each block how often its answers were given, ``batch_shape x M``;
            None for once.
        groups_of: Finds rows that are equal up to their sign.

    Returns:
        A single block, merged; boxes of any feedback type as boxes, which the exact
        engine needs; else a :class:`JointFactors`.
    """
    counts = [None] * len(blocks) if counts is None else counts
    boxes = [block for block in blocks if isinstance(block, BoxFactors)]
    if len(boxes) == len(blocks) > 1:
        return _stack_boxes(boxes).merged(_stack_counts(boxes, counts), groups_of)
    merged = [b.merged(c, groups_of) for b, c in zip(blocks, counts, strict=True)]
    return merged[0] if len(merged) == 1 else JointFactors(merged)


def _stack_counts(
    blocks: Sequence[Factors], counts: Sequence[Tensor | None]
) -> Tensor | None:
    if all(count is None for count in counts):
        return None
    return join_rows(
        [
            b.rows.indices.new_ones(b.rows.num_rows) if c is None else c
            for b, c in zip(blocks, counts, strict=True)
        ]
    )
