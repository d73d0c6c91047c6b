"""Two options that are equally good."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from botorch_pref.ax.answers.kinds.answer_kind import AnswerKind, Pairs
from botorch_pref.ax.answers.kinds.metric_data import Groups, pair_of
from botorch_pref.ax.answers.kinds.shown_options import ShownOptions
from botorch_pref.feedback import Comparisons


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
