"""The search space as optimisers take it, and the search for the best question."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from math import comb, prod
from typing import Any

import torch
from ax.adapter.adapter_utils import extract_search_space_digest
from ax.adapter.transforms.base import Transform
from ax.core.observation import ObservationFeatures
from ax.core.parameter import Parameter
from ax.core.search_space import SearchSpace
from ax.generators.torch.botorch_modular.optimizer_argparse import optimizer_argparse
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.exceptions.errors import CandidateGenerationError
from botorch.optim.optimize import optimize_acqf, optimize_acqf_discrete
from botorch.optim.optimize_mixed import optimize_acqf_mixed_alternating
from botorch.utils.sampling import draw_sobol_samples
from torch import Tensor

from botorch_pref.acquisition import incumbent
from botorch_pref.acquisition.base import better_probability, with_others
from botorch_pref.acquisition.rules import (
    WrappedAcquisition,
    nearness,
    negligible_gain,
    options_of_search,
)
from botorch_pref.ax.space.constraints import Frame, constrained_names
from botorch_pref.ax.space.options import all_values, few_values, number_range
from botorch_pref.evaluation.progress import near_points

MAX_DESIGNS, _MAX_VALUES = 10_000, 1_000
"""Designs that are valued one by one, and values of whole numbers, at most; those of
more values are as good as continuous."""


@dataclass(frozen=True, eq=False)
class Coordinate:
    """Parameter of the search space as optimisers take it.

    ``columns`` are its features of the model; ``table`` has those of each of its ``K``
    values, ``K x len(columns)``. A continuous one is its only feature, without a table.
    The feature of values in order is their place. Where steps between them are not
    even, constraints are about ``numbers`` (``K``), the shares of their range, instead.
    """

    columns: list[int]
    table: Tensor | None
    numbers: Tensor | None = None

    @property
    def is_category(self) -> bool:
        """Whether values are places in the table and not the feature itself."""
        return len(self.columns) > 1

    def rounded(self, feature: Tensor) -> Tensor:
        """The feature, of no category, of the value that is nearest to it."""
        if self.table is None:
            return feature
        return self.table[_nearest(self.table[:, 0], feature), 0]

    def feature(self, number: Tensor) -> Tensor:
        """The feature, of no category, of the value that is nearest to a number."""
        if self.table is None or self.numbers is None:
            return self.rounded(number)
        return self.table[_nearest(self.numbers, number), 0]

    def number(self, feature: Tensor) -> Tensor:
        """The number of the value whose feature, of no category, is nearest."""
        if self.table is None or self.numbers is None:
            return feature
        return self.numbers[_nearest(self.table[:, 0], feature)]


def _nearest(values: Tensor, number: Tensor) -> Tensor:
    """The place of the value that is nearest to a number."""
    return (number.unsqueeze(-1) - values).abs().argmin(-1)


@dataclass(frozen=True, eq=False)
class OptionSpace:
    r"""Search space of designs, one coordinate for each parameter that varies.

    ``bounds`` (``2 x d``) are those of the features of the model, and ``constraints``
    :math:`A x \le b` (``m x d`` and ``m``) those of features or, where a coordinate has
    them, of its numbers. ``rows`` (``N x d``) has the features of all designs where
    these are the rows of a table.
    """

    coordinates: tuple[Coordinate, ...]
    bounds: Tensor
    constraints: tuple[Tensor, Tensor] | None = None
    rows: Tensor | None = None

    @property
    def is_box(self) -> bool:
        """Whether all numbers within the bounds are designs."""
        stepped = any(c.table is not None for c in self.coordinates)
        return not stepped and self.constraints is None and self.rows is None

    def allows(self, points: Tensor) -> Tensor:
        """Truth of all constraints at points ``N x d``, up to rounding."""
        if self.coordinate_constraints is None:
            return torch.ones(len(points), dtype=torch.bool)
        A, b = self.coordinate_constraints
        return (self.coordinates_of(points) @ A.T <= b + 1e-8).all(-1)

    def designs(self, size: int = 1) -> Tensor | None:
        """All designs, ``N x d``: rows of a table, or others if they are few.

        There are up to `MAX_DESIGNS` for all of ``size`` options of a question.
        """
        if self.rows is not None:
            return self.rows[self.allows(self.rows)]
        counts = [0 if c.table is None else len(c.table) for c in self.coordinates]
        if 0 in counts or size * prod(counts) > MAX_DESIGNS:
            return None
        values = [self.values(i) for i in range(len(counts))]
        points = self.features(torch.cartesian_prod(*values).view(-1, len(counts)))
        return points[self.allows(points)]

    def values(self, place: int) -> Tensor:
        """All values of a coordinate that is not continuous, in order."""
        coordinate = self.coordinates[place]
        assert coordinate.table is not None
        if coordinate.is_category:
            return torch.arange(len(coordinate.table)).double()
        numbers = coordinate.numbers
        return (coordinate.table[:, 0] if numbers is None else numbers).sort().values

    def features(self, X: Tensor) -> Tensor:
        """Features of designs, ``... x d``, by their coordinates, ``... x c``.

        Categories are places in their tables. Whole numbers of many values are rounded,
        with derivatives as if they were not.
        """
        parts = []
        for number, coordinate in zip(X.unbind(-1), self.coordinates, strict=True):
            if coordinate.is_category:
                assert coordinate.table is not None
                parts.append(coordinate.table[number.round().long()].to(X))
            else:
                # Straight through: the derivative is that of the number.
                off = (coordinate.feature(number) - number).detach()
                parts.append((number + off).unsqueeze(-1))
        order = [column for c in self.coordinates for column in c.columns]
        return torch.cat(parts, dim=-1)[..., torch.tensor(order).argsort()]

    def coordinates_of(self, features: Tensor) -> Tensor:
        """Coordinates of designs by their features; of categories they mean nothing."""
        parts = [c.number(features[..., c.columns[0]]) for c in self.coordinates]
        return torch.stack(parts, dim=-1)

    def near(self, point: Tensor, num_designs: int, seed: int) -> Tensor:
        """Designs around one, ``1 x d``, that satisfy constraints: see `near_points`.

        Numbers and ordered values move by shares of their range, categories stay.
        """
        moved = near_points(point, self.bounds, num_designs, seed)
        for coordinate in self.coordinates:
            columns = coordinate.columns
            if coordinate.is_category:
                moved[:, columns] = point[:, columns]
            else:
                moved[:, columns[0]] = coordinate.rounded(moved[:, columns[0]])
        return moved[self.allows(moved)]

    def sample_near(self, point: Tensor, num_designs: int) -> Tensor:
        """Designs of which half are anywhere and half are around one, and that one.

        All designs where these are fewer, and of more rows of a table the nearest.
        In a space with categories there are few where constraints leave little room.
        """
        designs = self.designs()
        if designs is not None:
            order = torch.cdist(point.to(designs), designs).squeeze(0).argsort()
            near, others = order.tensor_split([num_designs // 2])
            anywhere = others[torch.randperm(len(others))[: num_designs - len(near)]]
            return designs[torch.cat([near, anywhere])].to(point)
        half, seed = num_designs // 2, int(torch.randint(2**31, ()))
        frame, has_categories = self.frame, any(c.is_category for c in self.coordinates)
        if frame is None or has_categories:
            drawn = draw_sobol_samples(self.coordinate_bounds, half, 1).squeeze(-2)
            near = self.near(point, num_designs - half, seed)
        else:
            drawn, others = frame.mixtures(num_designs).tensor_split([half])
            share = torch.rand(len(others), 1).to(others) ** 3
            here = self.coordinates_of(point.to(others))
            near = self.features(torch.lerp(here, others, share)).to(point)
        designs = torch.cat([self.features(drawn).to(point), near])
        return torch.cat([designs[self.allows(designs)], point])

    @cached_property
    def coordinate_bounds(self) -> Tensor:
        """``2 x c``."""
        bounds = self.coordinates_of(self.bounds).clone()
        for i, coordinate in enumerate(self.coordinates):
            if coordinate.is_category:
                bounds[:, i] = self.values(i)[[0, -1]].to(bounds)
        return bounds

    @cached_property
    def coordinate_constraints(self) -> tuple[Tensor, Tensor] | None:
        """The constraints of coordinates: none of them is about a category."""
        if self.constraints is None:
            return None
        A, b = self.constraints
        return A[:, [c.columns[0] for c in self.coordinates]], b

    @cached_property
    def frame(self) -> Frame | None:
        """Frame of a thin or flat polytope, in which starts are not found by trying."""
        if self.coordinate_constraints is None:
            return None
        return Frame.of_thin(*self.coordinate_constraints, self.coordinate_bounds)


def option_space(
    search_space: SearchSpace,
    transforms: Sequence[Transform],
    columns: list[str],
    rows_of_table: Tensor | None = None,
) -> OptionSpace:
    """The search space of features that Ax's transforms make, whose names are columns.

    ``rows_of_table`` are the features of all designs, where there is a table of them.
    """
    place = {column: i for i, column in enumerate(columns)}
    found = []
    for name, parameter in search_space.tunable_parameters.items():
        continuous = not few_values(parameter, _MAX_VALUES)
        # Of a continuous one any number does.
        lowest: Any = getattr(parameter, "lower", None)
        values = [lowest] if continuous else all_values(parameter)
        designs = [ObservationFeatures(parameters={name: value}) for value in values]
        for transform in transforms:
            designs = transform.transform_observation_features(designs)
        at = sorted(place[column] for column in designs[0].parameters)
        rows: Any = [[each.parameters[columns[i]] for i in at] for each in designs]
        table = torch.tensor(rows, dtype=torch.float64)
        numbers = None
        if name in constrained_names(search_space) and not continuous:
            (lower, upper), given = _ends(parameter), torch.tensor(values).double()
            shares = (given - lower) / (upper - lower)
            numbers = None if torch.allclose(shares, table[:, 0]) else shares
        found.append(Coordinate(at, None if continuous else table, numbers))
    transformed = search_space.clone()
    for transform in transforms:
        transformed = transform.transform_search_space(transformed)
    bounds = extract_search_space_digest(transformed, columns).bounds
    limits = search_space.parameter_constraints
    A = torch.zeros(len(limits), len(columns), dtype=torch.float64)
    b = torch.tensor([limit.bound for limit in limits], dtype=torch.float64)
    for i, limit in enumerate(limits):
        for name, weight in limit.constraint_dict.items():
            lower, upper = _ends(search_space.parameters[name])
            A[i, place[name]] = weight * (upper - lower)
            b[i] -= weight * lower
    return OptionSpace(
        tuple(found),
        torch.tensor(bounds, dtype=torch.float64).T,
        (A, b) if limits else None,
        rows_of_table,
    )


def _ends(parameter: Parameter) -> tuple[float, float]:
    """The smallest and the largest number of a parameter in a constraint."""
    ends = number_range(parameter)
    assert ends is not None
    return float(ends[0]), float(ends[1])


@dataclass(frozen=True)
class ToldApart:
    r"""Smallest differences, and the questions that were asked.

    Two options differ by

    .. math:: r^2(x, y) = \sum_j \Big( \frac{x_j - y_j}{w_j} \Big)^2,

    with the smallest difference :math:`w_j` of each feature; below 1 nobody can tell
    them apart. A question repeats another one where each option of either has one of
    the other that it cannot be told from. The options of a question that are chosen are
    ``batch_shape x m x d``.

    Attributes:
        widths: ``d``, the smallest differences.
        asked: ``K x s x d``, the options of earlier questions of the same size.
        pending: ``P x s x d``, those of them that are unanswered.
        reference: ``k x d``, options of the question that are there already.
        others: ``k x d``, points that an option must differ from besides.
        tied: ``K x s x d``, those of the questions whose answer was "no difference".
        times: ``K`` numbers, how often each of ``asked`` was; None for once.
    """

    widths: Tensor
    asked: Tensor
    pending: Tensor
    reference: Tensor | None = None
    others: Tensor | None = None
    tied: Tensor | None = None
    times: Tensor | None = None

    def smallest_gap(self, options: Tensor) -> Tensor:
        """Squared difference of the two options that differ least, ``batch_shape``."""
        whole = with_others(options, self.reference, self.others)
        squared = self._squared(options, whole)
        own = torch.eye(*squared.shape[-2:], dtype=torch.bool, device=options.device)
        return squared.masked_fill(own, torch.inf).flatten(-2).amin(-1)

    def times_asked(self, options: Tensor) -> Tensor:
        """Number of earlier questions that a question repeats, ``batch_shape``."""
        repeated = (~can_be_told(self._gaps(options, self.asked))).double()
        return repeated.sum(-1) if self.times is None else repeated @ self.times

    def is_pending(self, options: Tensor) -> Tensor:
        """Whether a question repeats one that is not answered yet, ``batch_shape``."""
        return (~can_be_told(self._gaps(options, self.pending))).any(-1)

    def novelty(self, options: Tensor) -> Tensor:
        """Squared difference from the earlier question that is most alike."""
        return self._smallest(options, self.asked)

    def difference_from_ties(self, options: Tensor) -> Tensor:
        """Squared difference from the tied question that is most alike."""
        return self._smallest(
            options, self.asked[:0] if self.tied is None else self.tied
        )

    def _smallest(self, options: Tensor, questions: Tensor) -> Tensor:
        """Least of the squared differences from questions; infinite without any."""
        gaps = self._gaps(options, questions)
        return torch.nn.functional.pad(gaps, (0, 1), value=torch.inf).amin(-1)

    def _gaps(self, options: Tensor, questions: Tensor) -> Tensor:
        """Squared differences from questions, ``batch_shape x K``."""
        whole = with_others(options, self.reference)
        squared = self._squared(whole, questions.flatten(0, 1))
        matched = squared.unflatten(-1, questions.shape[:2])
        there, back = matched.amin(-1).amax(-2), matched.amin(-3).amax(-1)
        return torch.maximum(there, back)

    def _squared(self, first: Tensor, second: Tensor) -> Tensor:
        """Squared differences of all pairs, ``batch_shape x n x k``."""
        # Differences of all features at once would fill the memory.
        pair = first / self.widths, second / self.widths
        return torch.cdist(*pair, compute_mode=_EXACT).square()


def can_be_told(squared: Tensor) -> Tensor:
    """Whether squared differences are at least 1, up to rounding."""
    return squared >= 1 - 1e-6


_EXACT = "donot_use_mm_for_euclid_dist"
"""Distances from differences, not from products, in which small ones are rounded."""

_MARGIN = 1.25
"""The price begins here, in smallest differences, so that the best options above it
differ by one."""

_TIE_REACH, _TIE_PRICE = 10.0, 0.1
"""How many smallest differences from a tie questions are worth less, and by how much of
the price."""


class QuestionValue(WrappedAcquisition):
    r"""Value of the options of a question, found by their coordinates.

    .. math:: \alpha(x) - 2 c \, \bigg(
        \Big( \frac{(1.25^2 - r^2)_+}{1.25^2 - 1} \Big)^2
        + \frac{1}{10} \Big( 1 - \frac{t^2}{10^2} \Big)_+^2 \bigg)

    with the acquisition function :math:`\alpha`, the squared difference :math:`r^2` of
    options that differ least or from the question that was asked, that :math:`t^2` from
    the question in which a person saw no difference (see `ToldApart`), and the spread
    :math:`c` of the values of ``draws``: a question whose options nobody could tell
    apart (:math:`r < 1`) is worth less than one drawn at random, and a smooth slope
    leads out of there. Of questions worth about as much, one unlike a tie is asked.

    The acquisition function values options, ``batch_shape x q x d``, which ``features``
    makes of coordinates. ``draws`` are some questions, ``b x q x d``.
    """

    def __init__(
        self,
        acquisition: AcquisitionFunction,
        features: Callable[[Tensor], Tensor],
        apart: ToldApart | None,
        draws: Tensor,
    ) -> None:
        super().__init__(acquisition)
        self._features = features
        self._apart = apart
        self._price = 0.0 if apart is None else 2 * self._spread(draws, apart)

    def forward(self, X: Tensor) -> Tensor:
        """Values less prices, ``b``, of coordinates."""
        options = self._features(X)
        value: Tensor = self.acquisition(options)
        if self._apart is None:
            return value
        apart = replace(self._apart, others=self.X_pending)
        gap = torch.minimum(apart.smallest_gap(options), apart.novelty(options))
        same = nearness(gap, free=_MARGIN**2, full=1.0)
        like_a_tie = nearness(apart.difference_from_ties(options), free=_TIE_REACH**2)
        return value - self._price * (same + _TIE_PRICE * like_a_tie)

    @property
    def optimizer_options(self) -> dict[str, Any]:
        """See `options_of_search`; none where nothing keeps options apart."""
        return options_of_search(self._price) if self._price else {}

    @property
    def constrained_options(self) -> dict[str, float]:
        """The same of SciPy's method of searches under constraints."""
        return {"ftol": negligible_gain(self._price)} if self._price else {}

    def _spread(self, draws: Tensor, apart: ToldApart) -> float:
        """Distance of the largest value from that of a middling question."""
        alike = draws.clone()
        alike[..., -1:, :] = (
            draws[..., :1, :] if apart.reference is None else apart.reference[:1]
        )
        with torch.no_grad():
            values = self.acquisition(draws)
            largest = torch.cat([values, self.acquisition(alike)]).nan_to_num().max()
            spread = largest - values.nan_to_num().median()
        return max(float(spread), 1e-6)


