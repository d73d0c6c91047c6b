"""Options that a person is asked to judge."""

from __future__ import annotations

from dataclasses import dataclass

from ax.core.batch_trial import BatchTrial
from ax.core.types import TParameterization

from botorch_pref.ax.storage.events import asked_rater, options_shown


@dataclass(frozen=True)
class Question:
    """Two options to compare, or more to choose from or to rank.

    Attributes:
        index: The number of Ax's trial.
        options: The parameters of each option, by name.
        rater: The name of who is asked; None for whoever answers.
    """

    index: int
    options: tuple[TParameterization, ...]
    rater: str | None = None

    @classmethod
    def of_trial(cls, trial: BatchTrial) -> Question:
        """The question that a trial asks.

        Args:
            trial: Ax's trial; its arms are the options.
        """
        options = tuple(dict(arm.parameters) for arm in options_shown(trial))
        return cls(trial.index, options, asked_rater(trial))
