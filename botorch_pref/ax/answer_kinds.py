"""Table of the kinds of answers: fields, Ax's metrics, and containers for models.

An answer of a kind has one value for each option, in data of one metric of Ax's: 1 for
the winner of a duel and 0 for the loser, for example. Tables of answers have the same
values. `KINDS` lists the kinds, each with functions from what a person gave to these
values, from the values back to what was said, and to the feedback that models take.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations
from typing import Any

import torch
from ax.core.experiment import Experiment
from ax.core.metric import Metric
from ax.utils.common.constants import Keys
from pandas.api.types import is_integer
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from botorch_pref.ax.user_values import argument_error, finite_number, quoted
from botorch_pref.errors import ExperimentError
from botorch_pref.feedback import (
    Choices,
    Comparisons,
    Feedback,
    LineChoices,
    OrdinalRatings,
    Rankings,
    Ratings,
    Strengths,
    Validity,
)

OBJECTIVE = Keys.PAIRWISE_PREFERENCE_QUERY.value
"""Ax's own metric of duels, which every preference experiment maximises."""

DECIMALS = 10
"""Digits after the point of a stored answer: what Ax's tables of data keep."""

Values = dict[int, float]
"""The values of one answer, by the place of the option or by datapoint."""

Answered = tuple[int, int | None]
"""The number of a trial, and of the rater whose answer to it stands by itself; None
where raters are not kept apart."""

Groups = Sequence[tuple[Answered, Values]]
"""Each answer that has data of a metric, with its values by datapoint."""

Pairs = list[tuple[int, int]]


@dataclass(frozen=True)
class ShownOptions:
    """Options, counted from 0 in the order they were shown.

    No comparison is about the ``invalid`` ones, which failed. ``num_levels`` is that of
    the experiment's scale, if it has one.
    """

    num_options: int
    invalid: Sequence[int] = ()
    num_levels: int | None = None

    @property
    def valid(self) -> list[int]:
        """The places of the options that did not fail."""
        return [i for i in range(self.num_options) if i not in self.invalid]

    def compared(self, field: str, pair: bool = False) -> list[int]:
        """Lists the options that ``field`` compares: two or more valid ones.

        Raises:
            ExperimentError: There are fewer; or more than two, and ``field`` compares
                a ``pair``.
        """
        if len(self.valid) < 2:
            raise ExperimentError(
                f"The answer says {field}, but {len(self.valid)} of the options are "
                "valid; leave out what compares them."
            )
        if pair and len(self.valid) != 2:
            raise ExperimentError(
                f"{field} is about two options, not {len(self.valid)}; give best or "
                "ranking."
            )
        return self.valid

    def places(
        self, field: str, places: object, allowed: Sequence[int]
    ) -> tuple[int, ...]:
        """Returns places of options, each of which is allowed and named once."""
        if isinstance(places, str) or not isinstance(places, Sequence):
            raise argument_error(field, places, "a list of options, counted from 0")
        for place in places:
            if is_integer(place) and int(place) in self.invalid:
                raise ExperimentError(
                    f"{field} names option {place}, which failed by invalid="
                    f"{list(self.invalid)}; compare the others."
                )
            if not is_integer(place) or place not in allowed:
                raise ExperimentError(
                    f"{field} names option {quoted(place)}, which is not one of "
                    f"{list(allowed)}; options are counted from 0 in the order shown."
                )
        if len(set(places)) < len(places):
            raise ExperimentError(f"{field} is {list(places)}; name each option once.")
        return tuple(int(place) for place in places)

    def one_per_option(
        self, field: str, values: object, checked: Callable[[str, Any], float]
    ) -> dict[str, Any]:
        """Returns a field of `Answer` with a value for each option, or None for some.

        Each value is what ``checked`` makes of it.
        """
        if isinstance(values, str) or not isinstance(values, Sequence):
            raise argument_error(field, values, "a list, one for each option")
        nothing = all(value is None for value in values)
        if len(values) != self.num_options or nothing:
            raise ExperimentError(
                f"{field} is {quoted(list(values))}, and there were "
                f"{self.num_options} options; give one for each, or None."
            )
        judged = (None if value is None else checked(field, value) for value in values)
        return {field: tuple(judged)}

    def level(self, field: str, level: Any) -> int:
        """Returns a level of the experiment's scale, from 0, checked."""
        if self.num_levels is None:
            raise ExperimentError(
                "The experiment has no scale of levels; create it with num_levels=, or "
                "give ratings between 0 and 1."
            )
        if not is_integer(level) or level not in range(self.num_levels):
            raise ExperimentError(
                f"{field} holds {quoted(level)}; levels go from 0 to "
                f"{self.num_levels - 1}, and 0 is the lowest."
            )
        return int(level)


