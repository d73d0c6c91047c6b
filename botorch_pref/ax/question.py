"""Options that a person is asked to judge."""

from __future__ import annotations

from dataclasses import dataclass, field

from ax.core.batch_trial import BatchTrial
from ax.core.types import TParameterization

from botorch_pref.ax.log import LoggedQuestion
from botorch_pref.ax.projection import asked_rater, options_shown


@dataclass(frozen=True)
class Question:
    """Two options to compare, or more to choose from or to rank.

    Attributes:
        index: The number of Ax's trial.
        options: The parameters of each option, by name.
        rater: The name of who is asked; None for whoever answers.
        names: The names of the options' arms: of a catalogue, the ids of the rows.
    """

    index: int
    options: tuple[TParameterization, ...]
    rater: str | None = None
    names: tuple[str, ...] = field(default=(), compare=False)

    @classmethod
    def of_trial(cls, trial: BatchTrial) -> Question:
        """The question that a trial asks.

        Args:
            trial: Ax's trial; its arms are the options.
        """
        arms = options_shown(trial)
        options = tuple(dict(arm.parameters) for arm in arms)
        names = tuple(arm.name for arm in arms)
        return cls(trial.index, options, asked_rater(trial), names)

    @classmethod
    def of_logged(cls, logged: LoggedQuestion) -> Question:
        """A question of the log.

        Args:
            logged: With everything that happened to it.
        """
        options = tuple(dict(option.parameters) for option in logged.options)
        names = tuple(option.name for option in logged.options)
        return cls(logged.index, options, logged.rater, names)
