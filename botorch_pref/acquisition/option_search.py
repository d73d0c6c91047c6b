"""The search for the best options of a question."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from math import comb
from typing import Any
from warnings import catch_warnings, filterwarnings

import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.optim.initializers import initialize_q_batch
from botorch.optim.optimize import optimize_acqf
from torch import Tensor

from botorch_pref.acquisition.design_space import MAX_DESIGNS, Constraint, DesignSpace
from botorch_pref.acquisition.exploring_rule import (
    WrappedAcquisition,
    options_of_search,
)
from botorch_pref.errors import FeedbackError

_TURNS = 4
"""The number of turns of climbing numbers and of trying listed values, at most."""

_NEGLIGIBLE, _LEAST_SPREAD = 1e-3, 1e-6
"""The share of the spread of values that no question is worth; the least spread."""

_CHUNK = 1_024
"""The number of options of questions that are valued side by side: matrices of more do
not stay in a processor's cache."""

MAX_QUESTIONS = 20_000
"""The number of questions about listed designs up to which each is valued."""

_STARTS, _EXCHANGES, _RESTARTS = 1_024, 30_000, 8
"""Numbers of the search where questions are more: how many are drawn, how many are
valued in all in exchanges of one option, and from how many of those drawn at most."""

ALL_ARE_OPEN = "pending has all questions that the designs make; wait for an answer."
"""The error where designs are listed, and nothing is left to ask about them."""

TOO_FEW = (
    "inequality_constraints leave fewer designs than the question has options; loosen "
    "them, or ask for a smaller size."
)
"""The error where designs are drawn, and none is unlike the options."""

Order = Callable[[Tensor], Tensor]
"""The place of questions about designs in the order of asking, infinite for those never
to be asked: from places of designs, ``n x size``, to ``n``."""


@dataclass(frozen=True)
class Climb:
    """Settings of a search that climbs.

    Attributes:
        num_restarts: Number of starts that are led uphill.
        raw_samples: Number of questions from which they are chosen.
        arguments: Further ones of BoTorch's ``optimize_acqf``.
        rounding: Rounds designs to those that are shown, which are compared at the end.
    """

    num_restarts: int = 8
    raw_samples: int = 512
    arguments: Mapping[str, Any] = field(default_factory=dict)
    rounding: Callable[[Tensor], Tensor] | None = None


class _ByCoordinates(WrappedAcquisition):
    """The value of options by their coordinates, ``batch_shape x q x c``.

    In a thin polytope the numbers are those of its frame in place of shares.
    """

    def __init__(self, acquisition: AcquisitionFunction, space: DesignSpace) -> None:
        """Counts the coordinates of numbers, which come before places in lists.

        They are shares of ranges, one a column, or the coordinates of a thin polytope's
        frame, which may be fewer.
        """
        super().__init__(acquisition)
        self.space = space
        self.frame = space.frame
        shares = len(space.columns)
        self.num_numbers = shares if self.frame is None else self.frame.axes.shape[-1]

    def features(self, W: Tensor) -> Tensor:
        """Makes designs, ``... x d``, of the search's coordinates, ``... x c``."""
        if self.frame is None:
            return self.space.features(W)
        numbers, places = W.tensor_split([self.num_numbers], -1)
        shares = self.frame.points(numbers.double()).to(W)
        return self.space.features(torch.cat([shares, places], -1))

    def search_coordinates(self, Z: Tensor) -> Tensor:
        """Finds the search's coordinates of designs by those of their space.

        Both have places in lists last; before them `DesignSpace` has shares of ranges,
        and the search of a thin polytope the numbers of its frame.
        """
        if self.frame is None:
            return Z
        shares, places = Z.tensor_split([len(self.space.columns)], -1)
        numbers = self.frame.coordinates(shares.double()).to(Z)
        return torch.cat([numbers, places], -1)

    def bounds(self, like: Tensor) -> Tensor:
        """Makes the bounds of coordinates, ``2 x c``, of the type of a tensor."""
        ends = torch.zeros(2, self.num_numbers + len(self.space.listed)).to(like)
        ends[1] = 1.0
        if self.frame is not None:
            ends[:, : self.num_numbers] = self.frame.bounds.to(like)
        for place, listed in enumerate(self.space.listed, self.num_numbers):
            ends[1, place] = len(listed.values) - 1
        return ends

    def inequalities(self, options: Tensor) -> list[Constraint]:
        """Makes the constraints on numbers that a climb from options keeps to.

        They are of BoTorch's form, ``>=``, and for each of the options, ``size x c``.
        In a thin polytope they are on the numbers of its `Frame`. Listed values stay as
        they are in the climb. Where listed values add to a constraint, each option has
        one of its own, with indices of options and of coordinates.
        """
        places = torch.arange(self.num_numbers, device=options.device)
        if self.frame is not None:
            slopes, slack = self.frame.inequalities
            pairs = zip(-slopes.to(options), -slack, strict=True)
            return [(places, row, float(bound)) for row, bound in pairs]
        A, b = self.space.limits
        if not self.space.limits_lists:
            return [(places, *pair) for pair in zip(A, b.tolist(), strict=True)]
        return [
            (torch.stack([torch.full_like(places, number), places], -1), row, bound)
            for number, needed in enumerate(self.space.right_sides(options).tolist())
            for row, bound in zip(A, needed, strict=True)
            if bool(row.any())
        ]

    def forward(self, X: Tensor) -> Tensor:
        """Values options by their coordinates."""
        value: Tensor = self.acquisition(self.features(X))
        return value


