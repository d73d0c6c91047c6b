"""The better one of two options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from ax.core.metric import Metric
from ax.utils.common.constants import Keys

from botorch_pref.ax.answers.kinds.answer_kind import AnswerKind, Pairs
from botorch_pref.ax.answers.kinds.metric_data import Group, Groups, pair_of
from botorch_pref.ax.answers.kinds.shown_options import ShownOptions, checked_places
from botorch_pref.ax.answers.kinds.tie import Tie
from botorch_pref.errors import ExperimentError
from botorch_pref.feedback import Comparisons

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
