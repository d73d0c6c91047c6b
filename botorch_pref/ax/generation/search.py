"""The search for the options of an experiment's question, which nobody was asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from ax.adapter.adapter_utils import extract_search_space_digest
from ax.adapter.transforms.base import Transform
from ax.core.observation import ObservationFeatures
from ax.core.parameter import Parameter
from ax.core.search_space import SearchSpace
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.exceptions.errors import CandidateGenerationError
from torch import Tensor

from botorch_pref.acquisition import incumbent
from botorch_pref.acquisition.design_space import MAX_DESIGNS, DesignSpace, Listed
from botorch_pref.acquisition.duels import better_probability, with_others
from botorch_pref.acquisition.exploring_rule import WrappedAcquisition, nearness
from botorch_pref.acquisition.option_search import (
    Climb,
    Order,
    best_of_designs,
    climbed_options,
    in_portions,
)
from botorch_pref.ax.space.constraints import constrained_names
from botorch_pref.ax.space.context import NO_CONTEXT, Context
from botorch_pref.ax.space.differences import all_values, differ, few_values
from botorch_pref.ax.space.options import number_range

_MAX_VALUES, _MAX_LISTED = 1_000, 20
"""Values of whole numbers, at most: more are as good as continuous; and of those that
are tried one by one: more are rounded, unless that breaks constraints."""


def design_space(
    search_space: SearchSpace,
    transforms: Sequence[Transform],
    columns: list[str],
    rows: Tensor | None = None,
    fixed: Context = NO_CONTEXT,
) -> DesignSpace:
    """Makes the space in which options are sought, of the features that models take.

    A category is a list of its values, and so is a number of up to 20 values, or of up
    to 1,000 where it is in a constraint. Other numbers of up to 1,000 values are
    rounded to a grid, and those of more are continuous. Constraints are ones of shares
    of ranges.

    Args:
        search_space: Of the experiment.
        transforms: Ax's transforms of designs.
        columns: The names of features.
        rows: ``N x d``, the features of all designs, where these are a table.
        fixed: Values of parameters, by name, that all designs have.
    """
    place = {column: i for i, column in enumerate(columns)}
    A, b = _limits(search_space, place, fixed)
    # Ax's transforms change a space in place.
    transformed = search_space.clone()
    for transform in transforms:
        transformed = transform.transform_search_space(transformed)
    digest = extract_search_space_digest(transformed, columns)
    bounds = torch.tensor(digest.bounds, dtype=torch.float64).T
    listed, grids = [], {}
    base = torch.zeros(len(columns), dtype=torch.float64)
    in_lists: set[int] = set()
    for name, value in fixed.items():
        indices, table = _table(name, [value], transforms, place)
        base[indices] = table[0]
        in_lists |= {*indices}
    constrained = constrained_names(search_space)
    for name, parameter in search_space.tunable_parameters.items():
        if name in fixed or not few_values(parameter, _MAX_VALUES):
            continue
        values = all_values(parameter)
        indices, table = _table(name, values, transforms, place)
        is_category = len(indices) > 1
        if is_category or name in constrained or len(values) <= _MAX_LISTED:
            # What values add to constraints, see `Listed`: shares of the range times A.
            amounts = table[:, :1] * 0.0
            if name in constrained:
                lower, upper = _ends(parameter)
                numbers = torch.tensor(values, dtype=torch.float64)
                amounts = ((numbers - lower) / (upper - lower)).unsqueeze(-1)
            listed.append(Listed(indices, table, amounts * A[:, indices[0]]))
        else:
            grids[indices[0]] = table[:, 0].sort().values
    in_lists |= {column for entry in listed for column in entry.columns}
    numbers_at = [i for i in range(len(columns)) if i not in in_lists]
    space = DesignSpace(
        base,
        torch.tensor(numbers_at, dtype=torch.long),
        bounds[:, numbers_at],
        tuple(listed),
        (A[:, numbers_at], b),
        grids=grids,
    )
    if rows is None:
        return space
    return replace(space, rows=rows[space.satisfies(space.coordinates(rows))])


def _table(
    name: str,
    values: Sequence[Any],
    transforms: Sequence[Transform],
    place: dict[str, int],
) -> tuple[list[int], Tensor]:
    """Makes the features of ``v`` values of one parameter, and finds their columns.

    Ax's transforms make them, as those of the designs that the model knows.

    Returns:
        The ``c`` columns, in order, and the features in them, ``v x c``.
    """
    designs = [ObservationFeatures(parameters={name: value}) for value in values]
    for transform in transforms:
        designs = transform.transform_observation_features(designs)
    names = sorted(designs[0].parameters, key=place.__getitem__)
    rows: Any = [[design.parameters[n] for n in names] for design in designs]
    return [place[n] for n in names], torch.tensor(rows, dtype=torch.float64)


def _limits(
    search_space: SearchSpace, place: dict[str, int], fixed: Context
) -> tuple[Tensor, Tensor]:
    r"""Makes ``A``, ``m x d``, and ``b``, ``m``, of constraints on shares of ranges.

    Ax's :math:`w^\top x \le c` becomes :math:`A z \ge b`, with each parameter
    :math:`x = l + (u - l) z` from :math:`l` to :math:`u`. Terms of what is ``fixed``
    are in ``b``. ``place`` has the column of each feature.
    """
    limits = search_space.parameter_constraints
    A = torch.zeros(len(limits), len(place), dtype=torch.float64)
    b = torch.tensor([-limit.bound for limit in limits], dtype=torch.float64)
    for i, limit in enumerate(limits):
        for name, weight in limit.constraint_dict.items():
            if name in fixed:
                b[i] += weight * fixed[name]
                continue
            lower, upper = _ends(search_space.parameters[name])
            A[i, place[name]] = -weight * (upper - lower)
            b[i] += weight * lower
    return A, b


def _ends(parameter: Parameter) -> tuple[float, float]:
    """Finds the smallest and the largest number of a parameter in a constraint."""
    ends = number_range(parameter)
    assert ends is not None
    return float(ends[0]), float(ends[1])


@dataclass(frozen=True)
class Distinctness:
    r"""Smallest differences, and the questions that were asked.

    Two options differ by

    .. math:: r^2(x, y) = \sum_j \Big( \frac{x_j - y_j}{w_j} \Big)^2,

    with the smallest difference :math:`w_j` of each feature; below 1 nobody can tell
    them apart. A question repeats another one where each option of either has one of
    the other that it cannot be told from. The options of a question that are chosen are
    ``batch_shape x m x d``.

    Attributes:
        widths: ``d``, the smallest differences.
        questions: ``K x s x d``, the options of earlier questions of the same size.
        pending: ``P x s x d``, those of them that are unanswered.
        reference: ``k x d``, options of the question that are there already.
        rivals: ``k x d``, points that an option must differ from besides.
        tied: ``K x s x d``, those of the questions whose answer was "no difference".
        times: ``K`` numbers, how often each of the questions was; None for once.
    """

    widths: Tensor
    questions: Tensor
    pending: Tensor
    reference: Tensor | None = None
    rivals: Tensor | None = None
    tied: Tensor | None = None
    times: Tensor | None = None

    def smallest_gap(self, options: Tensor) -> Tensor:
        """Squares the difference of the two most alike options of a question.

        From 1 on people can tell them apart. Options, ``batch_shape x m x d``, are
        compared with each other, with the question's reference and with rivals.
        """
        points = with_others(options, self.reference, self.rivals)
        squared = self._squared(options, points)
        # The first of the points are the options.
        itself = torch.eye(*squared.shape[-2:], dtype=torch.bool, device=options.device)
        return squared.masked_fill(itself, torch.inf).flatten(-2).amin(-1)

    def repetitions(self, options: Tensor) -> Tensor:
        """Counts how often a question was asked before, ``batch_shape``.

        A question was asked where nobody can tell its options from those of an earlier
        one, see `_gaps`; each earlier question counts as often as ``times`` says.
        """
        repeated = (~differ(self._gaps(options, self.questions))).double()
        return repeated.sum(-1) if self.times is None else repeated @ self.times

    def is_pending(self, options: Tensor) -> Tensor:
        """Tells whether a question repeats an unanswered one, ``batch_shape``."""
        return (~differ(self._gaps(options, self.pending))).any(-1)

    def novelty(self, options: Tensor) -> Tensor:
        """Squares the difference from the earlier question that is most alike."""
        return self._smallest(options, self.questions)

    def difference_from_ties(self, options: Tensor) -> Tensor:
        """Squares the difference from the tied question that is most alike."""
        return self._smallest(
            options, self.questions[:0] if self.tied is None else self.tied
        )

    def _smallest(self, options: Tensor, questions: Tensor) -> Tensor:
        """Squares the least difference from questions; infinite without any."""
        gaps = self._gaps(options, questions)
        return torch.nn.functional.pad(gaps, (0, 1), value=torch.inf).amin(-1)

    def _gaps(self, options: Tensor, questions: Tensor) -> Tensor:
        """Squares the differences of a question from ``K`` others, ``batch_shape x K``.

        Two questions differ by Hausdorff's distance, the largest from an option of
        either to the nearest of the other. Below 1 they look the same, in any order.
        """
        points = with_others(options, self.reference)
        squared = self._squared(points, questions.flatten(0, 1))
        matched = squared.unflatten(-1, questions.shape[:2])
        forth, back = matched.amin(-1).amax(-2), matched.amin(-3).amax(-1)
        return torch.maximum(forth, back)

    def _squared(self, first: Tensor, second: Tensor) -> Tensor:
        """Squares differences of all pairs, ``batch_shape x n x k``."""
        # Differences of all features at once would fill the memory.
        pair = first / self.widths, second / self.widths
        return torch.cdist(*pair, compute_mode=_EXACT).square()


_EXACT = "donot_use_mm_for_euclid_dist"
"""Distances from differences, not from products, in which small ones are rounded."""

_MARGIN = 1.25
"""The price begins here, in smallest differences, so that the best options above it
differ by one."""

_TIE_REACH, _TIE_PRICE = 10.0, 0.1
"""The number of smallest differences from a tie up to which questions are worth less,
and by how much of the price."""


class QuestionValue(WrappedAcquisition):
    r"""Value of the options of a question.

    .. math:: \alpha(x) - 2 c \, \bigg(
        \Big( \frac{(1.25^2 - r^2)_+}{1.25^2 - 1} \Big)^2
        + \frac{1}{10} \Big( 1 - \frac{t^2}{10^2} \Big)_+^2 \bigg)

    with the acquisition function :math:`\alpha`, the squared difference :math:`r^2` of
    options that differ least or from the question that was asked, that :math:`t^2` from
    the question in which a person saw no difference (see `Distinctness`), and the
    spread :math:`c` of the values of ``draws``: a question whose options nobody could
    tell apart (:math:`r < 1`) is worth less than one drawn at random, and a smooth
    slope leads out of there. Of questions worth about as much, one unlike a tie is
    asked.

    The acquisition function values options, ``batch_shape x q x d``; ``draws`` are some
    questions, ``b x q x d``.
    """

    def __init__(
        self, acquisition: AcquisitionFunction, apart: Distinctness, draws: Tensor
    ) -> None:
        """Sets the price of options that nobody can tell apart, by random questions."""
        super().__init__(acquisition)
        self._apart = apart
        # One spread would leave the best of them worth as much as a middling question.
        self._price = 2 * self._spread(draws, apart)

    def forward(self, X: Tensor) -> Tensor:
        """Values questions, ``b x q x d``, less their prices, ``b``.

        The price is full where options, pending ones too, look the same or the question
        was asked before; up to a tenth of it is added near a question that was a tie.
        """
        value: Tensor = self.acquisition(X)
        apart = replace(self._apart, rivals=self.X_pending)
        gap = torch.minimum(apart.smallest_gap(X), apart.novelty(X))
        close = nearness(gap, free=_MARGIN**2, full=1.0)
        like_a_tie = nearness(apart.difference_from_ties(X), free=_TIE_REACH**2)
        return value - self._price * (close + _TIE_PRICE * like_a_tie)

    def _spread(self, draws: Tensor, apart: Distinctness) -> float:
        """Measures how far the largest value is from that of a middling question.

        The price is made of it. The largest is also that of ``draws`` whose last option
        is made equal to the first or the reference: some functions value these most.
        """
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
    """Tells whether an acquisition function chooses all challengers at once."""
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
        """Values options, and notes both for `different`."""
        values: Tensor = self.acquisition(X)
        self._notes.append((X.detach(), values.detach()))
        return values

    def different(self, question: Tensor, count: int, apart: Distinctness) -> Tensor:
        """Picks questions for other people, unlike the ``question`` and each other.

        Each is the one that differs most from those before it, of all that a search has
        valued here. Against its result, the ``question`` (``q x d``), they lose at most
        a quarter of what a middling question loses.

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
        options = options[worthy & differ(apart.smallest_gap(options))]
        options = options[differ(apart.novelty(options))]
        questions = [question]
        gaps = options.new_full(options.shape[:1], torch.inf)
        while len(questions) < count and len(options):
            last = questions[-1]
            if apart.reference is not None:
                # `novelty` adds it to the options, so that both questions have it.
                last = torch.cat([last, apart.reference])
            from_last = replace(apart, questions=last.unsqueeze(0), times=None)
            gaps = torch.minimum(gaps, from_last.novelty(options))
            farthest = int(gaps.argmax())
            if not differ(gaps[farthest]):
                break
            questions.append(options[farthest])
        return torch.stack(questions)


