"""Factors ``p(y_i | z_i)`` of rows of utilities: answers as engines see them.

First what engines ask of any factors, then boxed rows ``v = A f(X) + e``, which fell
into intervals, with one answer or many (see :mod:`.repeated_answers`), and last blocks
of several kinds. Where rows
share noise, its covariance ``R`` is split into an independent part and the rest: the
larger the independent part, the smoother the factors.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor

from botorch_pref.likelihoods.repeated_answers import (
    OpposedAnswers,
    RepeatedAnswers,
    RowsInLine,
    log_product,
    product_of,
    sum_heard,
)
from botorch_pref.linalg import SparseDesign, stack_rows
from botorch_pref.linalg.covariance import join_rows, joint_shape
from botorch_pref.linalg.sparse_design import (
    NoiseBlocks,
    RowGroups,
    row_groups,
    stack_noise_blocks,
)
from botorch_pref.numerics.normal import (
    interval_derivatives,
    log_ndtr_derivatives,
    sample_truncated_normal,
)
from botorch_pref.numerics.quadrature import (
    Integral,
    LogDerivatives,
    OfRows,
    TiltedMoments,
    log_concave_integral,
)


class GroupsOf(Protocol):
    """Finder of rows that are equal up to their sign; see :func:`.row_groups`."""

    def __call__(
        self, rows: SparseDesign, label: Tensor | None = None, per_element: bool = True
    ) -> RowGroups | None:
        """Groups equal rows of one label; None where no two are equal."""


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
        """Whether each row shares noise with others, ``m`` booleans.

        Rows of which the shared part is 0 do not, in whatever block they are.
        """
        if self.noise is None:
            index = self.rows.indices
            return index.new_zeros(self.rows.num_rows, dtype=torch.bool)
        return self.noise.diagonal().reshape(-1, self.rows.num_rows).any(0)

    @property
    def is_learned(self) -> bool:
        """Whether a parameter of the likelihood may want a gradient; True by default.

        An engine leaves out the derivatives of factors that say False.
        """
        return True

    @abstractmethod
    def log_prob(self, z: Tensor) -> LogDerivatives:
        r"""Computes :math:`\log p(y \mid z)`, its gradient and its curvature.

        Args:
            z: ``batch_shape x m``.
        """

    @abstractmethod
    def curvature_gradient(self, z: Tensor, weights: Tensor) -> Tensor:
        r"""Computes the gradient of ``sum_i weights_i second_i(z)`` in ``z``.

        Args:
            z: ``batch_shape x m``.
            weights: ``batch_shape x m``.

        Returns:
            ``batch_shape x m``; where rows are independent, ``weights`` times the third
            derivative.
        """

    def merged(self, counts: Tensor | None, groups_of: GroupsOf) -> Factors:
        r"""Merges equal rows of the same answers, each as often as it was given.

        Answers that see the same row become one factor, :math:`\prod_k p_k(\pm
        z)^{c_k}`. By default all stay as they are.

        Args:
            counts: ``batch_shape x M`` integers, how often each answer was given; None
                for once. Only where :attr:`takes_counts`.
            groups_of: Finds rows that are equal up to their sign.
        """
        return self

    @classmethod
    def stacked(cls, blocks: Sequence[Factors]) -> Factors | None:
        """Stacks several blocks to one; None, the default, where they stay blocks.

        Args:
            blocks: At least two, the first of this class.
        """
        return None

    def reindex(self, inverse: Tensor, num_points: int) -> None:
        """Writes the rows about distinct points instead of all points, in place.

        Args:
            inverse: ``n`` long, for each point its place among the distinct points.
            num_points: The number of distinct points.
        """
        self.rows = self.rows.reindex(inverse, num_points)

    def see_options(self, points: Tensor, covariates: Tensor, num_points: int) -> None:
        """Writes rows about ``N`` options as rows about points and covariates' weights.

        It is done in place; the last ``p`` columns are then those of the weights.

        Args:
            points: ``batch_shape x N`` long, the point of each option.
            covariates: ``batch_shape x N x p``.
            num_points: The number of points.
        """
        columns = self.rows.apply_matrix(covariates.to(self.rows.coefficients))
        self.rows = self.rows.reindex(points, num_points).with_columns(columns)


class ScalarFactors(Factors):
    r"""A factor :math:`p(y_i \mid z_i)` for each row."""

    @abstractmethod
    def log_partition(self, mean: Tensor, variance: Tensor) -> LogDerivatives:
        r"""Computes :math:`\log \int p(y_i \mid z) N(z; \mu_i, s_i) dz` and slopes.

        With derivatives :math:`\partial, \partial^2` in the cavity mean, the tilted
        mean is :math:`\mu + s \partial` and the tilted variance
        :math:`s + s^2 \partial^2` (Rasmussen and Williams 2006, eq. 3.58).

        Args:
            mean: Cavity means, ``batch_shape x m``.
            variance: Cavity variances, ``batch_shape x m``.
        """

    def tilted(self, mean: Tensor, variance: Tensor) -> TiltedMoments:
        """Computes log partition, derivatives and the ratio, ``batch_shape x m``.

        The ratio is that of the tilted variance to the cavity's.
        """
        value, first, second = self.log_partition(mean, variance)
        return TiltedMoments(value, first, second, 1 + variance * second)


class IntegratedFactors(ScalarFactors):
    """Rows whose partitions are integrals, which know the ratio to its own digits."""

    @abstractmethod
    def tilted(self, mean: Tensor, variance: Tensor) -> TiltedMoments:
        """See base class."""

    def log_partition(self, mean: Tensor, variance: Tensor) -> LogDerivatives:
        """See base class; by quadrature."""
        return LogDerivatives(*self.tilted(mean, variance)[:3])


def _standardise(bound: Tensor, z: Tensor, inverse: Tensor) -> Tensor:
    """Computes ``(bound - z) inverse``; infinite bounds have no gradient, not NaN."""
    finite = bound.isfinite()
    return torch.where(finite, (torch.where(finite, bound, z) - z) * inverse, bound)


class BoxFactors(ScalarFactors):
    r"""Rows ``v = A f(X) + e`` with independent noise that fell into an interval.

    .. math::
        p(y_i \mid z_i) = P(l_i \le z_i + e_i \le u_i)
        = \Phi\Big(\frac{u_i - z_i}{\sqrt{r_i}}\Big)
        - \Phi\Big(\frac{l_i - z_i}{\sqrt{r_i}}\Big), \quad e_i \sim N(0, r_i).

    A win has the interval ``[delta, inf)``, a tie ``[-delta, delta]``. The variance
    ``r`` and the ends, infinite for none, are ``batch_shape x m``. ``width`` is ``u -
    l`` where it is known to more digits; ``noise`` is that which rows share.
    ``sources`` has the block of each row where one of several learns its variance.
    """

    takes_counts = True
    sources: Tensor | None = None

    def __init__(
        self,
        rows: SparseDesign,
        variance: Tensor,
        lower: Tensor,
        upper: Tensor,
        *,
        width: Tensor | None = None,
        noise: NoiseBlocks | None = None,
    ) -> None:
        """Keeps rows and ends; the ``width`` is by default ``upper - lower``.

        Callers that know it otherwise give it: far from 0 the difference cancels.
        """
        self.rows, self.noise = rows, noise
        self.variance, self.lower, self.upper = variance, lower, upper
        self.width = upper - lower if width is None else width

    @property
    def is_learned(self) -> bool:
        """See base class; a subclass may have more parameters."""
        parts = self.variance, self.lower, self.upper, self.width
        return type(self) is not BoxFactors or any(t.requires_grad for t in parts)

    @cached_property
    def sides(self) -> Tensor | float | None:
        """1 for a row with a lower end only, -1 for one with an upper end only.

        None where some row has both ends or neither. The number 1.0 where all rows have
        lower ends, which costs less, else ``batch_shape x m``.
        """
        open_below, open_above = self.lower == -torch.inf, self.upper == torch.inf
        if not bool((open_below ^ open_above).all()):
            return None
        if bool(open_above.all()):
            return 1.0
        return torch.where(open_above, 1.0, -1.0).to(self.lower)

    @property
    def batch_shape(self) -> torch.Size:
        """The batch shape of the noise and of the ends."""
        return joint_shape(*(part.shape[:-1] for part in self._ends))

    @property
    def _ends(self) -> tuple[Tensor, ...]:
        return self.variance, self.lower, self.upper, self.width

    @property
    def parameters(self) -> tuple[Tensor, ...]:
        """Parameters that a win and a loss of a row share, each ``batch_shape x m``."""
        return (self.variance,)

    def opposed(
        self, parameters: Sequence[Tensor], wins: Tensor, losses: Tensor
    ) -> OpposedAnswers | None:
        """Makes one factor of all wins and losses of each row, boxes with an end at 0.

        Subclasses return None where their answers have no such factor.

        Args:
            parameters: See :attr:`parameters`, one for each row.
            wins: How many wins each row has, ``batch_shape x m``.
            losses: How many losses.
        """
        (variance,) = parameters
        return OpposedAnswers(variance.rsqrt(), wins, losses)

    def rearranged(self, change: Callable[[Tensor], Tensor]) -> BoxFactors:
        """Makes boxes by one rearrangement of variances and ends, such as a selection.

        ``rows`` stay as they are: callers read only variances and ends of the result.

        Args:
            change: Rearranges a tensor, ``batch_shape x m``.
        """
        variance, lower, upper, width = map(change, self._ends)
        return BoxFactors(self.rows, variance, lower, upper, width=width)

    def integral(self, of_rows: OfRows, num_rows: int) -> Integral:
        """Gives the rule for products of such boxes: :func:`.log_concave_integral`."""
        return partial(log_concave_integral, of_rows)

    @cached_property
    def half_lines(self) -> tuple[Tensor, Tensor, Tensor] | None:
        """Sides, 1 for a lower end, -1 for an upper, ends and noise, for quick sweeps.

        Each ``batch_shape x m``, without gradients; None where a row has both ends or
        neither.
        """
        if self.sides is None:
            return None
        above = self.upper == torch.inf
        sides = torch.where(above, 1.0, -1.0).to(self.lower)
        ends = torch.where(above, self.lower, self.upper)
        return sides, ends.detach(), self.variance.detach()

    def _half_line(
        self, sides: Tensor | float, z: Tensor, variance: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Computes ``x``, with the box's probability ``Phi(x)``, and ``dx / dz``.

        Boxes have one end each, as ``sides`` say; the ``variance`` is that of ``z``
        with the noise.
        """
        slope = variance.rsqrt()
        if isinstance(sides, float):
            return (z - self.lower) * slope, slope
        slope = sides * slope
        return (z - torch.where(sides > 0, self.lower, self.upper)) * slope, slope

    def shifted(self, z: Tensor, variance: Tensor) -> tuple[Tensor, ...]:
        """Computes the box's log probability for ``N(z, variance)``, 3 derivatives.

        These are in ``z``. The ``variance`` holds the noise of the row; all are
        ``batch_shape x m``.
        """
        sides = self.sides
        if sides is not None:
            x, slope = self._half_line(sides, z, variance)
            value, first, second, third = log_ndtr_derivatives(x)
            square = slope.square()
            return value, first * slope, second * square, third * square * slope
        inverse = variance.rsqrt()
        # An infinite width times the slope would have no derivative.
        width = torch.where(self.width.isfinite(), self.width, 1.0)
        value, first, second, third = interval_derivatives(
            _standardise(self.lower, z, inverse),
            _standardise(self.upper, z, inverse),
            width * inverse,
        )
        return value, -first * inverse, second * inverse**2, -third * inverse**3

    def log_prob(self, z: Tensor) -> LogDerivatives:
        """See base class."""
        return LogDerivatives(*self.shifted(z, self.variance)[:3])

    def curvature_gradient(self, z: Tensor, weights: Tensor) -> Tensor:
        """See base class."""
        return weights * self.shifted(z, self.variance)[3]

    def log_partition(self, mean: Tensor, variance: Tensor) -> LogDerivatives:
        """See base class; closed form, since noise and cavity variances add."""
        return LogDerivatives(*self.shifted(mean, self.variance + variance)[:3])

    @classmethod
    def stacked(cls, blocks: Sequence[Factors]) -> BoxFactors | None:
        """Stacks boxes of any kinds of answers; None where a block has no boxes.

        Rows follow in the order of the blocks, as callers stack counts.
        """
        boxes = [block for block in blocks if isinstance(block, BoxFactors)]
        if len(boxes) < len(blocks):
            return None
        rows, noise = stack_rows([box.rows for box in boxes]), stacked_noise(boxes)
        variance, lower, upper, width = (
            join_rows([getattr(box, name) for box in boxes])
            for name in ("variance", "lower", "upper", "width")
        )
        kind = BoxFactors if noise is None else CorrelatedBoxFactors
        box_factors = kind(rows, variance, lower, upper, width=width, noise=noise)
        if len(boxes) > 1 and variance.requires_grad:
            # For merges: variances of several blocks, although equal now, may each
            # want a gradient.
            sizes = rows.indices.new_tensor([box.rows.num_rows for box in boxes])
            box_factors.sources = (
                torch.arange(len(boxes)).to(sizes).repeat_interleave(sizes)
            )
        return box_factors

    def merged(self, counts: Tensor | None, groups_of: GroupsOf) -> ScalarFactors:
        """Merges equal rows to one each; those that share noise stay as they are."""
        apart = self.in_noise
        # Rows of one label may be one: each that shares noise has its own, others 0.
        label = apart.cumsum(0) * apart if self.noise is not None else None
        # With noise, rows are merged alike in all elements of a batch: `NoiseBlocks`
        # has one place for a row in all of them.
        groups = groups_of(self.rows, label, per_element=self.noise is None)
        if counts is None and groups is None:
            return self
        return MergedBoxFactors(self, counts, groups)

    def heard(self, z: Tensor, generator: torch.Generator) -> Tensor:
        """Draws ``v`` in its box given ``z``, ``num_draws x batch_shape x m``."""
        return sample_truncated_normal(
            z, self.variance, self.lower, self.upper, generator
        )


