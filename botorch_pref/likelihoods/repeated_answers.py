"""Boxed rows that several answers see: products of their factors, and their moments.

Wins and losses of a row are powers of one normal tail, whose moments are known; answers
of other kinds are multiplied one by one, and integrated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Protocol, Self

import torch
from torch import Tensor

from botorch_pref.linalg.covariance import join_rows, joint_shape
from botorch_pref.linalg.sparse_design import RowGroups, take_places
from botorch_pref.numerics.normal import hazard_excess, log_ndtr_derivatives
from botorch_pref.numerics.normal_powers import NormalPowers
from botorch_pref.numerics.quadrature import (
    Integral,
    LogConcave,
    LogDerivatives,
    OfRows,
    TiltedMoments,
    at_places,
    log_concave_integral,
)


@dataclass(frozen=True, eq=False)
class OpposedAnswers:
    r"""All wins and losses of rows, :math:`\Phi(x)^a \Phi(-x)^b`, ``batch_shape x m``.

    One tail gives both, for half the cost of two; ``slope`` is that of ``x``.
    """

    slope: Tensor
    wins: Tensor
    losses: Tensor

    def take(self, places: Tensor) -> Self:
        """Takes some of the rows."""
        parts = (getattr(self, field.name) for field in fields(self))
        return type(self)(*(part[..., places] for part in parts))

    def log_prob(self, z: Tensor) -> LogDerivatives:
        """Computes each row's log probability of its answers, and two derivatives.

        Derivatives are in ``z``, ``batch_shape x m``. Where these want gradients, both
        tails are computed; else one gives both.
        """
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
        """Computes log probability and its derivatives in ``x``, without a graph.

        The likelier answer, a win where ``x > 0``, has the probability ``1 - tail``,
        and the other ``tail``. From ``scaled``, that is ``2 exp(x^2 / 2) tail``, follow
        the logs of both and the hazards ``phi / Phi``, which are their slopes.
        """
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
        # Far out the difference has lost its digits.
        if bool((distance > torch.finfo(x.dtype).eps ** -0.1).any()):
            excess = hazard_excess(-distance)
        value = likely * (-tail).log1p()
        value = value + unlikely * ((0.5 * scaled).log() + log_density)
        likely, unlikely = likely * likely_hazard, unlikely * hazard
        first = torch.where(rising, likely - unlikely, unlikely - likely)
        return value, first, -likely * (likely_hazard + distance) - unlikely * excess


class Boxes(Protocol):
    """Boxed rows as their answers are multiplied: see :class:`.BoxFactors`."""

    @property
    def variance(self) -> Tensor:
        """The noise, ``batch_shape x M``."""

    @property
    def lower(self) -> Tensor:
        """The lower ends."""

    @property
    def upper(self) -> Tensor:
        """The upper ends."""

    @property
    def sides(self) -> Tensor | float | None:
        """1 for lower ends alone, -1 for upper; None where a row has not one."""

    @property
    def batch_shape(self) -> torch.Size:
        """The batch shape of the noise and of the ends."""

    @property
    def parameters(self) -> tuple[Tensor, ...]:
        """Parameters that a win and a loss of a row share."""

    def opposed(
        self, parameters: Sequence[Tensor], wins: Tensor, losses: Tensor
    ) -> OpposedAnswers | None:
        """Takes all wins and losses of rows, of ends at 0."""

    def rearranged(self, change: Callable[[Tensor], Tensor]) -> Boxes:
        """Makes boxes whose noise and ends are changed alike."""

    def integral(self, of_rows: OfRows, num_rows: int) -> Integral:
        """Gives the rule for products of such boxes."""

    def shifted(self, z: Tensor, variance: Tensor) -> tuple[Tensor, ...]:
        """Computes the box's log probability for ``N(z, variance)``, 3 slopes in z."""

    def log_prob(self, z: Tensor) -> LogDerivatives:
        """Computes the log probability of the box, and two derivatives."""

    def curvature_gradient(self, z: Tensor, weights: Tensor) -> Tensor:
        """Multiplies the third derivative by weights."""

    def log_partition(self, mean: Tensor, variance: Tensor) -> LogDerivatives:
        """Computes the box's log probability for a Gaussian, and two derivatives."""

    def heard(self, z: Tensor, generator: torch.Generator) -> Tensor:
        """Draws the noisy value in its box."""


def _in_any_element(chosen: Tensor) -> Tensor:
    """Finds places of the last dimension that are chosen in any element of a batch."""
    batch = tuple(range(chosen.dim()))
    (places,) = chosen.unsqueeze(0).any(batch).nonzero(as_tuple=True)
    return places


