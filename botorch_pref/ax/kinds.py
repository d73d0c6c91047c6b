"""The kinds of answers: what is said, what Ax keeps of it, what models take."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar

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


@dataclass(frozen=True)
class ShownOptions:
    """Options, counted from 0 in the order they were shown.

    Attributes:
        num_options: How many there are.
        invalid: Those that failed, which no comparison is about.
        num_levels: How many levels the scale of the experiment has, if it has one.
    """

    num_options: int
    invalid: tuple[int, ...] = ()
    num_levels: int | None = None

    @property
    def places(self) -> range:
        """The places of all options."""
        return range(self.num_options)

    @property
    def valid(self) -> list[int]:
        """The places of the options that did not fail."""
        return [place for place in self.places if place not in self.invalid]

    def compared(self, field: str) -> list[int]:
        """Places of the options that can be compared, two or more.

        Args:
            field: What was said of them.

        Raises:
            ExperimentError: There are fewer than two valid options.
        """
        if len(self.valid) < 2:
            raise ExperimentError(
                f"The answer says {field}, but {len(self.valid)} of the options are "
                "valid; leave out what compares them."
            )
        return self.valid

    def pair(self, field: str, instead: str = "ranking") -> list[int]:
        """Places of the only two options that can be compared.

        Args:
            field: What was said of them.
            instead: What can be said of more than two.

        Raises:
            ExperimentError: There are not two valid options.
        """
        compared = self.compared(field)
        if len(compared) != 2:
            raise ExperimentError(
                f"{field} is about two options, and there are {len(compared)}; give "
                f"{instead}."
            )
        return compared


def checked_places(
    field: str, given: object, allowed: Sequence[int]
) -> tuple[int, ...]:
    """Places of options, each named once.

    Args:
        field: What was said of them.
        given: A list of places.
        allowed: Those it may name.

    Raises:
        ExperimentError: It is no list, or names something else or a place twice.
    """
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise ExperimentError(
            f"{field} is {written(given)}; give a list of options, counted from 0."
        )
    for place in given:
        if not is_integer(place) or place not in allowed:
            raise ExperimentError(
                f"{field} names option {written(place)}, which is not one of "
                f"{list(allowed)}; options are counted from 0 in the order shown."
            )
    if len(set(given)) < len(given):
        raise ExperimentError(f"{field} is {list(given)}; name each option once.")
    return tuple(int(place) for place in given)


DECIMALS = 10
"""Digits after the point of a stored answer: what Ax's tables of data keep."""

Group = dict[int, float]
"""The values of one metric in one trial, by datapoint."""

Groups = Iterable[tuple[int, Group]]
"""Each trial that has data of a metric, with its values."""


def pair_of(metric: str, trial: int, group: Group) -> list[int]:
    """The two datapoints of a trial.

    Args:
        metric: To name in messages.
        trial: To name in messages.
        group: The trial's values.

    Raises:
        ExperimentError: There are not two.
    """
    if len(group) != 2:
        raise ExperimentError(
            f"Trial {trial} has data of {metric} for {len(group)} arms; it takes two."
        )
    return list(group)


def sorted_sets(metric: str, groups: Groups, descending: bool) -> Tensor | None:
    """The datapoints of each trial in the order of their values.

    Args:
        metric: To name in messages.
        groups: The data.
        descending: Whether the largest value comes first.

    Returns:
        ``m x k``, padded with -1; None if there are no trials.

    Raises:
        ExperimentError: A trial has fewer than two.
    """
    rows = []
    for trial, group in groups:
        if len(group) < 2:
            raise ExperimentError(
                f"Trial {trial} has data of {metric} for {len(group)} arms; it takes "
                "two or more."
            )
        in_order = sorted(group, key=group.__getitem__, reverse=descending)
        rows.append(torch.tensor(in_order))
    return pad_sequence(rows, batch_first=True, padding_value=-1) if rows else None


def points_and_values(groups: Groups) -> tuple[Tensor, Tensor] | None:
    """Values of all trials, each with its datapoint.

    Args:
        groups: The data.

    Returns:
        Two vectors of one length; None if there are no values.
    """
    rows = [row for _, group in groups for row in group.items()]
    if not rows:
        return None
    points, values = zip(*rows, strict=True)
    return torch.tensor(points), torch.tensor(values, dtype=torch.float64)


Pairs = list[tuple[int, int]]


