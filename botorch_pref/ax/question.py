"""Options that a person is asked to judge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ax.core.batch_trial import BatchTrial
from ax.core.experiment import Experiment

from botorch_pref.ax.log import Log, LoggedQuestion
from botorch_pref.ax.projection import asked_rater, options_shown
from botorch_pref.ax.space.catalogue import PROPERTY as CATALOGUE
from botorch_pref.ax.space.catalogue import Catalogue

MOST_OPTIONS = 100
"""Of one question; nobody compares more at once."""


class Design(dict[str, Any]):
    """Values of parameters by name, of one design.

    Args:
        parameters: The values.
        id: See below.

    Attributes:
        id: Of its row, where designs are the rows of a catalogue; otherwise None.
    """

    def __init__(self, parameters: Mapping[str, Any], id: str | None = None) -> None:
        super().__init__(parameters)
        self.id = id

    @classmethod
    def of(cls, experiment: Experiment, parameters: Mapping[str, Any]) -> Design:
        """A design of an experiment, with the id of its row if it has one.

        Args:
            experiment: Ax's.
            parameters: Of the design.
        """
        catalogue = Catalogue.of(experiment)
        return cls(
            parameters, None if catalogue is None else catalogue.id_of(parameters)
        )

    def copy(self) -> Design:
        """Another design with the same values and the same id."""
        return Design(self, self.id)

    def __repr__(self) -> str:
        values = super().__repr__()
        return values if self.id is None else f"Design({values}, id={self.id!r})"


@dataclass(frozen=True)
class Question:
    """Two options to compare, or more to choose from or to rank.

    Attributes:
        index: The number of Ax's trial.
        options: The parameters of each option, by name; of a catalogue, with its id.
        rater: The name of who is asked; None for whoever answers.
        names: The names of the options' arms: of a catalogue, the ids of the rows.
    """

    index: int
    options: tuple[Design, ...]
    rater: str | None = None
    names: tuple[str, ...] = field(default=(), compare=False)

    @classmethod
    def of_trial(cls, trial: BatchTrial) -> Question:
        """The question that a trial asks.

        Args:
            trial: Ax's trial; its arms are the options.
        """
        arms = options_shown(trial)
        names = tuple(arm.name for arm in arms)
        rows = CATALOGUE in (trial.experiment._properties or {})
        options = tuple(
            Design(arm.parameters, arm.name if rows else None) for arm in arms
        )
        return cls(trial.index, options, asked_rater(trial), names)

    @classmethod
    def of_logged(cls, log: Log, logged: LoggedQuestion) -> Question:
        """A question of a log.

        Args:
            log: Of the experiment.
            logged: One of its questions.
        """
        rows = log.catalogue is not None
        options = tuple(
            Design(option.parameters, option.name if rows else None)
            for option in logged.options
        )
        names = tuple(option.name for option in logged.options)
        return cls(logged.index, options, logged.rater, names)
