"""Questions, and answers that are told, recorded and undone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

from ax.core.batch_trial import BatchTrial
from ax.core.experiment import Experiment
from ax.core.types import TParameterization
from pandas.api.types import is_integer

from botorch_pref.ax.answer_table import TableRow
from botorch_pref.ax.answers import (
    Answer,
    Circumstances,
    check_taken,
    check_told_apart,
    checked_answer,
)
from botorch_pref.ax.given import written
from botorch_pref.ax.log import TOLD, Draft, Log, LoggedQuestion
from botorch_pref.ax.projection import asked_rater, options_shown
from botorch_pref.ax.space.catalogue import PROPERTY as CATALOGUE
from botorch_pref.ax.space.catalogue import Catalogue
from botorch_pref.ax.space.options import own_options
from botorch_pref.errors import ExperimentError

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


def asked_question(log: Log, question: Question | int) -> LoggedQuestion:
    """A question of the log.

    Args:
        log: Of the experiment.
        question: The question, or its index.

    Raises:
        ExperimentError: There is no such question.
    """
    index = question.index if isinstance(question, Question) else question
    if not is_integer(index) or index not in range(len(log.questions)):
        raise ExperimentError(
            f"There is no question {written(index)}; {len(log.questions)} were asked "
            "so far, counted from 0."
        )
    found = log.questions[int(index)]
    if isinstance(question, Question) and Question.of_logged(log, found) != question:
        raise ExperimentError(
            f"Question {index} of {log.name!r} shows other options; this one is of "
            "another experiment."
        )
    return found


def circumstances_of(asked: LoggedQuestion, **given: Any) -> Circumstances:
    """Circumstances of an answer to a question, checked.

    Args:
        asked: The question.
        given: Fields of `Circumstances`. Who was asked is who answers.

    Raises:
        ExperimentError: They cannot be, or somebody else was asked.
    """
    around = Circumstances.checked(len(asked.options), **given)
    if asked.rater is None or asked.rater == around.rater:
        return around
    if around.rater is not None:
        raise ExperimentError(
            f"Question {asked.index} was asked of {asked.rater!r}, and "
            f"{around.rater!r} answers; ask about its options anew, with rater= and "
            "options=."
        )
    return replace(around, rater=asked.rater)


def new_answer(
    log: Log, asked: LoggedQuestion, around: Circumstances, said: Mapping[str, Any]
) -> Answer | None:
    """An answer to a question, checked.

    Args:
        log: Of the experiment.
        asked: The question.
        around: See `circumstances_of`.
        said: Fields of `Answer`.

    Returns:
        The answer; None if the question has it already, of the same rater, with the
        same note.

    Raises:
        ExperimentError: The question has another answer, this cannot be an answer to
            it, or the model takes no such answer.
    """
    size = len(asked.options)
    answer = checked_answer(size, log.num_levels, **said)
    before = asked.standing
    if before is None:
        check_told_apart(log.settings, around)
        check_taken(log.settings, answer, size, log.num_levels)
        return answer
    same_words = (before.rater, before.what.get("note")) == (around.rater, around.note)
    if before.said == answer.given() and same_words:
        return None
    raise ExperimentError(
        f"Question {asked.index} has the answer {dict(before.what)}; withdraw it or "
        "undo it before you give another one."
    )


def tell(draft: Draft, index: int, answer: Answer, around: Circumstances) -> None:
    """Answers a question.

    Args:
        draft: To which the answer is added.
        index: The number of the question.
        answer: See `new_answer`.
        around: See `circumstances_of`.
    """
    draft.add(index, TOLD, **answer.given(), **around.given())


def last_answered(log: Log, rater: str | None) -> LoggedQuestion:
    """The question of the latest of the answers that stand.

    Args:
        log: Of the experiment.
        rater: Whose; None for anybody's.

    Raises:
        ExperimentError: There is none.
    """
    for event in reversed(log.events):
        question = log.questions[event.question]
        if question.standing is event and rater in (None, event.rater):
            return question
    whose = "" if rater is None else f" of {rater!r}"
    raise ExperimentError(f"There is no answer{whose} that could be undone.")


@dataclass(frozen=True)
class RecordedAnswer:
    """Answer that was given elsewhere, with its options.

    Attributes:
        options: What was compared.
        answer: What was said.
        around: Who said it and how.
    """

    options: list[TParameterization]
    answer: Answer
    around: Circumstances

    @classmethod
    def checked(cls, log: Log, options: object, given: Mapping[str, Any]) -> Self:
        """An answer that the experiment can keep; nothing is changed.

        Args:
            log: Of the experiment.
            options: See `own_options`.
            given: Fields of `Circumstances` and of `Answer`.

        Raises:
            ExperimentError: Options that the search space does not have, or what cannot
                be an answer about them, or none that the model takes.
        """
        designs = [arm.parameters for arm in own_options(log.blank, options).arms]
        said = {k: v for k, v in given.items() if k not in _CIRCUMSTANCES}
        around = {k: v for k, v in given.items() if k in _CIRCUMSTANCES}
        answer = checked_answer(len(designs), log.num_levels, **said)
        circumstances = Circumstances.checked(len(designs), **around)
        check_told_apart(log.settings, circumstances)
        check_taken(log.settings, answer, len(designs), log.num_levels)
        return cls(designs, answer, circumstances)

    def add_to(self, draft: Draft) -> int:
        """Asks a new question and gives it this answer.

        Args:
            draft: To which both are added.

        Returns:
            The number of the question.
        """
        index = draft.ask(self.options, rater=self.around.rater)
        tell(draft, index, self.answer, self.around)
        return index


_CIRCUMSTANCES = {attribute.name for attribute in fields(Circumstances)}


def recorded_answers(log: Log, rows: Iterable[TableRow]) -> list[RecordedAnswer]:
    """Answers of a table that the experiment can keep; nothing is changed.

    Args:
        log: Of the experiment.
        rows: See `table_rows`.

    Raises:
        ExperimentError: One cannot be kept; the message names its row.
    """
    checked = []
    for row in rows:
        try:
            answer = RecordedAnswer.checked(log, row.options, row.said)
        except ExperimentError as error:
            raise ExperimentError(
                f"Row {row.label!r} of the answers: {error}"
            ) from error
        checked.append(answer)
    if not checked:
        raise ExperimentError("The table of answers has no rows.")
    return checked