class AnswerKind(ABC):
    """Kind of answer, from the keyword of ``tell`` to the feedback.

    Attributes:
        field: The field of `Answer`, and the keyword of ``tell``.
        metric: The name of Ax's metric whose data hold it.
        compares: Whether it compares the options; an answer does so in one way at most.
    """

    field: ClassVar[str]
    metric: ClassVar[str]
    compares: ClassVar[bool] = False

    def made_metric(self, num_levels: int | None) -> Metric:
        """Ax's metric, as a new experiment has it.

        Args:
            num_levels: How many levels the scale of the experiment has, if it has one.
        """
        return Metric(self.metric)

    @abstractmethod
    def checked(self, given: Any, shown: ShownOptions) -> dict[str, Any]:
        """Fields of `Answer`, if this can be said of these options.

        Two ways to say the same give the same fields.

        Args:
            given: The value of the keyword, not None.
            shown: The options.

        Raises:
            ExperimentError: It cannot be said of them.
        """

    @abstractmethod
    def encode(self, said: Any, shown: ShownOptions) -> dict[int, float]:
        """Data of the metric: values by option.

        Args:
            said: The value of the field.
            shown: The options.
        """

    @abstractmethod
    def said_by(self, values: Mapping[int, float], shown: ShownOptions) -> Any:
        """The value of the field, by what `encode` makes of it.

        Args:
            values: By option, one or more; of other values the result means nothing.
            shown: The options.
        """

    @abstractmethod
    def decode(self, groups: Groups, num_levels: int | None) -> Feedback | None:
        """The answers as a model takes them; None if there are none.

        Args:
            groups: The metric's data of each question, by datapoint.
            num_levels: How many levels the scale of the experiment has, if it has one.

        Raises:
            ExperimentError: Data that no answer gives.
        """

    def preferences(self, said: Any, shown: ShownOptions) -> tuple[Pairs, Pairs]:
        """Pairs of a better and a worse option, and pairs of equal ones.

        Args:
            said: The value of the field.
            shown: The options.
        """
        return [], []


class Tie(AnswerKind):
    """``tie=True``: 1 for both options of a duel."""

    field = "tie"
    metric = "preference_tie"
    compares = True

    def checked(self, given: Any, shown: ShownOptions) -> dict[str, Any]:
        """See base class. False says nothing, and is none of these."""
        shown.pair(self.field)
        return {self.field: True}

    def encode(self, said: Any, shown: ShownOptions) -> dict[int, float]:
        """See base class."""
        return dict.fromkeys(shown.valid, 1.0)

    def said_by(self, values: Mapping[int, float], shown: ShownOptions) -> Any:
        """See base class."""
        return True

    def decode(self, groups: Groups, num_levels: int | None) -> Comparisons | None:
        """See base class."""
        ties = [pair_of(self.metric, trial, group) for trial, group in groups]
        return Comparisons(None, torch.tensor(ties)) if ties else None

    def preferences(self, said: Any, shown: ShownOptions) -> tuple[Pairs, Pairs]:
        """See base class."""
        first, second = shown.valid
        return [], [(first, second)]


OBJECTIVE = Keys.PAIRWISE_PREFERENCE_QUERY.value
"""Ax's own metric of duels, which every preference experiment maximises."""


class Winner(AnswerKind):
    """``winner=1``: 1 for the winner of a duel, 0 for the loser."""

    field = "winner"
    metric = OBJECTIVE
    compares = True

    def made_metric(self, num_levels: int | None) -> Metric:
        """See base class."""
        return Metric(self.metric, lower_is_better=False)

    def checked(self, given: Any, shown: ShownOptions) -> dict[str, Any]:
        """See base class."""
        pair = shown.pair(self.field, instead="best or ranking")
        (winner,) = checked_places(self.field, [given], pair)
        return {self.field: winner}

    def encode(self, said: Any, shown: ShownOptions) -> dict[int, float]:
        """See base class."""
        return {place: float(place == said) for place in shown.valid}

    def said_by(self, values: Mapping[int, float], shown: ShownOptions) -> Any:
        """See base class."""
        return max(values, key=lambda place: values[place] == 1)

    def decode(self, groups: Groups, num_levels: int | None) -> Comparisons | None:
        """See base class."""
        pairs = [self._winner_first(trial, group) for trial, group in groups]
        return Comparisons(torch.tensor(pairs)) if pairs else None

    def preferences(self, said: Any, shown: ShownOptions) -> tuple[Pairs, Pairs]:
        """See base class."""
        return [(said, other) for other in shown.valid if other != said], []

    def _winner_first(self, trial: int, group: Group) -> list[int]:
        pair = pair_of(self.metric, trial, group)
        if sorted(group.values()) != [0.0, 1.0]:
            raise ExperimentError(
                f"Trial {trial} has {sorted(group.values())} as {self.metric}; give 1 "
                f"to the winner and 0 to the loser, and data of {Tie.metric} to a tie."
            )
        return sorted(pair, key=group.__getitem__, reverse=True)


