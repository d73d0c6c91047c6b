"""Factors ``p(y_i | z_i)`` of rows of utilities: answers as engines see them.

First what engines ask of any factors, then boxed rows ``v = A f(X) + e``, which fell
into intervals, with one answer or many, and last blocks of several kinds. Where rows
share noise, its covariance ``R`` is split into an independent part and the rest: the
larger the independent part, the smoother the factors.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from typing import Any, ClassVar, NamedTuple, Self

import torch
from torch import Tensor

from botorch_pref.linalg import SparseDesign, stack_rows
from botorch_pref.linalg.covariance import join_rows, joint_shape
from botorch_pref.linalg.sparse_design import (
    NoiseBlocks,
    RowGroups,
    row_groups,
    stack_noise_blocks,
    take_places,
)
from botorch_pref.numerics.normal import (
    hazard_excess,
    interval_derivatives,
    log_ndtr_derivatives,
    sample_truncated_normal,
)
from botorch_pref.numerics.normal_powers import NormalPowers
from botorch_pref.numerics.quadrature import (
    Integral,
    LogConcave,
    OfRows,
    TiltedMoments,
    at_places,
    log_concave_integral,
)

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

    @property
    def is_learned(self) -> bool:
        """Whether a parameter of the likelihood may want a gradient; True by default.

        An engine leaves out the derivatives of factors that say False.
        """
        return True

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

    def see_options(self, points: Tensor, covariates: Tensor, num_points: int) -> None:
        """Lets factors of ``N`` options see points, and weights of covariates behind.

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
        r""":math:`\log \int p(y_i \mid z) N(z; \mu_i, s_i) dz` and its derivatives.

        With derivatives :math:`\partial, \partial^2` in the cavity mean, the tilted
        mean is :math:`\mu + s \partial` and the tilted variance
        :math:`s + s^2 \partial^2` (Rasmussen and Williams 2006, eq. 3.58).

        Args:
            mean: Cavity means, ``batch_shape x m``.
            variance: Cavity variances, ``batch_shape x m``.
        """

    def tilted(self, mean: Tensor, variance: Tensor) -> TiltedMoments:
        """The log partition, its derivatives and the ratio, ``batch_shape x m``."""
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


# Sums of so many answers are drawn one by one.
_FEW = 32