def is_joint(acquisition: AcquisitionFunction) -> bool:
    """Whether an acquisition function chooses all challengers at once."""
    return bool(getattr(acquisition, "chosen_jointly", False))


class NotedQuestions(WrappedAcquisition):
    """Acquisition function that notes the questions that a search values.

    Args:
        acquisition: Values options, ``batch_shape x q x d``.
    """

    def __init__(self, acquisition: AcquisitionFunction) -> None:
        super().__init__(acquisition)
        self._notes: list[tuple[Tensor, Tensor]] = []

    @property
    def chosen_jointly(self) -> bool:
        """See `is_joint`."""
        return is_joint(self.acquisition)

    def forward(self, X: Tensor) -> Tensor:
        """Values of the acquisition function."""
        values: Tensor = self.acquisition(X)
        self._notes.append((X.detach(), values.detach()))
        return values

    def different(self, question: Tensor, count: int, apart: ToldApart) -> Tensor:
        """Questions that are worth nearly as much as one, and differ most.

        Each is the one that differs most from those before it, of all that are worth
        as much as the ``question`` (``q x d``) but for a share of the spread of values.

        Returns:
            ``k x q x d``, of up to ``count`` with the question, which is the first.
        """
        alike = [note for note in self._notes if note[0].shape[-2:] == question.shape]
        options = torch.cat([X.reshape(-1, *question.shape) for X, _ in alike])
        values = torch.cat([value.flatten() for _, value in alike])
        with torch.no_grad():
            best = self.acquisition(question.unsqueeze(0))
        middle = values.nan_to_num(-torch.inf).median()
        worthy = values >= best - _NEARLY_AS_MUCH * (best - middle)
        options = options[worthy & can_be_told(apart.smallest_gap(options))]
        options = options[can_be_told(apart.novelty(options))]
        found = [question]
        gaps = options.new_full(options.shape[:1], torch.inf)
        while len(found) < count and len(options):
            last = found[-1]
            if apart.reference is not None:
                last = torch.cat([last, apart.reference])
            asked = replace(apart, asked=last.unsqueeze(0), times=None)
            gaps = torch.minimum(gaps, asked.novelty(options))
            farthest = int(gaps.argmax())
            if not can_be_told(gaps[farthest]):
                break
            found.append(options[farthest])
        return torch.stack(found)