class Best(AnswerKind):
    """``best=2``: 1 for the best of three options or more, 0 for the others."""

    field = "best"
    metric = "preference_choice"
    compares = True

    def checked(self, given: Any, shown: ShownOptions) -> dict[str, Any]:
        """See base class. The best of two is the winner."""
        compared = shown.compared(self.field)
        (best,) = checked_places(self.field, [given], compared)
        return {Winner.field if len(compared) == 2 else self.field: best}

    def encode(self, said: Any, shown: ShownOptions) -> dict[int, float]:
        """See base class."""
        return {place: float(place == said) for place in shown.valid}

    def said_by(self, values: Mapping[int, float], shown: ShownOptions) -> Any:
        """See base class."""
        return max(values, key=lambda place: values[place] == 1)

    def decode(self, groups: Groups, num_levels: int | None) -> Choices | None:
        """See base class."""
        sets = sorted_sets(self.metric, groups, descending=True)
        return None if sets is None else Choices(sets, sets[:, 0])

    def preferences(self, said: Any, shown: ShownOptions) -> tuple[Pairs, Pairs]:
        """See base class."""
        return [(said, other) for other in shown.valid if other != said], []


class Ranking(AnswerKind):
    """``ranking=[2, 0, 1]``: 1 for the best of three or more, 2 for the next."""

    field = "ranking"
    metric = "preference_rank"
    compares = True

    def checked(self, given: Any, shown: ShownOptions) -> dict[str, Any]:
        """See base class. The first of two is the winner."""
        compared = shown.compared(self.field)
        ranking = checked_places(self.field, given, compared)
        if len(ranking) != len(compared):
            raise ExperimentError(
                f"{self.field} is {list(ranking)}; name all of {compared}, best first."
            )
        if len(compared) == 2:
            return {Winner.field: ranking[0]}
        return {self.field: ranking}

    def encode(self, said: Any, shown: ShownOptions) -> dict[int, float]:
        """See base class."""
        return {place: float(rank + 1) for rank, place in enumerate(said)}

    def said_by(self, values: Mapping[int, float], shown: ShownOptions) -> Any:
        """See base class."""
        return sorted(values, key=values.__getitem__)

    def decode(self, groups: Groups, num_levels: int | None) -> Rankings | None:
        """See base class."""
        rankings = sorted_sets(self.metric, groups, descending=False)
        return None if rankings is None else Rankings(rankings)

    def preferences(self, said: Any, shown: ShownOptions) -> tuple[Pairs, Pairs]:
        """See base class."""
        return list(combinations(said, 2)), []


class OptionValues(AnswerKind):
    """A value for each option, or None for an option that was given none."""

    @abstractmethod
    def checked_value(self, given: object, shown: ShownOptions) -> float:
        """The value of one option.

        Args:
            given: What was given, not None.
            shown: The options.

        Raises:
            ExperimentError: It is no such value.
        """

    def checked(self, given: Any, shown: ShownOptions) -> dict[str, Any]:
        """See base class."""
        if isinstance(given, str) or not isinstance(given, Sequence):
            raise ExperimentError(
                f"{self.field} is {written(given)}; give a list, one for each option."
            )
        nothing = all(value is None for value in given)
        if len(given) != shown.num_options or nothing:
            raise ExperimentError(
                f"{self.field} is {written(list(given))}, and there were "
                f"{shown.num_options} options; give one for each, or None."
            )
        values = (None if v is None else self.checked_value(v, shown) for v in given)
        return {self.field: tuple(values)}

    def encode(self, said: Any, shown: ShownOptions) -> dict[int, float]:
        """See base class."""
        return {place: float(v) for place, v in enumerate(said) if v is not None}


def checked_fraction(field: str, given: Any) -> float:
    """A number strictly between 0 and 1, rounded as Ax stores it.

    Args:
        field: To name in messages.
        given: What was given.

    Raises:
        ExperimentError: It is no such number.
    """
    number = finite_number(given)
    if number is None:
        raise ExperimentError(f"{field} holds {written(given)}; give a finite number.")
    if not 0 < (value := round(number, DECIMALS)) < 1:
        raise ExperimentError(f"{field} holds {given}, which is not between 0 and 1.")
    return value


