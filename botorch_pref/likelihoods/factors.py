"""Factors ``p(y_i | z_i)`` of rows of utilities: answers as engines see them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from botorch_pref.linalg.covariance import join_rows
from botorch_pref.linalg.sparse_design import (
    NoiseBlocks,
    RowGroups,
    SparseDesign,
    row_groups,
    stack_noise_blocks,
    stack_rows,
)
from botorch_pref.numerics.quadrature import TiltedMoments

GroupsOf = Callable[[SparseDesign, Tensor | None, bool], RowGroups | None]
"""Finds rows that are equal up to their sign; see :func:`.row_groups`."""


class LogDerivatives(NamedTuple):
    """A log function of ``z`` and its derivatives, each ``batch_shape x m``.

    Factors that couple rows give any values that have the right sum over rows, any
    gradient that has the right ``A' first``, and any curvature that has the right
    ``A' diag(second) A``.
    """

    value: Tensor
    first: Tensor
    second: Tensor


class LogPartition(NamedTuple):
    """A log partition and two derivatives in the mean, each ``batch_shape x m``."""

    value: Tensor
    first: Tensor
    second: Tensor


class TiltedSlopes(NamedTuple):
    r"""The derivatives of a log partition that make a site, ``batch_shape x m``.

    ``ratio`` is the tilted variance over that of the cavity, :math:`1 + s \partial^2`,
    to its own digits where answers are much more precise than the cavity.
    """

    first: Tensor
    second: Tensor
    ratio: Tensor


class Factors(ABC):
    r"""Factors of the rows ``z = A f(X)``.

    Attributes:
        rows: ``A``, m rows.
        noise: Gaussian noise that rows of one answer share and that is part of ``z``
            beside ``A f``; None where there is none.
        shares_noise: Whether factors of the class may have such noise.
        takes_counts: Whether :meth:`merged` takes answers that were given many times.
    """

    shares_noise: ClassVar[bool] = False
    takes_counts: ClassVar[bool] = False
    rows: SparseDesign
    noise: NoiseBlocks | None = None

    @property
    def in_noise(self) -> Tensor:
        """Whether each row shares noise with others, ``m`` booleans."""
        if self.noise is None:
            index = self.rows.indices
            return index.new_zeros(self.rows.num_rows, dtype=torch.bool)
        return self.noise.diagonal().reshape(-1, self.rows.num_rows).any(0)

    @abstractmethod
    def log_prob(self, z: Tensor) -> LogDerivatives:
        r""":math:`\log p(y \mid z)`, its gradient and its curvature.

        Args:
            z: ``batch_shape x m``.
        """

    @abstractmethod
    def curvature_gradient(self, z: Tensor, weights: Tensor) -> Tensor:
        r"""The gradient of ``sum_i weights_i second_i(z)`` in ``z``.

        Args:
            z: ``batch_shape x m``.
            weights: ``batch_shape x m``.

        Returns:
            ``batch_shape x m``; where rows are independent, ``weights`` times the third
            derivative.
        """

    def merged(self, counts: Tensor | None, groups_of: GroupsOf) -> Factors:
        r"""The factors of the same answers, each as often as it was given.

        Where several see the same row they become one factor,
        :math:`\prod_k p_k(\pm z)^{c_k}`. By default they stay as they are.

        Args:
            counts: ``batch_shape x M`` integers, how often each answer was given; None
                for once. Only where :attr:`takes_counts`.
            groups_of: Finds rows that are equal up to their sign.
        """
        return self

    @classmethod
    def stacked(cls, blocks: Sequence[Factors]) -> Factors | None:
        """Several blocks as one; None, the default, where they stay blocks.

        Args:
            blocks: At least two, the first of this class.
        """
        return None

    def reindex(self, inverse: Tensor, num_points: int) -> None:
        """Lets the factors see points that are counted once.

        Args:
            inverse: ``n`` long, for each point its place among the distinct points.
            num_points: The number of distinct points.
        """
        self.rows = self.rows.reindex(inverse, num_points)


class ScalarFactors(Factors):
    r"""A factor :math:`p(y_i \mid z_i)` for each row."""

    @abstractmethod
    def log_partition(self, mean: Tensor, variance: Tensor) -> LogPartition:
        r""":math:`\log \int p(y_i \mid z) N(z; \mu_i, s_i) dz` and its derivatives.

        With derivatives :math:`\partial, \partial^2` in the cavity mean, the tilted
        mean is :math:`\mu + s \partial` and the tilted variance
        :math:`s + s^2 \partial^2` (Rasmussen and Williams 2006, eq. 3.58).

        Args:
            mean: Cavity means, ``batch_shape x m``.
            variance: Cavity variances, ``batch_shape x m``.
        """

    def tilted_slopes(self, mean: Tensor, variance: Tensor) -> TiltedSlopes:
        """The derivatives of :meth:`log_partition`, where they alone cost less.

        Args:
            mean: Cavity means, ``batch_shape x m``.
            variance: Cavity variances, ``batch_shape x m``.
        """
        _, first, second = self.log_partition(mean, variance)
        return TiltedSlopes(first, second, 1 + variance * second)


class IntegratedFactors(ScalarFactors):
    """Rows whose partitions are integrals, which know the ratio to its own digits."""

    @abstractmethod
    def tilted(self, mean: Tensor, variance: Tensor) -> TiltedMoments:
        """The log partition, its derivatives and the ratio, ``batch_shape x m``."""

    def log_partition(self, mean: Tensor, variance: Tensor) -> LogPartition:
        """See base class; by quadrature."""
        return LogPartition(*self.tilted(mean, variance)[:3])

    def tilted_slopes(self, mean: Tensor, variance: Tensor) -> TiltedSlopes:
        """See base class."""
        return TiltedSlopes(*self.tilted(mean, variance)[1:])


class JointFactors(ScalarFactors):
    """Blocks of factors of different kinds, one under another.

    For :meth:`log_partition` every block must have one.
    """

    def __init__(self, blocks: Sequence[Factors]) -> None:
        self.blocks = tuple(blocks)
        self.rows = stack_rows([block.rows for block in blocks])
        self.noise = stacked_noise(blocks)
        self._sizes = [block.rows.num_rows for block in blocks]

    def log_prob(self, z: Tensor) -> LogDerivatives:
        """See base class."""
        return LogDerivatives(*self._of_blocks(lambda b, t: b.log_prob(t), z))

    def curvature_gradient(self, z: Tensor, weights: Tensor) -> Tensor:
        """See base class."""
        (gradient,) = self._of_blocks(
            lambda b, t, w: (b.curvature_gradient(t, w),), z, weights
        )
        return gradient

    def log_partition(self, mean: Tensor, variance: Tensor) -> LogPartition:
        """See base class."""
        found = self._of_blocks(lambda b, m, v: b.log_partition(m, v), mean, variance)
        return LogPartition(*found)

    def tilted_slopes(self, mean: Tensor, variance: Tensor) -> TiltedSlopes:
        """See base class."""
        found = self._of_blocks(lambda b, m, v: b.tilted_slopes(m, v), mean, variance)
        return TiltedSlopes(*found)

    def _of_blocks(
        self, call: Callable[..., Sequence[Tensor]], *given: Tensor
    ) -> Iterator[Tensor]:
        """Results of each block for its own rows of some tensors, part by part."""
        split = [values.split(self._sizes, dim=-1) for values in given]
        each: Any = [call(*own) for own in zip(self.blocks, *split, strict=True)]
        return map(join_rows, zip(*each, strict=True))


def stacked_noise(blocks: Sequence[Factors]) -> NoiseBlocks | None:
    """The noise of all blocks; None where there is none."""
    return stack_noise_blocks([(b.noise, b.rows.num_rows) for b in blocks])


def joint_factors(
    blocks: Sequence[Factors],
    counts: Sequence[Tensor | None] | None = None,
    groups_of: GroupsOf = row_groups,
) -> Factors:
    """One block of factors out of several, in which equal rows are one.

    A single block, merged; boxes of any feedback type as boxes, which the exact engine
    needs; else :class:`JointFactors`. For each block ``counts`` has how often its
    answers were given, ``batch_shape x M``; None for once.
    """
    counts = [None] * len(blocks) if counts is None else counts
    whole = type(blocks[0]).stacked(blocks) if len(blocks) > 1 else None
    if whole is not None:
        return whole.merged(_stacked_counts(blocks, counts), groups_of)
    merged = [b.merged(c, groups_of) for b, c in zip(blocks, counts, strict=True)]
    return merged[0] if len(merged) == 1 else JointFactors(merged)


def _stacked_counts(
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
