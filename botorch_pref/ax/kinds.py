"""Table of the kinds of answers: fields, Ax's metrics, and containers for models.

An answer of a kind has one value for each option, in data of one metric of Ax's: 1 for
the winner of a duel and 0 for the loser, for example. Tables of answers have the same
values. `KINDS` lists the kinds, each with functions from what a person gave to these
values, from the values back to what was said, and to the feedback that models take.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
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

from botorch_pref.ax.given import finite_number, written
from botorch_pref.errors import ExperimentError
from botorch_pref.feedback import (
    Choices,
    Comparisons,
    Feedback,
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

Groups = Iterable[tuple[int, Values]]
"""Each trial that has data of a metric, with its values by datapoint."""

Pairs = list[tuple[int, int]]


@dataclass(frozen=True)
class ShownOptions:
    """Options, counted from 0 in the order they were shown.

    No comparison is about the ``invalid`` ones, which failed. ``num_levels`` is that of
    the experiment's scale, if it has one.
    """

    num_options: int
    invalid: tuple[int, ...] = ()
    num_levels: int | None = None

    @property
    def valid(self) -> list[int]:
        """The places of the options that did not fail."""
        return [i for i in range(self.num_options) if i not in self.invalid]

    def compared(self, field: str) -> list[int]:
        """Places of the options that ``field`` compares: two or more valid ones."""
        if len(self.valid) < 2:
            raise ExperimentError(
                f"The answer says {field}, but {len(self.valid)} of the options are "
                "valid; leave out what compares them."
            )
        return self.valid

    def pair(self, field: str) -> list[int]:
        """Places of the two options that ``field`` compares."""
        compared = self.compared(field)
        if len(compared) != 2:
            raise ExperimentError(
                f"{field} is about two options, and there are {len(compared)}; give "
                "best or ranking."
            )
        return compared


@dataclass(frozen=True)
class AnswerKind:
    """A kind of answer.

    Attributes:
        field: The field of `Answer`, and the keyword of ``tell``.
        metric: The name of Ax's metric whose data hold it.
        checked: From what a person gave, which is not None, to fields of `Answer`. Two
            ways to say the same give the same fields. Raises `ExperimentError`.
        encode: From the value of the field to values of the metric.
        said_by: The inverse of `encode`. Other values give a result that means nothing.
        feedback: From the values of one or more trials, and the number of levels of
            the scale, to the container that models take. Raises `ExperimentError`.
    """

    field: str
    metric: str
    checked: Callable[[Any, ShownOptions], dict[str, Any]]
    encode: Callable[[Any, ShownOptions], Values]
    said_by: Callable[[Values, ShownOptions], Any]
    feedback: Callable[[Groups, int | None], Feedback]


def checked_places(
    field: str, given: object, allowed: Sequence[int], failed: Sequence[int] = ()
) -> tuple[int, ...]:
    """Places of options, each of which is allowed and named once."""
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise ExperimentError(
            f"{field} is {written(given)}; give a list of options, counted from 0."
        )
    for place in given:
        if is_integer(place) and int(place) in failed:
            raise ExperimentError(
                f"{field} names option {place}, which failed by invalid="
                f"{list(failed)}; compare the others."
            )
        if not is_integer(place) or place not in allowed:
            raise ExperimentError(
                f"{field} names option {written(place)}, which is not one of "
                f"{list(allowed)}; options are counted from 0 in the order shown."
            )
    if len(set(given)) < len(given):
        raise ExperimentError(f"{field} is {list(given)}; name each option once.")
    return tuple(int(place) for place in given)


def _checked_winner(given: Any, shown: ShownOptions) -> dict[str, Any]:
    pair = shown.pair("winner")
    (winner,) = checked_places("winner", [given], pair, shown.invalid)
    return {"winner": winner}


def _checked_tie(given: Any, shown: ShownOptions) -> dict[str, Any]:
    """A tie; ``tie=False`` says nothing and does not get here."""
    shown.compared("tie")
    return {"tie": True}


def _checked_best(given: Any, shown: ShownOptions) -> dict[str, Any]:
    """The best option; of two it is the winner."""
    compared = shown.compared("best")
    (best,) = checked_places("best", [given], compared, shown.invalid)
    return {"winner" if len(compared) == 2 else "best": best}


def _checked_ranking(given: Any, shown: ShownOptions) -> dict[str, Any]:
    """All valid options, best first; the first of two is the winner."""
    compared = shown.compared("ranking")
    ranking = checked_places("ranking", given, compared, shown.invalid)
    if len(ranking) != len(compared):
        raise ExperimentError(
            f"ranking is {list(ranking)}; name all of {compared}, best first."
        )
    return {"winner": ranking[0]} if len(compared) == 2 else {"ranking": ranking}


def _checked_strength(given: Any, shown: ShownOptions) -> dict[str, Any]:
    shown.pair("strength")
    return {"strength": _checked_fraction("strength", given, shown)}


def _checked_invalid(given: Any, shown: ShownOptions) -> dict[str, Any]:
    failed = checked_places("invalid", given, range(shown.num_options))
    return {"invalid": tuple(sorted(failed))}


def _checked_ratings(given: Any, shown: ShownOptions) -> dict[str, Any]:
    return _checked_values("ratings", _checked_fraction, given, shown)


def _checked_levels(given: Any, shown: ShownOptions) -> dict[str, Any]:
    return _checked_values("levels", _checked_level, given, shown)


def _checked_values(
    field: str,
    checked_value: Callable[[str, Any, ShownOptions], float],
    given: Any,
    shown: ShownOptions,
) -> dict[str, Any]:
    """A value for each option, or None for an option that was given none."""
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise ExperimentError(
            f"{field} is {written(given)}; give a list, one for each option."
        )
    nothing = all(value is None for value in given)
    if len(given) != shown.num_options or nothing:
        raise ExperimentError(
            f"{field} is {written(list(given))}, and there were {shown.num_options} "
            "options; give one for each, or None."
        )
    values = (None if v is None else checked_value(field, v, shown) for v in given)
    return {field: tuple(values)}


def _checked_fraction(field: str, given: Any, shown: ShownOptions) -> float:
    """A number strictly between 0 and 1, rounded as Ax stores it."""
    number = finite_number(given)
    if number is None:
        raise ExperimentError(f"{field} holds {written(given)}; give a finite number.")
    if not 0 < (value := round(number, DECIMALS)) < 1:
        raise ExperimentError(f"{field} holds {given}, which is not between 0 and 1.")
    return value


def _checked_level(field: str, given: Any, shown: ShownOptions) -> int:
    if shown.num_levels is None:
        raise ExperimentError(
            "The experiment has no scale of levels; create it with num_levels=, or "
            "give ratings between 0 and 1."
        )
    if not is_integer(given) or given not in range(shown.num_levels):
        raise ExperimentError(
            f"{field} holds {written(given)}; levels go from 0 to "
            f"{shown.num_levels - 1}."
        )
    return int(given)


def _one_for(said: int, shown: ShownOptions) -> Values:
    """1 for the option that was named, 0 for the others that did not fail."""
    return {place: float(place == said) for place in shown.valid}


def _named(values: Values, shown: ShownOptions) -> int:
    return max(values, key=values.__getitem__)


def _one_for_each(said: bool, shown: ShownOptions) -> Values:
    return dict.fromkeys(shown.valid, 1.0)


def _true(values: Values, shown: ShownOptions) -> bool:
    return True


def _ranks(said: Sequence[int], shown: ShownOptions) -> Values:
    """1 for the best, 2 for the next."""
    return {place: float(rank + 1) for rank, place in enumerate(said)}


def _in_order(values: Values, shown: ShownOptions) -> list[int]:
    return sorted(values, key=values.__getitem__)


def _shares(said: float, shown: ShownOptions) -> Values:
    return dict(zip(shown.valid, (said, round(1 - said, DECIMALS)), strict=True))


def _first(values: Values, shown: ShownOptions) -> float:
    return values[min(values)]


def _zero_for(said: Sequence[int], shown: ShownOptions) -> Values:
    """0 for the options that failed, 1 for the others."""
    return {place: float(place not in said) for place in range(shown.num_options)}


def _zeros(values: Values, shown: ShownOptions) -> tuple[int, ...]:
    return tuple(place for place, value in values.items() if value == 0)


def _known(said: Sequence[float | None], shown: ShownOptions) -> Values:
    return {place: float(v) for place, v in enumerate(said) if v is not None}


def _with_gaps(values: Values, shown: ShownOptions) -> list[float | None]:
    return [values.get(place) for place in range(shown.num_options)]


def _whole_with_gaps(values: Values, shown: ShownOptions) -> list[float | None]:
    return _with_gaps({place: int(v) for place, v in values.items()}, shown)


def _pair_of(metric: str, trial: int, values: Values) -> list[int]:
    """The two datapoints of a trial."""
    if len(values) != 2:
        raise ExperimentError(
            f"Trial {trial} has data of {metric} for {len(values)} arms; it takes two."
        )
    return [*values]


def _duels(groups: Groups, num_levels: int | None) -> Comparisons:
    pairs = []
    for trial, values in groups:
        pair = _pair_of(OBJECTIVE, trial, values)
        if sorted(values.values()) != [0.0, 1.0]:
            raise ExperimentError(
                f"Trial {trial} has {sorted(values.values())} as {OBJECTIVE}; give 1 "
                f"to the winner and 0 to the loser, and data of {TIE.metric} to a tie."
            )
        pairs.append(sorted(pair, key=values.__getitem__, reverse=True))
    return Comparisons(torch.tensor(pairs))


def tied_in_turn(values: Values) -> list[Values]:
    """A tie of all options as ties of each with the next, of the last with the first.

    In answers of a Thurstone's person, who hears each option once and finds all of them
    within a threshold, there is about as much as in this ring, and less than in ties of
    all pairs, each of which would be heard anew (`docs/feedback.md`).
    """
    places = [*values]
    if len(places) <= 2:
        return [values]
    turn = zip(places, [*places[1:], places[0]], strict=True)
    return [{place: values[place] for place in pair} for pair in turn]


def _ties(groups: Groups, num_levels: int | None) -> Comparisons:
    ties = [_pair_of(TIE.metric, trial, values) for trial, values in groups]
    return Comparisons(None, torch.tensor(ties))


def _choices(groups: Groups, num_levels: int | None) -> Choices:
    sets = _sorted_sets(BEST.metric, groups, reverse=True)
    return Choices(sets, sets[:, 0])


def _rankings(groups: Groups, num_levels: int | None) -> Rankings:
    return Rankings(_sorted_sets(RANKING.metric, groups, reverse=False))


def _sorted_sets(metric: str, groups: Groups, reverse: bool) -> Tensor:
    """The datapoints of each trial by their values, ``m x k``, padded with -1."""
    rows = []
    for trial, values in groups:
        if len(values) < 2:
            raise ExperimentError(
                f"Trial {trial} has data of {metric} for {len(values)} arms; it takes "
                "two or more."
            )
        in_order = sorted(values, key=values.__getitem__, reverse=reverse)
        rows.append(torch.tensor(in_order))
    return pad_sequence(rows, batch_first=True, padding_value=-1)


def _strengths(groups: Groups, num_levels: int | None) -> Strengths:
    found = [(_pair_of(STRENGTH.metric, t, values), values) for t, values in groups]
    strengths = [values[pair[0]] for pair, values in found]
    return Strengths(
        torch.tensor([pair for pair, _ in found]),
        torch.tensor(strengths, dtype=torch.float64),
    )


def _points_and_values(groups: Groups) -> tuple[Tensor, Tensor]:
    """Values of all trials, each with its datapoint."""
    rows = [row for _, values in groups for row in values.items()]
    points, values = zip(*rows, strict=True)
    return torch.tensor(points), torch.tensor(values, dtype=torch.float64)


def _validity(groups: Groups, num_levels: int | None) -> Validity:
    points, values = _points_and_values(groups)
    return Validity(points, values > 0.5)


def _ratings(groups: Groups, num_levels: int | None) -> Ratings:
    return Ratings(*_points_and_values(groups))


def _levels(groups: Groups, num_levels: int | None) -> OrdinalRatings:
    if num_levels is None:
        raise ExperimentError(
            f"There are data of {LEVELS.metric}, whose metric does not say how many "
            "levels there are; create the experiment with num_levels=."
        )
    points, levels = _points_and_values(groups)
    return OrdinalRatings(points, levels.round().long(), num_levels)


# Field, metric, checked, encode, said_by and feedback of each.
WINNER = AnswerKind("winner", OBJECTIVE, _checked_winner, _one_for, _named, _duels)
TIE = AnswerKind("tie", "preference_tie", _checked_tie, _one_for_each, _true, _ties)
BEST = AnswerKind(
    "best", "preference_choice", _checked_best, _one_for, _named, _choices
)
RANKING = AnswerKind(
    "ranking", "preference_rank", _checked_ranking, _ranks, _in_order, _rankings
)
STRENGTH = AnswerKind(
    "strength", "preference_strength", _checked_strength, _shares, _first, _strengths
)
INVALID = AnswerKind(
    "invalid", "preference_valid", _checked_invalid, _zero_for, _zeros, _validity
)
RATINGS = AnswerKind(
    "ratings", "preference_rating", _checked_ratings, _known, _with_gaps, _ratings
)
LEVELS = AnswerKind(
    "levels", "preference_level", _checked_levels, _known, _whole_with_gaps, _levels
)

COMPARING = (WINNER, TIE, BEST, RANKING, STRENGTH)
"""Kinds that compare the options; an answer does so in one way at most."""

KINDS = (*COMPARING, INVALID, RATINGS, LEVELS)
"""All kinds; every table of them is read from here."""


def preferred(said: Mapping[str, Any], num_options: int) -> tuple[Pairs, Pairs]:
    """Pairs of a better and a worse option, and pairs of equal ones, by an answer.

    The answer is as ``Answer.given`` has it.
    """
    shown = ShownOptions(num_options, tuple(said.get(INVALID.field, ())))
    for kind in COMPARING:
        if kind.field in said:
            values = kind.encode(said[kind.field], shown)
            # Ranks are smaller for better ones.
            sign = -1 if kind is RANKING else 1
            decided = [
                (i, j)
                for i, j in permutations(values, 2)
                if sign * values[i] > sign * values[j]
            ]
            # The options that are not the best of many are not equal.
            return decided, [] if decided else [*combinations(values, 2)]
    return [], []


_NUM_LEVELS = "num_levels"
"""The property of the metric of levels that says how many levels there are."""


def new_metrics(num_levels: int | None) -> list[Metric]:
    """Ax's metrics of all kinds, as a new experiment has them."""
    metrics = {kind: Metric(kind.metric) for kind in KINDS}
    metrics[WINNER] = Metric(OBJECTIVE, lower_is_better=False)
    if num_levels is not None:
        scale = {_NUM_LEVELS: num_levels}
        metrics[LEVELS] = Metric(LEVELS.metric, properties=scale)
    return [*metrics.values()]


def number_of_levels(experiment: Experiment) -> int | None:
    """Number of levels of the scale of Ax's experiment; None without a scale."""
    metric = experiment.metrics.get(LEVELS.metric)
    return None if metric is None else metric.properties.get(_NUM_LEVELS)