def _standardise(bound: Tensor, z: Tensor, inverse: Tensor) -> Tensor:
    """``(bound - z) / scale``; an infinite bound has no gradient, not a NaN one."""
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
        self.rows, self.noise = rows, noise
        self.variance, self.lower, self.upper = variance, lower, upper
        self.width = upper - lower if width is None else width

    @property
    def is_learned(self) -> bool:
        """See base class; a subclass may have more parameters."""
        parts = self.variance, self.lower, self.upper, self.width
        return type(self) is not BoxFactors or any(t.requires_grad for t in parts)

    @cached_property
    def _sides(self) -> Tensor | float | None:
        """1 for lower ends alone, -1 for upper; None where a row has not one."""
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
        """What a win and a loss of a row share, each ``batch_shape x m``."""
        return (self.variance,)

    def opposed(
        self, parameters: Sequence[Tensor], wins: Tensor, losses: Tensor
    ) -> OpposedAnswers | None:
        """All wins and losses of rows, of ends at 0; None where these are not known.

        Args:
            parameters: Those of each row.
            wins: How many rows have, as is the next one.
            losses: How many.
        """
        (variance,) = parameters
        return OpposedAnswers(variance.rsqrt(), wins, losses)

    def rearranged(self, change: Callable[[Tensor], Tensor]) -> BoxFactors:
        """Makes boxes whose noise and ends are changed alike, without rows of theirs.

        Args:
            change: Takes ``batch_shape x m``.
        """
        variance, lower, upper, width = map(change, self._ends)
        return BoxFactors(self.rows, variance, lower, upper, width=width)

    def integral(self, of_rows: OfRows, num_rows: int) -> Integral:
        """Gives the rule for products of such boxes: :func:`.log_concave_integral`."""
        return partial(log_concave_integral, of_rows)

    @cached_property
    def half_lines(self) -> tuple[Tensor, Tensor, Tensor] | None:
        """Sides, 1 for a lower end, -1 for an upper, ends and noise, without gradients.

        Each ``batch_shape x m``; None where a row has both ends or neither.
        """
        if self._sides is None:
            return None
        above = self.upper == torch.inf
        sides = torch.where(above, 1.0, -1.0).to(self.lower)
        ends = torch.where(above, self.lower, self.upper)
        return sides, ends.detach(), self.variance.detach()

    def _half_line(
        self, sides: Tensor | float, z: Tensor, variance: Tensor
    ) -> tuple[Tensor, Tensor]:
        """``x`` of ``Phi(x)``, the probability of the box, and its slope in z."""
        slope = variance.rsqrt()
        if isinstance(sides, float):
            return (z - self.lower) * slope, slope
        slope = sides * slope
        return (z - torch.where(sides > 0, self.lower, self.upper)) * slope, slope

    def _shifted(self, z: Tensor, variance: Tensor) -> tuple[Tensor, ...]:
        """Log probability of the box for ``N(z, variance)``, 3 derivatives in z."""
        sides = self._sides
        if sides is not None:
            x, slope = self._half_line(sides, z, variance)
            value, first, second, third = log_ndtr_derivatives(x)
            square = slope.square()
            return value, first * slope, second * square, third * square * slope
        inverse = variance.rsqrt()
        width = torch.where(self.width.isfinite(), self.width, 1.0)
        value, first, second, third = interval_derivatives(
            _standardise(self.lower, z, inverse),
            _standardise(self.upper, z, inverse),
            width * inverse,
        )
        return value, -first * inverse, second * inverse**2, -third * inverse**3

    def log_prob(self, z: Tensor) -> LogDerivatives:
        """See base class."""
        return LogDerivatives(*self._shifted(z, self.variance)[:3])

    def curvature_gradient(self, z: Tensor, weights: Tensor) -> Tensor:
        """See base class."""
        return weights * self._shifted(z, self.variance)[3]

    def log_partition(self, mean: Tensor, variance: Tensor) -> LogDerivatives:
        """See base class; closed form, since noise and cavity variances add."""
        return LogDerivatives(*self._shifted(mean, self.variance + variance)[:3])

    @classmethod
    def stacked(cls, blocks: Sequence[Factors]) -> BoxFactors | None:
        """See base class; boxes of any kind of answer are boxes."""
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
            sizes = rows.indices.new_tensor([box.rows.num_rows for box in boxes])
            box_factors.sources = (
                torch.arange(len(boxes)).to(sizes).repeat_interleave(sizes)
            )
        return box_factors

    def merged(self, counts: Tensor | None, groups_of: GroupsOf) -> ScalarFactors:
        """See base class; rows that share noise with others stay as they are."""
        apart = self.in_noise
        label = apart.cumsum(0) * apart if self.noise is not None else None
        # The noise has one place for a row in all elements of a batch.
        groups = groups_of(self.rows, label, self.noise is None)
        if counts is None and groups is None:
            return self
        return MergedBoxFactors(self, counts, groups)

    def heard(self, z: Tensor, generator: torch.Generator) -> Tensor:
        """Draws of ``v`` in its box given ``z``, ``num_draws x batch_shape x m``."""
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


def _sum_heard(
    boxes: BoxFactors, counts: Tensor, z: Tensor, generator: torch.Generator
) -> Tensor:
    """Draws of the sum of the heard values, ``num_draws x batch_shape x M``.

    Answer by answer where they are few; else by the first three cumulants of the sum
    (Cornish and Fisher 1938), whose distribution function is then right within 1e-3, a
    thirtieth of the error of a thousand draws.
    """
    is_small, total = counts <= _FEW, torch.zeros_like(z)
    max_count = int(torch.where(is_small, counts, 0).max())
    for k in range(max_count):
        draw = boxes.heard(z, generator)
        total = torch.where(is_small & (k < counts), total + draw, total)
    if bool(is_small.all()):
        return total
    return torch.where(is_small, total, _sum_of_many(boxes, counts, z, generator))