@dataclass(frozen=True)
class AnswerKind:
    """A kind of answer: its field of `Answer`, and the metric whose data hold it.

    ``checked`` leads from what a person gave to fields of `Answer`, the same for two
    ways to say the same; ``encode`` from the field to values of the metric, ``said_by``
    back; and ``feedback`` from the values of trials, and the number of levels of the
    scale, to the container that models take.
    """

    field: str
    metric: str
    checked: Callable[[Any, ShownOptions], dict[str, Any]]
    encode: Callable[[Any, ShownOptions], Values]
    said_by: Callable[[Values, ShownOptions], Any]
    feedback: Callable[[Groups, int | None], Feedback]


def _fraction(field: str, value: Any) -> float:
    """Returns a number strictly between 0 and 1, rounded as Ax stores it."""
    number = finite_number(value)
    if number is None:
        raise ExperimentError(f"{field} holds {quoted(value)}; give a finite number.")
    if not 0 < (rounded := round(number, DECIMALS)) < 1:
        raise ExperimentError(
            f"{field} holds {value}, which is not strictly between 0 and 1; of a scale "
            "from 1 to 10 give (y - 0.5) / 10."
        )
    return rounded


def _checked_winner(winner: Any, options: ShownOptions) -> dict[str, Any]:
    pair = options.compared("winner", pair=True)
    return {"winner": options.places("winner", [winner], pair)[0]}


def _checked_best(choice: Any, options: ShownOptions) -> dict[str, Any]:
    """Returns the best option; of two it is the winner."""
    compared = options.compared("best")
    (best,) = options.places("best", [choice], compared)
    return {"winner" if len(compared) == 2 else "best": best}


def _checked_ranking(ranking: Any, options: ShownOptions) -> dict[str, Any]:
    """Returns the ranking of all valid options, best first, as a field of `Answer`.

    Options that share a place are a list of their own, in rising order; if all do, it
    is a tie. Of two options the first is the winner.
    """
    compared = options.compared("ranking")
    if isinstance(ranking, str) or not isinstance(ranking, Sequence):
        raise argument_error("ranking", ranking, "a list of options, counted from 0")
    groups = [*map(_group, ranking)]
    places = options.places("ranking", [i for group in groups for i in group], compared)
    if len(places) != len(compared):
        raise ExperimentError(f"ranking is {list(places)}; name all of {compared}.")
    ordered = [tuple(sorted(map(int, group))) for group in groups if group]
    if len(ordered) == 1:
        return {"tie": True}
    if len(compared) == 2:
        return {"winner": places[0]}
    return {"ranking": tuple(e[0] if len(e) == 1 else e for e in ordered)}


def _group(entry: Any) -> Sequence[Any]:
    """Returns the options at a place of a ranking: one, or a list of several."""
    several = isinstance(entry, Sequence) and not isinstance(entry, str)
    return entry if several else [entry]


def _ranks(ranking: Sequence[Any], options: ShownOptions) -> Values:
    """Writes a ranking as ranks: 1 is the best; after two of rank 1 comes rank 3."""
    ranks: Values = {}
    for group in map(_group, ranking):
        ranks |= dict.fromkeys(group, float(len(ranks) + 1))
    return ranks


def _by_rank(values: Values, options: ShownOptions) -> list[Any]:
    """Reads a ranking from what `_ranks` wrote, with lists of those that share one."""
    groups: dict[float, list[int]] = {}
    for place in sorted(values, key=values.__getitem__):
        groups.setdefault(values[place], []).append(place)
    return [group[0] if len(group) == 1 else sorted(group) for group in groups.values()]


def has_shared_places(ranks: Values) -> bool:
    """Tells whether options share a place of a ranking."""
    return len({*ranks.values()}) < len(ranks)


def _checked_strength(strength: Any, options: ShownOptions) -> dict[str, Any]:
    options.compared("strength", pair=True)
    return {"strength": _fraction("strength", strength)}


def _checked_position(position: Any, options: ShownOptions) -> dict[str, Any]:
    options.compared("position", pair=True)
    return {"position": checked_position(position)}


def checked_position(position: object) -> float:
    """Returns a position on a line, rounded as Ax stores it."""
    number = finite_number(position)
    if number is None or not 0 <= number <= 1:
        raise ExperimentError(
            f"position is {quoted(position)}; give a number from 0, the first end of "
            "the line, to 1, the second."
        )
    return round(number, DECIMALS)


def _shares_of_ends(position: float, options: ShownOptions) -> Values:
    """Finds the shares of both ends in the design of a stop, as they are stored."""
    shares = round(1 - position, DECIMALS), position
    return dict(zip(options.valid, shares, strict=False))


