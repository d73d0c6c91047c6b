"""The best of all options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from botorch_pref.ax.answers.kinds.answer_kind import AnswerKind, Pairs
from botorch_pref.ax.answers.kinds.metric_data import Groups, sorted_sets
from botorch_pref.ax.answers.kinds.shown_options import ShownOptions, checked_places
from botorch_pref.ax.answers.kinds.winner import Winner
from botorch_pref.feedback import Choices


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
