"""Answer that was given elsewhere, with its options."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

from ax.core.batch_trial import BatchTrial
from ax.core.experiment import Experiment
from ax.core.generator_run import GeneratorRun

from botorch_pref.ax.answers import telling
from botorch_pref.ax.answers.answer import Answer, checked_answer
from botorch_pref.ax.answers.answer_table import TableRow
from botorch_pref.ax.answers.circumstances import Circumstances, check_told_apart
from botorch_pref.ax.answers.kinds.option_levels import number_of_levels
from botorch_pref.ax.answers.taken_answers import check_taken
from botorch_pref.ax.settings import Settings
from botorch_pref.ax.space.own_options import own_options
from botorch_pref.errors import ExperimentError


@dataclass(frozen=True)
class RecordedAnswer:
    """Answer about options that no question of the experiment has shown yet.

    Attributes:
        options: What was compared.
        answer: What was said.
        around: Who said it and how.
    """

    options: GeneratorRun
    answer: Answer
    around: Circumstances

    @classmethod
    def checked(
        cls,
        experiment: Experiment,
        settings: Settings,
        options: object,
        given: Mapping[str, Any],
    ) -> Self:
        """An answer that the experiment can keep; nothing is changed.

        Args:
            experiment: Ax's.
            settings: Of the experiment.
            options: See `own_options`.
            given: Fields of `Circumstances` and of `Answer`.

        Raises:
            ExperimentError: Options that the search space does not have, or what cannot
                be an answer about them, or none that the model takes.
        """
        run = own_options(experiment, options)
        names = {attribute.name for attribute in fields(Circumstances)}
        said = {k: v for k, v in given.items() if k not in names}
        size, levels = len(run.arms), number_of_levels(experiment)
        answer = checked_answer(size, levels, **said)
        around = {k: v for k, v in given.items() if k in names}
        circumstances = Circumstances.checked(size, **around)
        check_told_apart(settings, circumstances)
        check_taken(settings, answer, size, levels)
        return cls(run, answer, circumstances)

    def added_to(self, experiment: Experiment) -> BatchTrial:
        """An experiment's new question, which has this answer.

        Args:
            experiment: Ax's; changed.
        """
        trial = telling.ask_about(experiment, self.options, self.around.rater)
        return telling.give_answer(trial, self.answer, self.around)


def recorded_answers(
    experiment: Experiment, settings: Settings, rows: Iterable[TableRow]
) -> list[RecordedAnswer]:
    """Answers of a table that the experiment can keep; nothing is changed.

    Args:
        experiment: Ax's.
        settings: Of the experiment.
        rows: See `table_rows`.

    Raises:
        ExperimentError: One cannot be kept; the message names its row.
    """
    checked = []
    for row in rows:
        try:
            answer = RecordedAnswer.checked(experiment, settings, row.options, row.said)
        except ExperimentError as error:
            raise ExperimentError(
                f"Row {row.label!r} of the answers: {error}"
            ) from error
        checked.append(answer)
    if not checked:
        raise ExperimentError("The table of answers has no rows.")
    return checked