_NEARLY_AS_MUCH = 0.25
"""Share of the spread, from a middling question to the best, by which others that are
asked at the same time may be worth less."""

_MAX_STEPS, _DRAWS = 20, 256
"""Values of whole numbers that are tried one by one, and questions by which the spread
of the acquisition function is measured."""

_RESTARTS, _TURNS = 8, 4
"""Starts of searches that cannot take all of their starts side by side, and turns
between steps and continuous coordinates: 64, as in BoTorch, find values that are larger
by a five-hundredth in twice the time."""

_SMALL = 4
"""Options of a small question: of more, searches have fewer starts and turns."""


@dataclass(frozen=True, eq=False)
class QuestionSearch:
    """Search for the options of a question.

    ``rounding`` makes features those that are shown; ``options`` are `optimize_acqf`'s.
    Where the question ``is_large``, it is searched from fewer starts.
    """

    space: OptionSpace
    rounding: Callable[[Tensor], Tensor] | None
    options: dict[str, Any]
    is_large: bool = False

    def best(
        self, acquisition: AcquisitionFunction, size: int, apart: ToldApart | None
    ) -> Tensor:
        """The options with the largest value, ``size x d``, as features.

        Challengers of a reference are chosen one after the other unless the acquisition
        function says ``chosen_jointly``, and all options of a question without one
        jointly. Without ``apart`` one design is sought.
        """
        if size > _SMALL and not self.is_large:
            return replace(self, is_large=True).best(acquisition, size, apart)
        alone = not is_joint(acquisition)
        if alone and size > 1 and apart is not None and apart.reference is not None:
            return self._one_by_one(acquisition, size, apart, apart.reference)
        designs = self.space.designs(size)
        if designs is not None and apart is not None:
            return best_of_designs(acquisition, designs, size, apart)
        if designs is not None:
            found, _ = optimize_acqf_discrete(acquisition, size, designs)
            return found
        found = self._searched(acquisition, size, apart)
        if apart is not None and not can_be_told(apart.novelty(found)):
            # All that is worth asking was asked: again, then.
            apart = replace(apart, asked=apart.pending, times=None)
            found = self._searched(acquisition, size, apart)
        return found

    def several(
        self,
        acquisition: AcquisitionFunction,
        size: int,
        apart: ToldApart | None,
        count: int,
    ) -> Tensor:
        """The `best` question and others for other people, up to ``count x size x d``.

        One search finds all of them, see `NotedQuestions`; where challengers of a
        reference are chosen one after the other, and without ``apart``, it finds one.
        """
        alone = size > 1 and not is_joint(acquisition)
        if count == 1 or apart is None or (alone and apart.reference is not None):
            return self.best(acquisition, size, apart).unsqueeze(0)
        noted = NotedQuestions(acquisition)
        return noted.different(self.best(noted, size, apart), count, apart)

    def _one_by_one(
        self,
        acquisition: AcquisitionFunction,
        size: int,
        apart: ToldApart,
        reference: Tensor,
    ) -> Tensor:
        pending = getattr(acquisition, "X_pending", None)
        chosen = waiting = reference[:0] if pending is None else pending
        for _ in range(size):
            there = torch.cat([reference, chosen[len(waiting) :]])
            option = self.best(acquisition, 1, replace(apart, reference=there))
            chosen = torch.cat([chosen, option])
            acquisition.set_X_pending(chosen)
        acquisition.set_X_pending(pending)
        return chosen[len(waiting) :]

    def _searched(
        self, acquisition: AcquisitionFunction, size: int, apart: ToldApart | None
    ) -> Tensor:
        space, limits = self.space, self.space.coordinate_constraints
        draws = draw_sobol_samples(space.coordinate_bounds, _DRAWS, size)
        draws = space.features(draws)

        def is_stepped(place: int) -> bool:
            # Whole numbers of many values are rounded, unless that breaks constraints.
            coordinate = space.coordinates[place]
            if coordinate.table is None or coordinate.is_category:
                return coordinate.is_category
            constrained = limits is not None and bool(limits[0][:, place].any())
            return constrained or len(coordinate.table) <= _MAX_STEPS

        steps = [*filter(is_stepped, range(len(space.coordinates)))]
        if steps:
            return self._mixed(acquisition, size, apart, draws, steps)
        return self._continuous(acquisition, size, apart, draws)

    def _continuous(
        self,
        acquisition: AcquisitionFunction,
        size: int,
        apart: ToldApart | None,
        draws: Tensor,
    ) -> Tensor:
        """The best options by coordinates, in a thin polytope those of its frame."""
        space, frame = self.space, self.space.frame
        bounds, limits = space.coordinate_bounds, space.coordinate_constraints
        options = {"sequential": False, **self._few_starts(size), **self.options}
        if frame is not None:
            bounds, limits = frame.bounds, frame.inequalities
            options |= {"sequential": False, "generator": frame.starts}
        if bounds.shape[-1] == 0:
            raise CandidateGenerationError("Constraints leave one design and no other.")

        def features(W: Tensor) -> Tensor:
            return space.features(W if frame is None else frame.points(W))

        def shown(W: Tensor) -> Tensor:
            found = features(W)
            found = found if self.rounding is None else self.rounding(found)
            found = space.coordinates_of(found)
            return found if frame is None else frame.coordinates(found)

        value = QuestionValue(acquisition, features, apart, draws)
        known = options.get("options", {})
        if limits is None:
            options["options"] = {**value.optimizer_options, **known}
        else:
            # BoTorch calls another method of SciPy's.
            options.setdefault("num_restarts", _RESTARTS)
            options["options"] = {**value.constrained_options, **known}
            # BoTorch's own starts are those of a random walk.
            options.setdefault("generator", _allowed_draws(bounds, *limits))
        given = optimizer_argparse(
            value, optimizer="optimize_acqf", optimizer_options=options
        )
        if limits is not None:
            # Ax has five starts at a time of as many as are searched one by one.
            names = "batch_limit", "max_optimization_problem_aggregation_size"
            given["options"] |= dict.fromkeys(names, given["num_restarts"])
        given |= {"q": size, "inequality_constraints": _for_botorch(limits)}
        found, _ = optimize_acqf(value, bounds, post_processing_func=shown, **given)
        return features(found)

    def _mixed(
        self,
        acquisition: AcquisitionFunction,
        size: int,
        apart: ToldApart | None,
        draws: Tensor,
        steps: list[int],
    ) -> Tensor:
        """The best options, side by side, where coordinates are tried by values."""
        space, num = self.space, len(self.space.coordinates)
        given = {**self._few_starts(size), **self.options}
        discrete: dict[int, list[float]] = {}
        categories: dict[int, list[float]] = {}
        for i in steps:
            tried = categories if space.coordinates[i].is_category else discrete
            for option in range(size):
                tried[option * num + i] = space.values(i).tolist()

        def features(X: Tensor) -> Tensor:
            return space.features(X.squeeze(-2).unflatten(-1, (size, num)))

        limits, restarts = space.coordinate_constraints, _RESTARTS
        if limits is not None:
            A, b = limits
            limits = torch.block_diag(*[A] * size), b.repeat(size)
            # Climbed one after the other: the other half gains two hundredths.
            restarts //= 2
        with warnings.catch_warnings():
            # Under constraints BoTorch gives SciPy an option of another method.
            warnings.filterwarnings("ignore", "Unknown solver options: tol")
            # A step that starts where it could end finds nothing better.
            warnings.filterwarnings("ignore", "Optimization failed", RuntimeWarning)
            found, _ = optimize_acqf_mixed_alternating(
                QuestionValue(acquisition, features, apart, draws),
                space.coordinate_bounds.repeat(1, size),
                discrete_dims=discrete,
                cat_dims=categories,
                inequality_constraints=_for_botorch(limits),
                num_restarts=given.get("num_restarts", restarts),
                raw_samples=given.get("raw_samples", 512),
                options=self._mixed_options(size),
            )
        return features(found.unsqueeze(0)).squeeze(0)

    def _few_starts(self, size: int) -> dict[str, int]:
        """Starts of a large question: more of them find nothing better."""
        restarts = 2 if size == 1 else 1
        return {"num_restarts": restarts, "raw_samples": 256} if self.is_large else {}

    def _mixed_options(self, size: int) -> dict[str, Any]:
        """Options of BoTorch's optimiser that the mixed one has too."""
        given = self.options.get("options", {})
        names = {"maxiter": "maxiter_continuous"}
        names |= {name: name for name in ("batch_limit", "init_batch_limit")}
        return {
            # Starts come from draws: relaxed categories mean nothing.
            "initialization_strategy": "random",
            "num_spray_points": 0,
            # Those of more steps are rounded before this optimiser sees them.
            "max_discrete_values": 1_000,
            # For one of many options further turns gain next to nothing.
            "maxiter_alternating": 1 if self.is_large and size == 1 else _TURNS,
            **{names[name]: v for name, v in given.items() if name in names},
        }