# Places of what follows, in the order in which one comes from the other:
# answer  M, of the boxes before equal rows are one; counts, signs and `groups.group`
# row     m, of `groups`, which `MergedBoxFactors.rows` and z have; `groups.first` is an
#         answer of each
# line    the rows, or answers, of all elements of a batch one after the other, in
#         `RowsInLine`; its rows are `_alone` with one answer, or `_merged` with several
# part    of the rows of `_merged`, or `m`, in `_product`: 0, 1, ... in their order


@dataclass(frozen=True, eq=False)
class RepeatedAnswers:
    """Answers of all rows, and how often each was given, ``batch_shape x M``.

    An answer of a count of 0 was not given in an element of a batch. Answers of a row
    are ``mixed`` where the variances of some may have gradients of their own.
    """

    boxes: Boxes
    counts: Tensor
    groups: RowGroups
    mixed: bool = False

    def take_answers(self, places: Tensor) -> RepeatedAnswers:
        """Takes the answers at some places, ``... x k`` of ``M``.

        All rows stay, also those of which no answer is taken.
        """

        def entries(part: Tensor) -> Tensor:
            return take_places(part, places)

        groups = self.groups
        group, sign = entries(groups.group), entries(groups.sign)
        groups = replace(groups, group=group, sign=sign)
        boxes = self.boxes.rearranged(entries)
        return RepeatedAnswers(boxes, entries(self.counts), groups, self.mixed)

    def in_line(self, batch: torch.Size) -> RepeatedAnswers:
        """Lines up the answers of all elements of a batch, one after the other.

        So rows and answers have one dimension, and no batch.
        """

        def flat(part: Tensor) -> Tensor:
            return part.expand(*batch, -1).flatten()

        boxes, counts = self.boxes.rearranged(flat), flat(self.counts)
        return RepeatedAnswers(boxes, counts, self.groups.in_line(batch), self.mixed)

    @property
    def batch_shape(self) -> torch.Size:
        """The batch shape of the answers and their groups."""
        parts = self.counts.shape[:-1], self.groups.present.shape[:-1]
        return joint_shape(self.boxes.batch_shape, *parts)

    def take(self, rows: Tensor) -> RepeatedAnswers:
        """Takes the answers of some of the rows, ``k`` numbers of these.

        Rows of the result are counted in the order of the numbers.
        """
        number = rows.new_full((self.groups.num_groups,), -1)
        number[rows] = torch.arange(len(rows), device=rows.device)
        group = number[self.groups.group]
        is_taken = group >= 0
        # What an element of a batch does not take has a count of 0 there.
        answer_places = _in_any_element(is_taken)
        answers, group = self.take_answers(answer_places), group[..., answer_places]
        groups = replace(
            answers.groups, first=self.groups.first[..., rows], group=group.clamp_min(0)
        )
        return replace(
            answers, counts=answers.counts * is_taken[..., answer_places], groups=groups
        )

    def log_prob(self, z: Tensor) -> LogDerivatives:
        """Computes each row's log probability of its answers, and two derivatives."""
        derivatives, groups = self.boxes.log_prob(self.groups.spread(z)), self.groups
        weights = self.counts, self.counts * groups.sign, self.counts
        return LogDerivatives(*map(groups.total, map(torch.mul, derivatives, weights)))


def _opposed(answers: RepeatedAnswers) -> OpposedAnswers | None:
    """Merges the answers of each row to numbers of wins and losses, or returns None.

    None is for answers with both ends or an end that is not 0, ends that are learned,
    and rows whose answers differ in noise or learn that of several blocks.
    """
    boxes, counts, groups = answers.boxes, answers.counts, answers.groups
    side, answered = boxes.sides, counts > 0
    bound = torch.where(boxes.lower.isfinite(), boxes.lower, boxes.upper)
    if side is None or answers.mixed or bound.requires_grad:
        return None
    if bool(((bound != 0) & answered).any()):
        return None
    group, *shared = torch.broadcast_tensors(groups.group, *boxes.parameters)
    places = torch.arange(group.shape[-1], device=group.device).expand_as(group)
    # Each row takes the parameters of some answer of it. Variances themselves are not
    # scattered: each answer of a row would get the row's whole gradient.
    answer_places = group.new_zeros(*group.shape[:-1], groups.num_groups)
    answer_places = answer_places.scatter(-1, group, places)
    of_rows = [take_places(parameter, answer_places) for parameter in shared]
    for parameter, of_row in zip(shared, of_rows, strict=True):
        if bool(((take_places(of_row, group) != parameter) & answered).any()):
            return None
    wins = groups.total(counts * (torch.as_tensor(side) * groups.sign > 0))
    return boxes.opposed(of_rows, wins, groups.total(counts) - wins)


