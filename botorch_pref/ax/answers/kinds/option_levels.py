"""The level of each option on an ordered scale."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ax.core.experiment import Experiment
from ax.core.metric import Metric
from pandas.api.types import is_integer

from botorch_pref.ax.answers.kinds.metric_data import Groups, points_and_values
from botorch_pref.ax.answers.kinds.option_values import OptionValues
from botorch_pref.ax.answers.kinds.shown_options import ShownOptions
from botorch_pref.ax.given_values import written
from botorch_pref.errors import ExperimentError
from botorch_pref.feedback import OrdinalRatings

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