class CorrelatedBoxFactors(BoxFactors):
    """Boxed rows whose noise is correlated within an answer.

    The noise ``R`` of the rows is split into an independent part :math:`r_i` and a
    block-diagonal rest ``N``, the argument ``noise``, positive semi-definite, which
    joins :math:`z = A f(X) + e_N`. Given ``z`` the rows are independent.
    """

    shares_noise: ClassVar[bool] = True
    takes_counts = False


class MergedBoxFactors(IntegratedFactors):
    r"""Boxed rows each of which has several answers, or one that was given many times.

    .. math::
        p(y_i \mid z_i) = \prod_k P(l_{ik} \le s_{ik} z_i + e \le u_{ik})^{c_{ik}},

    with signs :math:`s_{ik}` and counts :math:`c_{ik}`, 1 for None. The M ``answers``
    have a row each; ``groups`` are the rows that they have in common, None for none.
    """

    def __init__(
        self, answers: BoxFactors, counts: Tensor | None, groups: RowGroups | None
    ) -> None:
        """Splits each row's answers, once, into parts whose products are known."""
        num_answers = answers.rows.num_rows
        every = torch.arange(num_answers, device=answers.lower.device)
        if groups is None:
            alone = torch.ones_like(every, dtype=torch.bool)
            groups = RowGroups(every, every, alone.to(answers.lower), alone)
        if counts is None:
            counts = torch.ones_like(every)
        self.rows = groups.merged(answers.rows)
        if answers.noise is not None:
            m = groups.num_groups
            # Rows in blocks whose noise is 0 may be merged, and leave them: a block
            # is padded with ``m``, the row that does not exist.
            group = torch.where(answers.in_noise, groups.group, m)
            group = torch.cat([group, group.new_tensor([m])])
            noise = answers.noise
            self.noise = NoiseBlocks(group[noise.rows], noise.covariance, m)
        # Whether a row has answers of several blocks, whose variances are learned.
        counts, sources, mixed = counts.to(answers.lower), answers.sources, False
        if sources is not None:
            mixed = bool(
                (sources[groups.first].gather(-1, groups.group) != sources).any()
            )
        self._answers = RepeatedAnswers(answers, counts, groups, mixed)
        self._parts = product_of(self._answers)
        self._lines = RowsInLine(self._answers, self._answers.batch_shape)

    @property
    def variance(self) -> Tensor:
        """The noise of the mean of a row's heard values, weighted by precisions."""
        answers = self._answers
        total = answers.groups.total(answers.counts / answers.boxes.variance)
        # Of a row without answers, which an element of a batch may have, any.
        return torch.where(total > 0, total, 1.0).reciprocal()

    def log_prob(self, z: Tensor) -> LogDerivatives:
        """See base class."""
        return log_product(self._parts, z)

    def curvature_gradient(self, z: Tensor, weights: Tensor) -> Tensor:
        """Multiplies each row's third derivative, the sum over answers, by weights."""
        answers, groups = self._answers, self._answers.groups
        # An odd derivative has the row's sign, which `spread` gives the weights.
        answer_weights = answers.counts * groups.spread(weights)
        return groups.total(
            answers.boxes.curvature_gradient(groups.spread(z), answer_weights)
        )

    def tilted(self, mean: Tensor, variance: Tensor) -> TiltedMoments:
        """Computes moments of all rows; of those with one answer in closed form."""
        lines = self._lines
        shape = torch.broadcast_shapes(
            mean.shape, variance.shape, (*lines.batch_shape, self.rows.num_rows)
        )
        # What was prepared is for the batch of answers; of a wider one it is made anew.
        if shape[-1 - len(lines.batch_shape) : -1] != lines.batch_shape:
            lines = RowsInLine(self._answers, shape[:-1])
        return lines.tilted(mean.expand(shape), variance.expand(shape))

    def heard(self, z: Tensor, generator: torch.Generator) -> Tensor:
        """Draws the mean of the values heard of each row, given ``z``.

        It is weighted by precisions, see `variance`. A row without answers, which an
        element of a batch may have, keeps ``z``.
        """
        answers, groups = self._answers, self._answers.groups
        sums = sum_heard(answers.boxes, answers.counts, groups.spread(z), generator)
        total = groups.total(groups.sign * sums / answers.boxes.variance)
        is_empty = groups.total(answers.counts) == 0
        return torch.where(is_empty, z, total * self.variance)