def _sum_of_many(
    boxes: BoxFactors, counts: Tensor, z: Tensor, generator: torch.Generator
) -> Tensor:
    r, count = boxes.variance, counts.clamp_min(1.0)
    _, first, second, third = boxes._shifted(z, r)
    deviation = (r * (1 + r * second)).clamp_min(0.0).sqrt()
    scale = (r / deviation.clamp_min(torch.finfo(z.dtype).tiny)).nan_to_num()
    # No normal variable that is kept to an interval is more skewed.
    skewness = (scale**3 * third).clamp(-2.0, 2.0) / count.sqrt()
    x = torch.randn(z.shape, generator=generator, dtype=z.dtype, device=z.device)
    square = x.square()
    bent = skewness / 6 * (square - 1) - skewness.square() * x * (
        (2 * square - 5) / 36 - (square - 3) / 16
    )
    return count * (z + r * first) + count.sqrt() * deviation * (x + bent)


def _in_any_element(chosen: Tensor) -> Tensor:
    """Places of the last dimension that are chosen in any element of a batch."""
    batch = tuple(range(chosen.dim()))
    (places,) = chosen.unsqueeze(0).any(batch).nonzero(as_tuple=True)
    return places


# Places of what follows, in the order in which one comes from the other:
# answer  M, of the boxes before equal rows are one; counts, signs and `groups.group`
# row     m, of `groups`, which `MergedBoxFactors.rows` and z have; `groups.first` is an
#         answer of each
# line    the rows, or answers, of all elements of a batch one after the other, in
#         `_InLine`; its rows are `_alone` with one answer, or `_merged` with several
# part    of the rows of `_merged`, or `m`, in `_product`: 0, 1, ... in their order


@dataclass(frozen=True, eq=False)
class _Answers:
    """Answers of all rows, and how often each was given, ``batch_shape x M``.

    An answer of a count of 0 was not given in an element of a batch. Answers of a row
    are ``mixed`` where the variances of some may have gradients of their own.
    """

    boxes: BoxFactors
    counts: Tensor
    groups: RowGroups
    mixed: bool = False

    def take_answers(self, places: Tensor) -> _Answers:
        """The answers at some places, whose boxes are not asked for rows nor noise."""

        def entries(part: Tensor) -> Tensor:
            return take_places(part, places)

        groups = self.groups
        group, sign = entries(groups.group), entries(groups.sign)
        groups = replace(groups, group=group, sign=sign)
        boxes = self.boxes.rearranged(entries)
        return _Answers(boxes, entries(self.counts), groups, self.mixed)

    def in_line(self, batch: torch.Size) -> _Answers:
        """The answers of all elements of a batch, one after the other."""

        def flat(part: Tensor) -> Tensor:
            return part.expand(*batch, -1).flatten()

        boxes, counts = self.boxes.rearranged(flat), flat(self.counts)
        return _Answers(boxes, counts, self.groups.in_line(batch), self.mixed)

    @property
    def batch_shape(self) -> torch.Size:
        """The batch shape of the answers and their groups."""
        parts = self.counts.shape[:-1], self.groups.present.shape[:-1]
        return joint_shape(self.boxes.batch_shape, *parts)

    def take(self, rows: Tensor) -> _Answers:
        """The answers of some of the rows."""
        number = rows.new_full((self.groups.num_groups,), -1)
        number[rows] = torch.arange(len(rows), device=rows.device)
        group = number[self.groups.group]
        is_taken = group >= 0
        answer_places = _in_any_element(is_taken)
        answers, group = self.take_answers(answer_places), group[..., answer_places]
        groups = replace(
            answers.groups, first=self.groups.first[..., rows], group=group.clamp_min(0)
        )
        return replace(
            answers, counts=answers.counts * is_taken[..., answer_places], groups=groups
        )

    def log_prob(self, z: Tensor) -> LogDerivatives:
        """The log probability of the answers of each row, and two derivatives."""
        derivatives, groups = self.boxes.log_prob(self.groups.spread(z)), self.groups
        weights = self.counts, self.counts * groups.sign, self.counts
        return LogDerivatives(*map(groups.total, map(torch.mul, derivatives, weights)))