def _indicator(winner: int, options: ShownOptions) -> Values:
    return {place: float(place == winner) for place in options.valid}


def _largest(values: Values, options: ShownOptions) -> int:
    return max(values, key=values.__getitem__)


def _judged(judgements: Sequence[float | None], options: ShownOptions) -> Values:
    return {place: float(v) for place, v in enumerate(judgements) if v is not None}


def _sets(metric: str, groups: Groups, order: int, pair: bool = False) -> Tensor:
    """Returns the datapoints of each trial, ``m x k``, for a container of feedback.

    They are in the order of their values, rising (1), falling (-1), or as they are (0);
    rows are padded with -1.
    """
    rows = []
    for (trial, _), values in groups:
        if len(values) < 2 or (pair and len(values) > 2):
            raise ExperimentError(
                f"Trial {trial} has data of {metric} for {len(values)} arms; it takes "
                f"two{'' if pair else ' or more'}."
            )
        rows.append(torch.tensor(sorted(values, key=lambda i: order * values[i])))
    return pad_sequence(rows, batch_first=True, padding_value=-1)


def _duels(groups: Groups, num_levels: int | None) -> Comparisons:
    """Makes comparisons of trials of two arms, one of which won."""
    # In falling order: the winner first.
    pairs = _sets(OBJECTIVE, groups, -1, pair=True)
    for (trial, _), values in groups:
        if sorted(values.values()) != [0.0, 1.0]:
            raise ExperimentError(
                f"Trial {trial} has {sorted(values.values())} as {OBJECTIVE}; give 1 "
                f"to the winner and 0 to the loser, and data of {TIE.metric} to a tie."
            )
    return Comparisons(pairs)


def _choices(groups: Groups, num_levels: int | None) -> Choices:
    sets = _sets(BEST.metric, groups, -1)
    return Choices(sets, sets[:, 0])


def _strengths(groups: Groups, num_levels: int | None) -> Strengths:
    pairs = _sets(STRENGTH.metric, groups, 0, pair=True)
    first = [next(iter(values.values())) for _, values in groups]
    return Strengths(pairs, torch.tensor(first, dtype=torch.float64))


def _stops(groups: Groups, num_levels: int | None) -> LineChoices:
    """Makes line choices of trials whose data are the shares of two ends.

    The position, from the first end (0) to the second (1), is the share of the second.
    A stop between the ends has data too, the value `STOP`.
    """
    lines, positions = [], []
    for (trial, _), values in groups:
        # A stop within has a value besides those of the ends.
        ends = [place for place, share in values.items() if share < STOP]
        ends = ends if len(values) == 3 else [*values]
        if len(ends) != 2:
            raise ExperimentError(
                f"Trial {trial} has {sorted(values.values())} as {POSITION.metric}; "
                "give the shares of the two ends, and 1 to the stop between them."
            )
        lines.append(ends)
        positions.append(values[ends[1]])
    return LineChoices(
        torch.tensor(lines), torch.tensor(positions, dtype=torch.float64)
    )


def _points_and_values(groups: Groups) -> tuple[Tensor, Tensor]:
    """Returns values of all trials, each with its datapoint."""
    rows = [row for _, values in groups for row in values.items()]
    points, values = zip(*rows, strict=True)
    return torch.tensor(points), torch.tensor(values, dtype=torch.float64)


def _validity(groups: Groups, num_levels: int | None) -> Validity:
    points, values = _points_and_values(groups)
    return Validity(points, values > 0.5)


def _levels(groups: Groups, num_levels: int | None) -> OrdinalRatings:
    """Makes ordinal ratings of levels, of which a scale has ``num_levels``."""
    if num_levels is None:
        raise ExperimentError(
            f"There are data of {LEVELS.metric}, whose metric does not say how many "
            "levels there are; create the experiment with num_levels=."
        )
    points, levels = _points_and_values(groups)
    return OrdinalRatings(points, levels.round().long(), num_levels)