class JointFactors(IntegratedFactors):
    """Blocks of factors of different kinds; for :meth:`tilted` every block has it."""

    def __init__(self, blocks: Sequence[Factors]) -> None:
        self.blocks = tuple(blocks)
        self.rows = stack_rows([block.rows for block in blocks])
        self.noise = stacked_noise(blocks)
        self._sizes = [block.rows.num_rows for block in blocks]

    def log_prob(self, z: Tensor) -> LogDerivatives:
        """See base class."""
        return LogDerivatives(*self._of_blocks(lambda b, t: b.log_prob(t), z))

    def curvature_gradient(self, z: Tensor, weights: Tensor) -> Tensor:
        """Computes the gradient of weighted second derivatives, block by block."""
        (gradient,) = self._of_blocks(
            lambda b, t, w: (b.curvature_gradient(t, w),), z, weights
        )
        return gradient

    def log_partition(self, mean: Tensor, variance: Tensor) -> LogDerivatives:
        """Computes log partitions and derivatives of each block for its rows."""
        derivatives = self._of_blocks(
            lambda b, m, v: b.log_partition(m, v), mean, variance
        )
        return LogDerivatives(*derivatives)

    def tilted(self, mean: Tensor, variance: Tensor) -> TiltedMoments:
        """See base class."""
        moments = self._of_blocks(lambda b, m, v: b.tilted(m, v), mean, variance)
        return TiltedMoments(*moments)

    def _of_blocks(
        self, call: Callable[..., Sequence[Tensor]], *columns: Tensor
    ) -> Iterator[Tensor]:
        """Joins results of each block for its rows of some tensors, part by part.

        A ``call`` gets a block and its rows of the ``columns``, ``batch_shape x m``,
        and returns some tensors of these rows.
        """
        split = [values.split(self._sizes, dim=-1) for values in columns]
        results: Any = [
            call(*arguments) for arguments in zip(self.blocks, *split, strict=True)
        ]
        return map(join_rows, zip(*results, strict=True))