def best_options(
    acquisition: AcquisitionFunction,
    space: DesignSpace,
    size: int,
    centres: Tensor,
    *,
    beside: Tensor,
    open_questions: Tensor,
    seed: int,
) -> Tensor:
    """Finds the options, chosen jointly, that an acquisition function values most.

    Args:
        acquisition: Values options, ``batch_shape x size x d``.
        space: Where they are.
        size: Number of options.
        centres: ``n x d``, designs of the space around which half of the starts are.
        beside: ``j x d``, options of the question that are there already.
        open_questions: ``k x s x d``, questions without an answer, which are not asked
            again where designs are listed. A search of a continuous space does not meet
            them by chance.
        seed: The seed of the starts.

    Returns:
        ``size x d``.
    """
    if space.designs(MAX_DESIGNS // size) is None:
        ends = climbed_options(acquisition, space, size, centres, seed=seed)
        return _without_copies(acquisition, ends, beside, space, seed)
    designs = space.rows_besides(beside, size)

    def order(places: Tensor) -> Tensor:
        """Gives infinity to open questions and to those that show a design twice."""
        X = designs[places]
        joint_options = torch.cat([X, beside.expand(len(X), -1, -1)], -2)
        is_equal = (joint_options[:, None, :, None] == open_questions[:, None]).all(-1)
        is_open = is_equal.any(-1).all(-1).any(-1)
        ordered = places.sort(-1).values
        is_open |= (ordered[:, 1:] == ordered[:, :-1]).any(-1)
        return torch.where(is_open, torch.inf, 0.0)

    options = best_of_designs(acquisition, designs, size, order)
    if options is None:
        raise FeedbackError(ALL_ARE_OPEN)
    return options


def _without_copies(
    acquisition: AcquisitionFunction,
    options: Tensor,
    beside: Tensor,
    space: DesignSpace,
    seed: int,
) -> Tensor:
    """Exchanges options that equal others of their question for the best drawn design.

    Where two of them climb to the same corner of a space, the penalty on options that
    are nearly the same has no slope that would part them.
    """
    for place in range(len(options)):
        remaining = torch.cat([options[:place], options[place + 1 :], beside])
        if not bool(space.same(options[place : place + 1], remaining).any()):
            continue
        designs = space.features(space.draw(_STARTS, seed))
        is_copy = space.same(designs, remaining).any(-1)
        if bool(is_copy.all()):
            raise FeedbackError(TOO_FEW)
        exchanged = options.repeat(int((~is_copy).sum()), 1, 1)
        exchanged[:, place] = designs[~is_copy]
        options = exchanged[in_portions(acquisition, exchanged).argmax()]
    return options


def climbed_options(
    acquisition: AcquisitionFunction,
    space: DesignSpace,
    size: int,
    centres: Tensor,
    *,
    seed: int,
    climb: Climb | None = None,
) -> Tensor:
    """Climbs to the options that are valued most, ``size x d``, see `best_options`.

    Starts are drawn from the global generator too, which callers seed. Without a
    ``climb`` it has the settings of `Climb`.
    """
    climb = Climb() if climb is None else climb
    value = _ByCoordinates(acquisition, space)
    starts = _starts(space, size, centres, climb.raw_samples, seed)
    W = value.search_coordinates(starts)
    values = in_portions(value, W)
    starts, _ = initialize_q_batch(W, values, climb.num_restarts)
    ends = value.features(_climbed(value, starts, climb, _negligible(values)))
    # Points of a frame are within the bounds but for rounding.
    ends = space.rounded_into_bounds(ends)
    if climb.rounding is not None:
        ends = climb.rounding(ends)
    return ends[in_portions(acquisition, ends).argmax()]


def _starts(
    space: DesignSpace, size: int, centres: Tensor, count: int, seed: int
) -> Tensor:
    """Draws questions anywhere, near some designs, and of both, for a climb.

    Of ``count`` drawn questions it makes about twice as many, ``n x size x c``; without
    ``centres``, ``m x d``, they are anywhere. The seed is that of the Sobol sequence;
    the rest is drawn from the global generator, which callers seed.
    """
    anywhere = space.draw(count * size, seed)
    if not len(centres):
        return anywhere.unflatten(0, (-1, size))
    first, second = anywhere.tensor_split(2)
    places = torch.randint(len(centres), (len(second),))
    near = space.mix(space.coordinates(centres)[places], second)
    mixed = torch.cat([first, near])[torch.randperm(len(anywhere))]
    joined = torch.cat([near, first, mixed])
    return joined[: len(joined) // size * size].unflatten(0, (-1, size))


def _negligible(values: Tensor) -> float:
    """Computes the gain in value below which a climb ends, by drawn questions' values.

    It is a thousandth of how far the largest is above the median.
    """
    finite = values[values.isfinite()]
    spread = float(finite.max() - finite.median()) if len(finite) else 0.0
    return _NEGLIGIBLE * max(spread, _LEAST_SPREAD)


def _climbed(
    value: _ByCoordinates, starts: Tensor, climb: Climb, gain: float
) -> Tensor:
    """Climbs from some starts to as many ends or fewer, ``r x size x c``.

    A step that gains less than ``gain`` is the last. Listed values have no slope: they
    stay while numbers climb. Then each is exchanged for each other of its list in the
    best end; if that gains, the best exchanges are the next starts.
    """
    bounds = value.bounds(starts)
    for _ in range(_TURNS):
        ends = starts
        if value.num_numbers:
            ends = _optimized(value, starts, bounds, climb, gain)
        values = in_portions(value, ends)
        swapped = _with_other_values(value, ends[values.argmax()])
        if not len(swapped):
            break
        swaps = in_portions(value, swapped)
        if not bool((swaps > values.max()).any()):
            break
        starts = swapped[swaps.topk(min(climb.num_restarts, len(swaps))).indices]
    return ends


def _optimized(
    value: _ByCoordinates, starts: Tensor, bounds: Tensor, climb: Climb, gain: float
) -> Tensor:
    """Climbs by numbers alone, from starts ``r x size x c``."""
    # `optimize_acqf` has one set of constraints for all starts. Where listed values add
    # to them, each start has its own.
    groups = starts.split(1 if value.space.limits_lists else len(starts))
    return torch.cat(
        [_optimized_together(value, g, bounds, climb, gain) for g in groups]
    )


def _optimized_together(
    value: _ByCoordinates, starts: Tensor, bounds: Tensor, climb: Climb, gain: float
) -> Tensor:
    """Climbs by numbers alone from starts, ``r x size x c``, of the same constraints.

    A step that gains less than ``gain`` is the last. What the ``climb`` says of
    arguments of ``optimize_acqf`` overrides what stands here.
    """
    inequalities = value.inequalities(starts[0])
    options: dict[str, Any] = {"batch_limit": len(starts)}
    if inequalities:
        options["ftol"] = gain
    else:
        options |= options_of_search(gain, len(starts))
    arguments = dict(climb.arguments)
    options |= arguments.pop("options", {})
    with catch_warnings():
        # Under constraints BoTorch gives SciPy an option of another method.
        filterwarnings("ignore", "Unknown solver options: tol")
        # A climb that starts at a maximum is said to fail, as it finds nothing better.
        filterwarnings("ignore", "Optimization failed", RuntimeWarning)
        ends, _ = optimize_acqf(
            value,
            bounds,
            q=starts.shape[-2],
            num_restarts=len(starts),
            batch_initial_conditions=starts,
            inequality_constraints=inequalities or None,
            options=options,
            return_best_only=False,
            **arguments,
        )
    # Steps may end beyond the bounds by rounding.
    return ends.clamp(*bounds)


def _with_other_values(value: _ByCoordinates, options: Tensor) -> Tensor:
    """Changes one listed value of one option, in all ways that constraints allow.

    Options are ``size x c``, and the result ``m x size x c``, with ``m`` of 0 where
    nothing is listed.
    """
    changed = [options.unsqueeze(0)[:0]]
    for place, listed in enumerate(value.space.listed, value.num_numbers):
        for row in range(len(options)):
            alternatives = options.repeat(len(listed.values), 1, 1)
            alternatives[:, row, place] = torch.arange(len(listed.values)).to(options)
            changed.append(
                alternatives[alternatives[:, row, place] != options[row, place]]
            )
    swapped = torch.cat(changed)
    if value.space.limits_lists:
        swapped = swapped[value.space.satisfies(swapped).all(-1)]
    return swapped


def best_of_designs(
    acquisition: AcquisitionFunction,
    designs: Tensor,
    size: int,
    order: Order,
    promising: Tensor | None = None,
) -> Tensor | None:
    """Finds the most valuable question of those that are first in an order.

    Where questions are more than `MAX_QUESTIONS`, options are exchanged one at a time,
    until none is worth more.

    Args:
        acquisition: Values options, ``batch_shape x size x d``.
        designs: ``N x d``, of which the options are some.
        size: Number of options.
        order: Gives each question its turn, the lowest first, infinite for never.
        promising: Places of designs: options are first exchanged for these alone.

    Returns:
        ``size x d``; None where no question can be asked.
    """
    if comb(len(designs), size) > MAX_QUESTIONS:
        places = _by_exchange(acquisition, designs, size, order, promising)
        return None if places is None else designs[places]
    rows = [*combinations(range(len(designs)), size)]
    places = torch.tensor(rows, device=designs.device).view(-1, size)
    turns = in_portions(order, places)
    if not bool(turns.isfinite().any()):
        return None
    places = places[turns == turns.min()]
    values = in_portions(lambda part: acquisition(designs[part]), places)
    return designs[places[values.argmax()]]


def _by_exchange(
    acquisition: AcquisitionFunction,
    designs: Tensor,
    size: int,
    order: Order,
    promising: Tensor | None,
) -> Tensor | None:
    """Finds a valuable question by exchanges of one option, see `best_of_designs`.

    Returns:
        Places of designs, ``size``; None where no question can be asked.
    """

    def valued(places: Tensor, last: float) -> Tensor:
        """Values questions; minus infinity for those whose turn is after ``last``."""
        turns = in_portions(order, places)
        values = in_portions(lambda part: acquisition(designs[part]), places)
        return torch.where((turns <= last) & turns.isfinite(), values, -torch.inf)

    draws = _distinct_draws(_STARTS, len(designs), size).to(designs.device)
    # Most starts take two exchanges of each option to their end.
    restarts = min(max(_EXCHANGES // (2 * len(designs) * size), 1), _RESTARTS)
    stages = [torch.arange(len(designs), device=designs.device)]
    if promising is not None and len(promising) < len(designs):
        stages.insert(0, promising)
    # Questions of the turn 0, or if a search meets none, of any finite turn.
    for last in (0.0, torch.inf):
        values, best = valued(draws, last).topk(restarts)
        ends = [*zip(values.tolist(), draws[best], strict=True)]
        for stage in stages:
            ends = [_exchanged(valued, *end, last, stage) for end in ends]
        value, places = max(ends, key=lambda end: end[0])
        if value > -torch.inf:
            return places
    return None


def _exchanged(
    valued: Callable[[Tensor, float], Tensor],
    value: float,
    places: Tensor,
    last: float,
    stage: Tensor,
) -> tuple[float, Tensor]:
    """Exchanges options in turn for designs of a stage, until none is worth more.

    Questions are places of designs, ``size``, of which ``valued`` gives values; those
    whose turn is after ``last`` do not count. Returned are the best value and places.
    """
    turn, unchanged = 0, 0
    while unchanged < len(places):
        alternatives = places.repeat(len(stage), 1)
        alternatives[:, turn] = stage
        values = valued(alternatives, last)
        best = int(values.argmax())
        if values[best] > value:
            value, places, unchanged = float(values[best]), alternatives[best], 0
        turn, unchanged = (turn + 1) % len(places), unchanged + 1
    return value, places


def _distinct_draws(number: int, population: int, size: int) -> Tensor:
    """Draws sets of different places, ``number x size``, by Floyd's method.

    Places are below ``population``; they are drawn from the global generator.
    """
    drawn = torch.empty(number, 0, dtype=torch.long)
    for last in range(population - size, population):
        place = torch.randint(last + 1, (number, 1))
        repeated = (drawn == place).any(-1, keepdim=True)
        drawn = torch.cat([drawn, torch.where(repeated, last, place)], dim=-1)
    return drawn


def in_portions(function: Callable[[Tensor], Tensor], X: Tensor) -> Tensor:
    """Calls a function of ``n x q x ...`` without derivatives, in portions."""
    with torch.no_grad():
        portions = X.split(max(_CHUNK // X.shape[1], 1))
        return torch.cat([function(part) for part in portions])
