"""Ratings of options between 0 and 1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from botorch_pref.ax.answers.kinds.metric_data import Groups, points_and_values
from botorch_pref.ax.answers.kinds.option_values import OptionValues, checked_fraction
from botorch_pref.ax.answers.kinds.shown_options import ShownOptions
from botorch_pref.feedback import Ratings


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