def _allowed_draws(
    bounds: Tensor, A: Tensor, b: Tensor
) -> Callable[[int, int, int | None], Tensor]:
    """Points of Sobol sequences that satisfy constraints, as `optimize_acqf` asks.

    They are found by trying: fewer than one in a hundred satisfy those that have a
    `Frame` instead.
    """

    def draws(n: int, q: int, seed: int | None) -> Tensor:
        first = int(torch.randint(2**20, ())) if seed is None else seed
        found = bounds[:0]
        while len(found) < n * q:
            # Another sequence each time.
            points = draw_sobol_samples(bounds, 4 * n * q, 1, seed=first).squeeze(-2)
            found = torch.cat([found, points[(points @ A.T <= b).all(-1)]])
            first += 1
        return found[: n * q].unflatten(0, (n, q))

    return draws


def _for_botorch(
    limits: tuple[Tensor, Tensor] | None,
) -> list[tuple[Tensor, Tensor, float]] | None:
    """Constraints ``A x <= b`` as BoTorch has them: indices, coefficients, a least."""
    if limits is None:
        return None
    pairs = zip(*limits, strict=True)
    return [(row.nonzero().flatten(), -row[row != 0], -float(b)) for row, b in pairs]


MAX_QUESTIONS = 20_000
"""Up to so many questions are valued one by one; of more, neighbours are searched."""