_NEARLY_AS_MUCH = 0.25
"""Share of the spread, from a middling question to the best, by which others that are
asked at the same time may be worth less."""

_DRAWS = 256
"""Questions by which the spread of the acquisition function is measured."""

_SMALL = 4
"""Options of a small question: of more, searches have fewer starts."""

_HOPELESS = 0.005
"""Probability below which nobody need ask whether a design is better than the best.
Models of few answers are often too sure of themselves."""

_PROMISING = 2_000
"""Designs among which options are exchanged first, those likeliest to be the better."""


@dataclass(frozen=True, eq=False)
class QuestionSearch:
    """Search for the options of a question.

    Attributes:
        space: The designs that options may be.
        centres: ``n x d``, designs around which half of the starts are.
        climb: How the search climbs, of questions of four options or fewer.
    """

    space: DesignSpace
    centres: Tensor
    climb: Climb

    def best(
        self, acquisition: AcquisitionFunction, size: int, apart: Distinctness | None
    ) -> Tensor:
        """Finds the options with the largest value, ``size x d``, as features.

        Challengers of a reference are chosen one after the other unless the acquisition
        function says ``chosen_jointly``, and all options of a question without one
        jointly. Without ``apart`` one design is sought.
        """
        separate = size > 1 and not is_joint(acquisition)
        search = self
        if size > _SMALL:
            # More starts of a large question find nothing better.
            restarts = 2 if separate else 1
            climb = replace(self.climb, num_restarts=restarts, raw_samples=256)
            search = replace(self, climb=climb)
        if separate and apart is not None and apart.reference is not None:
            return search._one_by_one(acquisition, size, apart, apart.reference)
        return search._joint(acquisition, size, apart)

    def several(
        self,
        acquisition: AcquisitionFunction,
        size: int,
        apart: Distinctness | None,
        count: int,
    ) -> Tensor:
        """Finds the `best` question and others for other people, ``k x size x d``.

        One search finds all of them, up to ``count``, see `NotedQuestions`; where
        challengers of a reference are chosen one after the other, and without
        ``apart``, it finds one.
        """
        separate = size > 1 and not is_joint(acquisition)
        if count == 1 or apart is None or (separate and apart.reference is not None):
            return self.best(acquisition, size, apart).unsqueeze(0)
        noted = NotedQuestions(acquisition)
        return noted.different(self.best(noted, size, apart), count, apart)

    def _one_by_one(
        self,
        acquisition: AcquisitionFunction,
        size: int,
        apart: Distinctness,
        reference: Tensor,
    ) -> Tensor:
        """Chooses challengers of a reference one by one, ``size x d``.

        Meanwhile those chosen are pending points of the acquisition function, after its
        own; in the end it has its own alone.
        """
        pending = getattr(acquisition, "X_pending", None)
        chosen = waiting = reference[:0] if pending is None else pending
        for _ in range(size):
            beside = torch.cat([reference, chosen[len(waiting) :]])
            option = self._joint(acquisition, 1, replace(apart, reference=beside))
            chosen = torch.cat([chosen, option])
            acquisition.set_X_pending(chosen)
        acquisition.set_X_pending(pending)
        return chosen[len(waiting) :]

    def _joint(
        self, acquisition: AcquisitionFunction, size: int, apart: Distinctness | None
    ) -> Tensor:
        """Chooses all options at once, ``size x d``.

        Where the designs of the space are a table or few, questions about these are
        compared; elsewhere the search climbs.
        """
        designs = self.space.designs(MAX_DESIGNS // size)
        if designs is not None:
            # The first centre is the reference or the incumbent, see `_centres`.
            best = self.centres[:1] if len(self.centres) else None
            return listed_question(acquisition, designs, size, apart, best)
        options = self._climbed(acquisition, size, apart)
        if apart is not None and not differ(apart.novelty(options)):
            # All that is worth asking was asked: again, then, unless it is pending.
            apart = replace(apart, questions=apart.pending, times=None)
            options = self._climbed(acquisition, size, apart)
        return options

    def _climbed(
        self, acquisition: AcquisitionFunction, size: int, apart: Distinctness | None
    ) -> Tensor:
        """Climbs to the best question, ``size x d``.

        With ``apart``, options that are too alike have the price of `QuestionValue`,
        which random questions set.
        """
        # By the global generator, which callers seed: a restart changes no question.
        value, seed = acquisition, int(torch.randint(2**31, ()))
        if apart is not None:
            draws = self.space.draw(_DRAWS * size, seed).unflatten(0, (-1, size))
            value = QuestionValue(acquisition, apart, self.space.features(draws))
        return climbed_options(
            value, self.space, size, self.centres, seed=seed, climb=self.climb
        )


def listed_question(
    acquisition: AcquisitionFunction,
    designs: Tensor,
    size: int,
    apart: Distinctness | None,
    best: Tensor | None = None,
) -> Tensor:
    """Finds the most valuable question about designs that was not asked.

    A question is worth asking if one of its options is better than the reference, or
    the ``best`` design (the incumbent by default), with a probability of 0.005 or more.
    When all of them were asked, those that were asked least often count, then the
    others. The ``size`` options (``size x d``) are chosen jointly of the designs,
    ``N x d``. Without ``apart`` any question may be asked.

    Raises:
        CandidateGenerationError: All questions are pending, or have options that nobody
            can tell apart.
    """
    order: Order = _in_any_order
    promising = None
    if apart is not None:
        order, promising = _order_of_asking(acquisition, designs, apart, best)
    options = best_of_designs(acquisition, designs, size, order, promising)
    if options is None:
        raise CandidateGenerationError("No question is left to ask about designs.")
    return options


def _in_any_order(places: Tensor) -> Tensor:
    """Gives all questions the same turn, see `Order`."""
    return torch.zeros(len(places), dtype=torch.double)


def _order_of_asking(
    acquisition: AcquisitionFunction,
    designs: Tensor,
    apart: Distinctness,
    best: Tensor | None,
) -> tuple[Order, Tensor]:
    """Makes the order of asking about listed designs, ``N x d``.

    Returns:
        The turn of each question, see `Order`, and the places of the designs that are
        likeliest to be better than the reference, or than the ``best`` design (the
        incumbent if that is None), the likeliest first.
    """
    reference = apart.reference if apart.reference is not None else best
    if reference is None:
        reference = incumbent(acquisition.model).reshape(-1, designs.shape[-1])
    reference = reference[:1]
    chance = in_portions(
        lambda part: better_probability(acquisition.model, part.squeeze(-2), reference),
        designs.unsqueeze(-2),
    )
    hopeful = (chance >= _HOPELESS) & (designs != reference).any(-1)

    def order(places: Tensor) -> Tensor:
        """Finds turns, ``n``, by how often questions, ``n x size``, were asked."""
        options = designs[places]
        allowed = differ(apart.smallest_gap(options)) & ~apart.is_pending(options)
        repetitions = apart.repetitions(options)
        times = apart.times
        total = len(apart.questions) if times is None else float(times.sum())
        # Questions without hope come after all others, which were asked up to ``total``
        # times.
        turn = repetitions + (total + 1) * ~hopeful[places].any(-1)
        return torch.where(allowed, turn, torch.inf)

    return order, chance.argsort(descending=True)[:_PROMISING]
