"""Answers that stand, as they were given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ax.core.batch_trial import BatchTrial
from ax.core.experiment import Experiment

from botorch_pref.ax import PreferenceExperiment, Question
from botorch_pref.ax.log import UNDONE, WITHDRAWN
from botorch_pref.ax.one_at_a_time import one_at_a_time
from botorch_pref.ax.projection import events_of, standing_event
from botorch_pref.errors import ExperimentError
from botorch_pref.web.asking.answer_conflict import AnswerConflictError


@dataclass(frozen=True)
class AnsweredQuestion:
    """Question with the answer that stands.

    Attributes:
        question: What was asked.
        said: The answer, by keyword of ``tell``.
        rater: Who answered; None for nobody in particular.
        time: In UTC, ISO 8601.
        number: The place of the answer in the log.
    """

    question: Question
    said: dict[str, Any]
    rater: str | None
    time: str
    number: int


def answered_questions(experiment: Experiment) -> list[AnsweredQuestion]:
    """All answers that stand, the latest first.

    Args:
        experiment: Ax's.
    """
    found = []
    for trial in list(experiment.trials.values()):
        event = standing_event(trial)
        if event is not None:
            assert isinstance(trial, BatchTrial)
            question, rater = Question.of_trial(trial), event.what.get("rater")
            found.append(
                AnsweredQuestion(question, event.said, rater, event.time, event.number)
            )
    return sorted(found, key=lambda answered: -answered.number)


def last_answered(experiment: Experiment, rater: str | None) -> int | None:
    """The number of the question whose answer a rater can undo.

    Args:
        experiment: Ax's.
        rater: Who answered it.

    Returns:
        The number; None if there is none, or if `rater` is None and the last answer of
        all is that of somebody with a name.
    """
    answers = answered_questions(experiment)
    last = next((one for one in answers if rater in (None, one.rater)), None)
    return last.question.index if last is not None and last.rater == rater else None


def check_asked(experiment: Experiment, index: int) -> None:
    """Checks that a question has been asked.

    Args:
        experiment: Ax's.
        index: The number of the question.

    Raises:
        ExperimentError: It has not.
    """
    if index not in experiment.trials:
        raise ExperimentError(f"There is no question {index} in this experiment.")


def is_answered(experiment: Experiment, index: int) -> bool:
    """Whether a question has an answer that stands.

    Args:
        experiment: Ax's.
        index: The number of the question, or any other number.
    """
    trial = experiment.trials.get(index)
    return trial is not None and standing_event(trial) is not None


@one_at_a_time
def withdraw_unanswered(experiment: PreferenceExperiment, index: int) -> bool:
    """Withdraws a question, unless somebody has answered it by now.

    Args:
        experiment: Whose question it is.
        index: The number of the question.

    Returns:
        Whether it is withdrawn.
    """
    if is_answered(experiment.experiment, index):
        return False
    experiment.withdraw(index)
    return True


@one_at_a_time
def undo_once(
    experiment: PreferenceExperiment, rater: str | None, index: int
) -> Question:
    """Undoes the last answer of a rater, unless that has been done by now.

    Args:
        experiment: Whose answer it is.
        rater: Who answered.
        index: The number of the question.

    Returns:
        The question, which has no answer any more. One that was skipped had none.

    Raises:
        AnswerConflictError: The rater has answered another question since.
        ExperimentError: There is no such question.
    """
    check_asked(experiment.experiment, index)
    question = experiment.question(index)
    trial = experiment.experiment.trials[index]
    taken_back = events_of(trial)[-1].kind in (UNDONE, WITHDRAWN)
    if taken_back and question.rater in (None, rater):
        return question
    if last_answered(experiment.experiment, rater) != index:
        raise AnswerConflictError(
            "You answered or skipped another question after this one, so this answer "
            "is kept. Undo the later one first."
        )
    return experiment.undo(rater=rater)