_HOPELESS = 0.005
"""Probability below which nobody need ask whether a design is better than the best.
Models of few answers are often too sure of themselves."""

_CHUNK = 2_048
_EVALUATIONS, _STARTS, _RESTARTS = 30_000, 1_024, 8

_PROMISING = 2_000
"""Designs among which options are exchanged first, those likeliest to be the better."""


def best_of_designs(
    acquisition: AcquisitionFunction, designs: Tensor, size: int, apart: ToldApart
) -> Tensor:
    """The most valuable question that was not asked, as long as one is worth asking.

    A question is worth asking if one of its options is better than the reference, or
    the incumbent, with a probability of 0.005 or more. When all of them were asked,
    those that were asked least often count, then the others. The ``size`` options
    (``size x d``) are chosen jointly of the designs, ``N x d``.
    """
    reference = apart.reference
    if reference is None:
        reference = incumbent(acquisition.model).reshape(-1, designs.shape[-1])
    reference = reference[:1]
    chance = _by_chunks(
        lambda chunk: better_probability(acquisition.model, chunk, reference), designs
    )
    hopeful = chance >= _HOPELESS
    hopeful &= (designs != reference).any(-1)

    def rank(places: Tensor) -> Tensor:
        """Place of a question in the order of asking; infinite if not at all."""
        options = designs[places]
        allowed = can_be_told(apart.smallest_gap(options)) & ~apart.is_pending(options)
        asked = apart.times_asked(options)
        most = len(apart.asked) if apart.times is None else float(apart.times.sum())
        late = asked + (most + 1) * ~hopeful[places].any(-1)
        return torch.where(allowed, late, torch.inf)

    if comb(len(designs), size) > MAX_QUESTIONS:
        promising = chance.argsort(descending=True)[:_PROMISING]
        return designs[_by_exchange(acquisition, designs, size, rank, promising)]
    places = torch.tensor([*combinations(range(len(designs)), size)]).view(-1, size)
    ranks = _by_chunks(rank, places)
    first = min(ranks.tolist(), default=torch.inf)
    if first == torch.inf:
        raise CandidateGenerationError("No question is left to ask about designs.")
    places = places[ranks == first]
    values = _by_chunks(lambda chunk: acquisition(designs[chunk]), places)
    return designs[places[values.argmax()]]


