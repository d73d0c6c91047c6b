"""Records of who answered, and changes of the log that calls make once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from botorch_pref.ax import PreferenceExperiment, Question
from botorch_pref.ax.events import PERSON, TOLD, UNDONE, WITHDRAWN
from botorch_pref.ax.log import Log
from botorch_pref.ax.stored_log import one_at_a_time
from botorch_pref.errors import StorageError
from botorch_pref.web.call_arguments import AnswerConflictError

T = TypeVar("T")

# --- What the log says

MAX_MISSING = 50
"""Answers that a question may lack that was chosen ahead; else another is chosen."""


def answer_to_undo(log: Log, rater: str | None) -> int | None:
    """Returns the number of the question whose answer a rater can undo, or None.

    Nobody in particular (None) undoes the last answer without a name; to
    `Log.last_answer` None is anybody.
    """
    return next(
        (answer.question for answer in log.answers() if answer.rater == rater), None
    )


def is_answered(log: Log, index: int) -> bool:
    """Tells whether there is such a question, and it has an answer that stands."""
    exists = index in range(len(log.questions))
    return exists and log.questions[index].standing is not None


def num_answers_of(log: Log, rater: str | None) -> int:
    """Counts the answers of a rater that stand, or those without a name (None)."""
    return sum(answer.rater == rater for answer in log.answers())


def is_outdated(log: Log, index: int) -> bool:
    """Tells whether more than `MAX_MISSING` answers came after a question was asked.

    Such a question is not displayed any more: the model would choose better now. One
    about a person's own designs, or asked again, is never outdated.
    """
    content, answers = log.questions[index].content, 0
    if content.get("chosen_by") == PERSON or "repeats" in content:
        return False
    for event in reversed(log.events):
        answers += event.kind == TOLD
        if answers > MAX_MISSING or event is log.questions[index].events[0]:
            break
    return answers > MAX_MISSING


# --- Changes


def again_if_refused(change: Callable[..., T], *args: Any, **keywords: Any) -> T:
    """Makes a change, once more where another process wrote before it."""
    try:
        return change(*args, **keywords)
    except StorageError:
        # The experiment has read by now what the other one wrote.
        return change(*args, **keywords)


@one_at_a_time
def withdraw_unanswered(experiment: PreferenceExperiment, index: int) -> bool:
    """Withdraws a question unless it has an answer; tells whether it did."""
    if is_answered(experiment.log, index):
        return False
    experiment.withdraw(index)
    return True


@one_at_a_time
def undo_once(
    experiment: PreferenceExperiment, rater: str | None, index: int
) -> Question:
    """Undoes the last answer of a rater, and returns its question.

    A question that is without an answer by now, as one that was skipped, is returned
    as it is: the same call may arrive twice.
    """
    question, log = experiment.question(index), experiment.log
    taken_back = log.questions[index].events[-1].kind in (UNDONE, WITHDRAWN)
    if taken_back and question.rater in (None, rater):
        return question
    standing = log.questions[index].standing
    if standing is None:
        raise AnswerConflictError("This question has no answer that could be undone.")
    if standing.rater != rater:
        raise AnswerConflictError(
            "Somebody else gave this answer; it is undone under the name that it was "
            "given under."
        )
    if answer_to_undo(log, rater) != index:
        raise AnswerConflictError(
            "You answered or skipped another question after this one, so this answer "
            "is kept. Undo the later one first."
        )
    return experiment.undo(index)


@one_at_a_time
def ask_once(
    experiment: PreferenceExperiment,
    rater: str | None,
    options: Sequence[Mapping[str, Any]],
) -> Question:
    """Asks a rater about these options; returns the question if it is pending already.

    The call may arrive twice.
    """
    # The order of display does not count.
    about = (rater, len(options))
    for pending in experiment.pending:
        designs = pending.options
        if (pending.rater, len(designs)) == about and all(
            o in designs for o in options
        ):
            return pending
    return experiment.ask(options=options, rater=rater)
