"""The order of all options."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any

from botorch_pref.ax.answers.kinds.answer_kind import AnswerKind, Pairs
from botorch_pref.ax.answers.kinds.metric_data import Groups, sorted_sets
from botorch_pref.ax.answers.kinds.shown_options import ShownOptions, checked_places
from botorch_pref.ax.answers.kinds.winner import Winner
from botorch_pref.errors import ExperimentError
from botorch_pref.feedback import Rankings


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
