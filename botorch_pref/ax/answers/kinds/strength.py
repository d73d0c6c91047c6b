"""Strength of the preference for the first of two options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from botorch_pref.ax.answers.kinds.answer_kind import AnswerKind, Pairs
from botorch_pref.ax.answers.kinds.metric_data import DECIMALS, Groups, pair_of
from botorch_pref.ax.answers.kinds.option_values import checked_fraction
from botorch_pref.ax.answers.kinds.shown_options import ShownOptions
from botorch_pref.feedback import Strengths


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