def product_of(answers: RepeatedAnswers) -> list[RepeatedAnswers | OpposedAnswers]:
    """Splits answers into parts whose product is that of all, two-sided ones apart.

    One-sided answers are merged to numbers of wins and losses where `_opposed` can.
    Each part has all rows, and counts of 0 for the answers of the other part.
    """
    boxes = answers.boxes
    two_sided = boxes.lower.isfinite() & boxes.upper.isfinite()
    parts: list[RepeatedAnswers | OpposedAnswers] = []
    for chosen in (~two_sided, two_sided):
        places = _in_any_element(chosen)
        if len(places):
            selection = answers.take_answers(places)
            part = replace(selection, counts=selection.counts * chosen[..., places])
            parts.append(_opposed(part) or part)
    return parts


def log_product(
    parts: Sequence[RepeatedAnswers | OpposedAnswers], z: Tensor
) -> LogDerivatives:
    """Computes the log probability of all answers of each row, and two derivatives."""
    total, *terms = (part.log_prob(z) for part in parts)
    for term in terms:
        total = LogDerivatives(*(a + b for a, b in zip(total, term, strict=True)))
    return total


def _product_at(
    parts: Sequence[RepeatedAnswers | OpposedAnswers], places: Tensor | None
) -> LogConcave:
    """Makes the log probability of all answers of some rows, as integrals take it.

    For None it is of all rows. The function's ``z`` is of the rows at these places.
    """
    if places is not None:
        parts = [part.take(places) for part in parts]
    return lambda z: log_product(parts, z)


class RowsInLine:
    """The rows of all elements of a batch one after the other, for their moments.

    A row with several answers in one element of a batch may have one in another.
    """

    def __init__(self, answers: RepeatedAnswers, batch_shape: torch.Size) -> None:
        """Splits rows with one answer, of closed moments, from those with several."""
        self.batch_shape = batch_shape
        line_answers = answers.in_line(batch_shape)
        groups = line_answers.groups
        # At most 0 for a row with one answer, or one that its element of the batch
        # does not have.
        repeats = groups.total(line_answers.counts) - groups.present.to(
            line_answers.counts
        )
        (self._alone,) = (repeats <= 0).nonzero(as_tuple=True)
        (self._merged,) = (repeats > 0).nonzero(as_tuple=True)
        self._single = line_answers.take_answers(groups.first[self._alone]).boxes
        self._present = groups.present[self._alone]
        parts = product_of(line_answers.take(self._merged))
        self._of_rows = partial(_product_at, parts)
        self._integral = self._single.integral(self._of_rows, len(self._merged))
        self._opposed: tuple[OpposedAnswers, NormalPowers] | None = None
        part = parts[0] if len(parts) == 1 else None
        # Not of a subclass: with lapses they are no powers of ``Phi(x)`` and
        # ``Phi(-x)``.
        if type(part) is OpposedAnswers:
            self._opposed = part, NormalPowers(part.wins, part.losses)

    def tilted(self, mean: Tensor, variance: Tensor) -> TiltedMoments:
        """Computes moments of all rows times Gaussians, ``... x batch_shape x m``."""
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
        """Computes moments of rows with several answers, in an order that it returns.

        The order is of places among these rows, whose mean and variance are ``... x
        k``. Wins and losses alone have closed moments where `NormalPowers` covers them;
        other rows are integrated.
        """
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


# Sums of so many answers are drawn one by one.
_FEW = 32


def sum_heard(
    boxes: Boxes, counts: Tensor, z: Tensor, generator: torch.Generator
) -> Tensor:
    """Draws sums of each answer's heard values, ``num_draws x batch_shape x M``.

    Answer by answer up to counts of `_FEW`; beyond by the first three cumulants of the
    sum (Cornish and Fisher 1938), whose distribution function is then right within
    1e-3, a thirtieth of the error of a thousand draws.
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
    boxes: Boxes, counts: Tensor, z: Tensor, generator: torch.Generator
) -> Tensor:
    """Draws the sum of more than `_FEW` heard values in a box, see `sum_heard`.

    It follows from their mean, variance and skewness: ``bent`` is what the expansion of
    Cornish and Fisher adds to a normal draw.
    """
    r, count = boxes.variance, counts.clamp_min(1.0)
    _, first, second, third = boxes.shifted(z, r)
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