def stacked_noise(blocks: Sequence[Factors]) -> NoiseBlocks | None:
    """Stacks the noise of all blocks; None where there is none."""
    return stack_noise_blocks([(b.noise, b.rows.num_rows) for b in blocks])


def joint_factors(
    blocks: Sequence[Factors],
    counts: Sequence[Tensor | None] | None = None,
    groups_of: GroupsOf = row_groups,
) -> Factors:
    """Joins several blocks of factors to one, in which equal rows are one.

    A single block, merged; boxes of any feedback type as boxes, which the exact engine
    needs; else :class:`JointFactors`. For each block ``counts`` has how often its
    answers were given, ``batch_shape x M``; None for once.
    """
    counts = [None] * len(blocks) if counts is None else counts
    stacked = type(blocks[0]).stacked(blocks) if len(blocks) > 1 else None
    if stacked is not None:
        return stacked.merged(_stacked_counts(blocks, counts), groups_of)
    merged = [b.merged(c, groups_of) for b, c in zip(blocks, counts, strict=True)]
    return merged[0] if len(merged) == 1 else JointFactors(merged)


def _stacked_counts(
    blocks: Sequence[Factors], counts: Sequence[Tensor | None]
) -> Tensor | None:
    """Joins the counts of all blocks' answers, 1 where a block has none.

    None stands for answers that were given once, of a block or of all blocks.
    """
    if all(count is None for count in counts):
        return None
    return join_rows(
        [
            b.rows.indices.new_ones(b.rows.num_rows) if c is None else c
            for b, c in zip(blocks, counts, strict=True)
        ]
    )