def _by_exchange(
    acquisition: AcquisitionFunction,
    designs: Tensor,
    size: int,
    rank: Callable[[Tensor], Tensor],
    promising: Tensor,
) -> Tensor:
    """The most valuable question that is found by exchanging one option at a time.

    First for ``promising`` designs, places of some, then for any.
    """

    def valued(places: Tensor, last: float) -> Tensor:
        ranks = _by_chunks(rank, places)
        values = _by_chunks(lambda chunk: acquisition(designs[chunk]), places)
        allowed = (ranks <= last) & (ranks < torch.inf)
        return torch.where(allowed, values, -torch.inf)

    def exchanged(
        value: float, places: Tensor, last: float, among: Tensor
    ) -> tuple[float, Tensor]:
        """The end of exchanges, option after option, where none is worth more."""
        turn, kept = 0, 0
        while kept < size:
            others = places.repeat(len(among), 1)
            others[:, turn] = among
            values = valued(others, last)
            best = int(values.argmax())
            if values[best] > value:
                value, places, kept = float(values[best]), others[best], 0
            turn, kept = (turn + 1) % size, kept + 1
        return value, places

    draws = _distinct_draws(_STARTS, len(designs), size)
    # Most ends are reached in two turns of each option.
    restarts = min(max(_EVALUATIONS // (2 * len(designs) * size), 1), _RESTARTS)
    stages = [torch.arange(len(designs))]
    if len(promising) < len(designs):
        stages.insert(0, promising)
    for last in (0.0, torch.inf):
        values, best = valued(draws, last).topk(restarts)
        ends = [*zip(values.tolist(), draws[best], strict=True)]
        for among in stages:
            ends = [exchanged(*end, last, among) for end in ends]
        value, places = max(ends, key=lambda end: end[0])
        if value > -torch.inf:
            return places
    raise CandidateGenerationError("No question was found to ask about designs.")


def _distinct_draws(number: int, population: int, size: int) -> Tensor:
    """Sets of different places, ``number x size``, each as likely (Floyd's method)."""
    drawn = torch.empty(number, 0, dtype=torch.long)
    for last in range(population - size, population):
        place = torch.randint(last + 1, (number, 1))
        taken = (drawn == place).any(-1, keepdim=True)
        drawn = torch.cat([drawn, torch.where(taken, last, place)], dim=-1)
    return drawn


def _by_chunks(function: Callable[[Tensor], Tensor], X: Tensor) -> Tensor:
    with torch.no_grad():
        return torch.cat([function(chunk) for chunk in X.split(_CHUNK)])