@dataclass(frozen=True, eq=False)
class OpposedAnswers:
    r"""All wins and losses of rows, :math:`\Phi(x)^a \Phi(-x)^b`, ``batch_shape x m``.

    One tail gives both, for half the cost of two; ``slope`` is that of ``x``.
    """

    slope: Tensor
    wins: Tensor
    losses: Tensor

    def take(self, places: Tensor) -> Self:
        """Some of the rows."""
        parts = (getattr(self, field.name) for field in fields(self))
        return type(self)(*(part[..., places] for part in parts))

    def log_prob(self, z: Tensor) -> LogDerivatives:
        """The log probability of the answers of each row, and two derivatives."""
        x = z * self.slope
        sides = (x, -x)
        if x.requires_grad:
            won, lost = (log_ndtr_derivatives(side)[:3] for side in sides)
            value, first, second = (
                self.wins * w + s * self.losses * o
                for w, o, s in zip(won, lost, (1, -1, 1), strict=True)
            )
        else:
            value, first, second = self._from_tail(x)
        return LogDerivatives(value, first * self.slope, second * self.slope.square())

    def _from_tail(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The log probability and its derivatives in ``x``, without a graph."""
        distance, rising = x.abs(), x > 0
        likely = torch.where(rising, self.wins, self.losses)
        unlikely = torch.where(rising, self.losses, self.wins)
        scaled = torch.special.erfcx(math.sqrt(0.5) * distance)
        log_density = -0.5 * distance.square()
        density = log_density.exp()
        tail = 0.5 * density * scaled
        hazard = math.sqrt(2 / math.pi) / scaled
        likely_hazard = density * (1 / math.sqrt(2 * math.pi)) / (1 - tail)
        excess = hazard - distance
        if bool((distance > torch.finfo(x.dtype).eps ** -0.1).any()):
            excess = hazard_excess(-distance)
        value = likely * (-tail).log1p()
        value = value + unlikely * ((0.5 * scaled).log() + log_density)
        likely, unlikely = likely * likely_hazard, unlikely * hazard
        first = torch.where(rising, likely - unlikely, unlikely - likely)
        return value, first, -likely * (likely_hazard + distance) - unlikely * excess


def _opposed(answers: _Answers) -> OpposedAnswers | None:
    """Wins and losses as one; None where some answers are something else.

    Ends and variances that are learned have gradients of their own: such ends are
    something else where they are 0 too, and such variances of several blocks are.
    """
    boxes, counts, groups = answers.boxes, answers.counts, answers.groups
    side, answered = boxes._sides, counts > 0
    bound = torch.where(boxes.lower.isfinite(), boxes.lower, boxes.upper)
    if side is None or answers.mixed or bound.requires_grad:
        return None
    if bool(((bound != 0) & answered).any()):
        return None
    group, *shared = torch.broadcast_tensors(groups.group, *boxes.parameters)
    places = torch.arange(group.shape[-1], device=group.device).expand_as(group)
    answer_places = group.new_zeros(*group.shape[:-1], groups.num_groups)
    # The gradient of a variance that is scattered would count for each answer.
    first = answer_places.scatter(-1, group, places)
    of_rows = [take_places(parameter, first) for parameter in shared]
    for parameter, of_row in zip(shared, of_rows, strict=True):
        if bool(((take_places(of_row, group) != parameter) & answered).any()):
            return None
    wins = groups.total(counts * (torch.as_tensor(side) * groups.sign > 0))
    return boxes.opposed(of_rows, wins, groups.total(counts) - wins)


def _product(answers: _Answers) -> list[_Answers | OpposedAnswers]:
    """The factors whose product all answers are, those with two ends by themselves."""
    boxes = answers.boxes
    two_sided = boxes.lower.isfinite() & boxes.upper.isfinite()
    parts: list[_Answers | OpposedAnswers] = []
    for chosen in (~two_sided, two_sided):
        places = _in_any_element(chosen)
        if len(places):
            selection = answers.take_answers(places)
            part = replace(selection, counts=selection.counts * chosen[..., places])
            parts.append(_opposed(part) or part)
    return parts


def _log_product(
    parts: Sequence[_Answers | OpposedAnswers], z: Tensor
) -> LogDerivatives:
    """The log probability of all answers of each row, and two derivatives."""
    total, *terms = (part.log_prob(z) for part in parts)
    for term in terms:
        total = LogDerivatives(*(a + b for a, b in zip(total, term, strict=True)))
    return total


def _product_at(
    parts: Sequence[_Answers | OpposedAnswers], places: Tensor | None
) -> LogConcave:
    """The log probability of all answers of some rows, of all for None."""
    if places is not None:
        parts = [part.take(places) for part in parts]
    return lambda z: _log_product(parts, z)


class _InLine:
    """The rows of all elements of a batch one after the other, for their moments.

    A row with several answers in one element of a batch may have one in another.
    """

    def __init__(self, answers: _Answers, batch_shape: torch.Size) -> None:
        self.batch_shape = batch_shape
        line_answers = answers.in_line(batch_shape)
        groups = line_answers.groups
        repeats = groups.total(line_answers.counts) - groups.present.to(
            line_answers.counts
        )
        (self._alone,) = (repeats <= 0).nonzero(as_tuple=True)
        (self._merged,) = (repeats > 0).nonzero(as_tuple=True)
        self._single = line_answers.take_answers(groups.first[self._alone]).boxes
        self._present = groups.present[self._alone]
        parts = _product(line_answers.take(self._merged))
        self._of_rows = partial(_product_at, parts)
        self._integral = self._single.integral(self._of_rows, len(self._merged))
        self._opposed: tuple[OpposedAnswers, NormalPowers] | None = None
        part = parts[0] if len(parts) == 1 else None
        # Of a subclass they are no powers of a tail and of the other one.
        if type(part) is OpposedAnswers:
            self._opposed = part, NormalPowers(part.wins, part.losses)

    def tilted(self, mean: Tensor, variance: Tensor) -> TiltedMoments:
        """The moments of all rows, ``... x batch_shape x m``."""
        line = -1 - len(self.batch_shape)
        shape = mean.shape[line:]
        mean, variance = mean.flatten(line), variance.flatten(line)
        single_gaussian = mean[..., self._alone], variance[..., self._alone]
        # A row that an element of the batch lacks says nothing.
        closed = LogDerivatives(
            *(
                part * self._present
                for part in self._single.log_partition(*single_gaussian)
            )
        )
        moments = TiltedMoments(*closed, 1 + single_gaussian[1] * closed.second)
        if len(self._merged):
            merged_gaussian = mean[..., self._merged], variance[..., self._merged]
            places, integrals = self._integrals(*merged_gaussian)
            back = torch.cat([self._alone, self._merged[places]]).argsort()
            joined = map(join_rows, zip(moments, integrals, strict=True))
            moments = TiltedMoments(*(part[..., back] for part in joined))
        return TiltedMoments(*(part.unflatten(-1, shape) for part in moments))

    def _integrals(
        self, mean: Tensor, variance: Tensor
    ) -> tuple[Tensor, TiltedMoments]:
        """The moments of merged rows, and which these are, in another order."""
        if self._opposed is None:
            every = torch.arange(len(self._merged), device=mean.device)
            return every, self._integral(mean, variance)
        part, powers = self._opposed
        t, s = mean * part.slope, variance * part.slope.square()
        covered = powers.covers(t, s).reshape(-1, len(self._merged)).all(0)
        order, number = covered.long().argsort(descending=True), int(covered.sum())
        near, far = order[:number], order[number:]
        moments = powers.moments(t[..., near], s[..., near], near)
        slope = part.slope[..., near]
        first, second = moments.first * slope, moments.second * slope.square()
        moments = moments._replace(first=first, second=second)
        if len(far):
            far_gaussian = mean[..., far], variance[..., far]
            far_moments = log_concave_integral(
                at_places(self._of_rows, far), *far_gaussian
            )
            joined = map(join_rows, zip(moments, far_moments, strict=True))
            moments = TiltedMoments(*joined)
        return order, moments


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
            # Rows without such noise may be one now, and were in blocks of their own.
            group = torch.where(answers.in_noise, groups.group, m)
            group = torch.cat([group, group.new_tensor([m])])
            noise = answers.noise
            self.noise = NoiseBlocks(group[noise.rows], noise.covariance, m)
        counts, sources, mixed = counts.to(answers.lower), answers.sources, False
        if sources is not None:
            mixed = bool(
                (sources[groups.first].gather(-1, groups.group) != sources).any()
            )
        self._answers = _Answers(answers, counts, groups, mixed)
        self._parts = _product(self._answers)
        self._lines = _InLine(self._answers, self._answers.batch_shape)

    @property
    def variance(self) -> Tensor:
        """The noise of the mean of a row's heard values, weighted by precisions."""
        answers = self._answers
        total = answers.groups.total(answers.counts / answers.boxes.variance)
        # Of a row without answers, which an element of a batch may have, any.
        return torch.where(total > 0, total, 1.0).reciprocal()

    def log_prob(self, z: Tensor) -> LogDerivatives:
        """See base class."""
        return _log_product(self._parts, z)

    def curvature_gradient(self, z: Tensor, weights: Tensor) -> Tensor:
        """See base class."""
        answers, groups = self._answers, self._answers.groups
        answer_weights = answers.counts * groups.spread(weights)
        return groups.total(
            answers.boxes.curvature_gradient(groups.spread(z), answer_weights)
        )

    def tilted(self, mean: Tensor, variance: Tensor) -> TiltedMoments:
        """See base class; of rows with one answer in closed form."""
        lines = self._lines
        shape = torch.broadcast_shapes(
            mean.shape, variance.shape, (*lines.batch_shape, self.rows.num_rows)
        )
        if shape[-1 - len(lines.batch_shape) : -1] != lines.batch_shape:
            lines = _InLine(self._answers, shape[:-1])
        return lines.tilted(mean.expand(shape), variance.expand(shape))

    def heard(self, z: Tensor, generator: torch.Generator) -> Tensor:
        """Draws of the mean of the values heard of each row, given ``z``."""
        answers, groups = self._answers, self._answers.groups
        sums = _sum_heard(answers.boxes, answers.counts, groups.spread(z), generator)
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
        """See base class."""
        (gradient,) = self._of_blocks(
            lambda b, t, w: (b.curvature_gradient(t, w),), z, weights
        )
        return gradient

    def log_partition(self, mean: Tensor, variance: Tensor) -> LogDerivatives:
        """See base class."""
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
        """Results of each block for its own rows of some tensors, part by part."""
        split = [values.split(self._sizes, dim=-1) for values in columns]
        results: Any = [
            call(*arguments) for arguments in zip(self.blocks, *split, strict=True)
        ]
        return map(join_rows, zip(*results, strict=True))


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
    stacked = type(blocks[0]).stacked(blocks) if len(blocks) > 1 else None
    if stacked is not None:
        return stacked.merged(_stacked_counts(blocks, counts), groups_of)
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