class Strength(AnswerKind):
    """``strength=0.8``: 0.8 for the first option, 0.2 for the second."""

    field = "strength"
    metric = "preference_strength"
    compares = True

    def checked(self, given: Any, shown: ShownOptions) -> dict[str, Any]:
        """See base class."""
        shown.pair(self.field)
        return {self.field: checked_fraction(self.field, given)}

    def encode(self, said: Any, shown: ShownOptions) -> dict[int, float]:
        """See base class."""
        return dict(zip(shown.valid, (said, round(1 - said, DECIMALS)), strict=True))

    def said_by(self, values: Mapping[int, float], shown: ShownOptions) -> Any:
        """See base class."""
        return values[min(values)]

    def decode(self, groups: Groups, num_levels: int | None) -> Strengths | None:
        """See base class."""
        found = [(pair_of(self.metric, t, group), group) for t, group in groups]
        if not found:
            return None
        values = [group[pair[0]] for pair, group in found]
        return Strengths(
            torch.tensor([pair for pair, _ in found]),
            torch.tensor(values, dtype=torch.float64),
        )

    def preferences(self, said: Any, shown: ShownOptions) -> tuple[Pairs, Pairs]:
        """See base class. One of 0.5 is a tie."""
        first, second = shown.valid
        if said == 0.5:
            return [], [(first, second)]
        return [(first, second) if said > 0.5 else (second, first)], []


class OptionRatings(OptionValues):
    """``ratings=[0.7, 0.4]``: the rating of each option that was rated."""

    field = "ratings"
    metric = "preference_rating"

    def checked_value(self, given: object, shown: ShownOptions) -> float:
        """See base class."""
        return checked_fraction(self.field, given)

    def said_by(self, values: Mapping[int, float], shown: ShownOptions) -> Any:
        """See base class."""
        return [*map(values.get, shown.places)]

    def decode(self, groups: Groups, num_levels: int | None) -> Ratings | None:
        """See base class."""
        found = points_and_values(groups)
        return None if found is None else Ratings(*found)


_NUM_LEVELS = "num_levels"
"""The property of the metric that says how many levels there are."""


class OptionLevels(OptionValues):
    """``levels=[4, None]``: the level of each option that has one, 0 for the lowest."""

    field = "levels"
    metric = "preference_level"

    def made_metric(self, num_levels: int | None) -> Metric:
        """See base class."""
        scale = {} if num_levels is None else {_NUM_LEVELS: num_levels}
        return Metric(self.metric, properties=scale)

    def checked_value(self, given: object, shown: ShownOptions) -> int:
        """See base class."""
        if shown.num_levels is None:
            raise ExperimentError(
                "The experiment has no scale of levels; create it with num_levels=, or "
                "give ratings between 0 and 1."
            )
        if not is_integer(given) or given not in range(shown.num_levels):
            raise ExperimentError(
                f"{self.field} holds {written(given)}; levels go from 0 to "
                f"{shown.num_levels - 1}."
            )
        return int(given)  # type: ignore[call-overload]

    def said_by(self, values: Mapping[int, float], shown: ShownOptions) -> Any:
        """See base class."""
        return [None if v is None else _whole(v) for v in map(values.get, shown.places)]

    def decode(self, groups: Groups, num_levels: int | None) -> OrdinalRatings | None:
        """See base class."""
        found = points_and_values(groups)
        if found is None:
            return None
        if num_levels is None:
            raise ExperimentError(
                f"There are data of {self.metric}, whose metric does not say how many "
                "levels there are; create the experiment with num_levels=."
            )
        points, levels = found
        return OrdinalRatings(points, levels.round().long(), num_levels)


def _whole(value: float) -> float:
    return int(value) if value.is_integer() else value


def number_of_levels(experiment: Experiment) -> int | None:
    """Number of levels of the scale of an experiment; None without a scale.

    Args:
        experiment: Ax's.
    """
    metric = experiment.metrics.get(OptionLevels.metric)
    return None if metric is None else metric.properties.get(_NUM_LEVELS)


class Invalid(AnswerKind):
    """``invalid=[0]``: 1 for an option that could be judged, 0 for one that failed."""

    field = "invalid"
    metric = "preference_valid"

    def checked(self, given: Any, shown: ShownOptions) -> dict[str, Any]:
        """See base class."""
        failed = checked_places(self.field, given, shown.places)
        return {self.field: tuple(sorted(failed))}

    def encode(self, said: Any, shown: ShownOptions) -> dict[int, float]:
        """See base class."""
        return {place: float(place not in said) for place in shown.places}

    def said_by(self, values: Mapping[int, float], shown: ShownOptions) -> Any:
        """See base class."""
        return tuple(place for place, value in values.items() if value == 0)

    def decode(self, groups: Groups, num_levels: int | None) -> Validity | None:
        """See base class."""
        found = points_and_values(groups)
        return None if found is None else Validity(found[0], found[1] > 0.5)
