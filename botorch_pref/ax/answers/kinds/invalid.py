"""Options that failed and could not be judged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from botorch_pref.ax.answers.kinds.answer_kind import AnswerKind
from botorch_pref.ax.answers.kinds.metric_data import Groups, points_and_values
from botorch_pref.ax.answers.kinds.shown_options import ShownOptions, checked_places
from botorch_pref.feedback import Validity


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