WINNER = AnswerKind("winner", OBJECTIVE, _checked_winner, _indicator, _largest, _duels)
TIE: AnswerKind = AnswerKind(
    "tie",
    "preference_tie",
    # ``tie=False`` says nothing and does not get here.
    checked=lambda value, options: {"tie": bool(options.compared("tie"))},
    encode=lambda value, options: dict.fromkeys(options.valid, 1.0),
    said_by=lambda values, options: True,
    feedback=lambda groups, _: Comparisons(None, _sets(TIE.metric, groups, 0, True)),
)
BEST = AnswerKind(
    "best", "preference_choice", _checked_best, _indicator, _largest, _choices
)
RANKING: AnswerKind = AnswerKind(
    "ranking",
    "preference_rank",
    checked=_checked_ranking,
    encode=_ranks,
    said_by=_by_rank,
    feedback=lambda groups, _: Rankings(_sets(RANKING.metric, groups, 1)),
)
STRENGTH = AnswerKind(
    "strength",
    "preference_strength",
    checked=_checked_strength,
    # A table may say it of another number of options, which is refused later.
    encode=lambda strength, options: dict(
        zip(options.valid, (strength, round(1 - strength, DECIMALS)), strict=False)
    ),
    said_by=lambda values, options: values[min(values)],
    feedback=_strengths,
)
POSITION: AnswerKind = AnswerKind(
    "position",
    "preference_position",
    checked=_checked_position,
    encode=_shares_of_ends,
    said_by=lambda values, options: values[max(values)],
    feedback=_stops,
)
STOP = 1.0
"""The value of the design at which a person stopped, in data of that metric."""

INVALID = AnswerKind(
    "invalid",
    "preference_valid",
    checked=lambda places, options: {
        "invalid": tuple(
            sorted(options.places("invalid", places, range(options.num_options)))
        )
    },
    # 0 for the options that failed, 1 for the others.
    encode=lambda places, options: {
        place: float(place not in places) for place in range(options.num_options)
    },
    said_by=lambda values, options: tuple(i for i, v in values.items() if v == 0),
    feedback=_validity,
)
RATINGS = AnswerKind(
    "ratings",
    "preference_rating",
    checked=lambda ratings, options: options.one_per_option(
        "ratings", ratings, _fraction
    ),
    encode=_judged,
    said_by=lambda values, options: [values.get(i) for i in range(options.num_options)],
    feedback=lambda groups, _: Ratings(*_points_and_values(groups)),
)
LEVELS = AnswerKind(
    "levels",
    "preference_level",
    checked=lambda levels, options: options.one_per_option(
        "levels", levels, options.level
    ),
    encode=_judged,
    said_by=lambda values, options: [
        int(values[i]) if i in values else None for i in range(options.num_options)
    ],
    feedback=_levels,
)

COMPARING = (WINNER, TIE, BEST, RANKING, STRENGTH, POSITION)
"""Kinds that compare the options; an answer does so in one way at most."""

KINDS = (*COMPARING, INVALID, RATINGS, LEVELS)
"""All kinds; every table of them is read from here."""


def preferred(answer: Mapping[str, Any], num_options: int) -> tuple[Pairs, Pairs]:
    """Lists pairs of a better and a worse option, and of equal ones, by an answer.

    Reports count them, and the page draws them. The answer is as `Answer.to_json` has
    it; options are places. Where somebody stopped within a line, the stop is the third
    option; it is better than the ends.
    """
    if POSITION.field in answer:
        stop = stop_place(answer[POSITION.field])
        return [(stop, end) for end in range(2) if end != stop], []
    options = ShownOptions(num_options, answer.get(INVALID.field, ()))
    for kind in COMPARING:
        if kind.field in answer:
            values = kind.encode(answer[kind.field], options)
            # Ranks are smaller for better ones.
            sign = -1 if kind is RANKING else 1
            worth = {place: sign * value for place, value in values.items()}
            pairs = permutations(worth, 2)
            decided = [(i, j) for i, j in pairs if worth[i] > worth[j]]
            equal = [(i, j) for i, j in combinations(worth, 2) if worth[i] == worth[j]]
            # Beside one best option, the others have equal values but are no ties.
            return decided, [] if decided and kind is not RANKING else equal
    return [], []


def stop_place(position: float) -> int:
    """Gives the place of a stop among the options of a line: an end, or after both."""
    return int(position) if position in (0, 1) else 2


_NUM_LEVELS = "num_levels"
"""The property of the metric of levels that says how many levels there are."""


def new_metrics(num_levels: int | None) -> list[Metric]:
    """Returns Ax's metrics of all kinds, as a new experiment has them."""
    metrics = {kind: Metric(kind.metric) for kind in KINDS}
    metrics[WINNER] = Metric(OBJECTIVE, lower_is_better=False)
    if num_levels is not None:
        scale = {_NUM_LEVELS: num_levels}
        metrics[LEVELS] = Metric(LEVELS.metric, properties=scale)
    return [*metrics.values()]


def number_of_levels(experiment: Experiment) -> int | None:
    """Reads the number of levels of Ax's experiment; None without a scale."""
    metric = experiment.metrics.get(LEVELS.metric)
    return None if metric is None else metric.properties.get(_NUM_LEVELS)
