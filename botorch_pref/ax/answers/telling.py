"""Changes of a question's trial when it is asked and told."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ax.core.base_trial import BaseTrial
from ax.core.batch_trial import BatchTrial
from ax.core.data import Data, DataRow
from ax.core.experiment import Experiment
from ax.core.generator_run import GeneratorRun
from pandas.api.types import is_integer

from botorch_pref.ax.answers.answer import Answer, checked_answer
from botorch_pref.ax.answers.circumstances import Circumstances, check_told_apart
from botorch_pref.ax.answers.kinds.option_levels import number_of_levels
from botorch_pref.ax.answers.taken_answers import check_taken
from botorch_pref.ax.given_values import written
from botorch_pref.ax.question import Question
from botorch_pref.ax.settings import Settings
from botorch_pref.ax.space.catalogue import Catalogue
from botorch_pref.ax.storage.events import (
    ASKED,
    PERSON,
    REPEATS,
    TOLD,
    asked_rater,
    options_shown,
    record,
    standing_event,
)
from botorch_pref.errors import ExperimentError


def asked_trial(experiment: Experiment, question: Question | int) -> BatchTrial:
    """The trial of a question.

    Args:
        experiment: Ax's.
        question: The question, or its index.

    Raises:
        ExperimentError: There is no such question.
    """
    index = question.index if isinstance(question, Question) else question
    if not is_integer(index) or index not in experiment.trials:
        raise ExperimentError(
            f"There is no question {written(index)}; those asked so far are "
            f"{list(experiment.trials)}."
        )
    trial = batch(experiment.trials[int(index)])
    if isinstance(question, Question) and Question.of_trial(trial) != question:
        raise ExperimentError(
            f"Question {index} of {experiment.name!r} shows other options; this one is "
            "of another experiment."
        )
    return trial


def ask_about(
    experiment: Experiment,
    run: GeneratorRun,
    rater: str | None = None,
    order: Sequence[int] | None = None,
) -> BatchTrial:
    """A new question: a trial that runs, and an event.

    Args:
        experiment: Ax's.
        run: The options; without a generator, a person's own.
        rater: Who is asked.
        order: The places of the options in the order in which they are shown; as they
            come in the run, if there is none.
    """
    catalogue = Catalogue.of(experiment)
    if catalogue is not None:
        catalogue.name_arms(run)
    trial = experiment.new_batch_trial(generator_run=run)
    trial.mark_running(no_runner_required=True)
    arms = trial.arms
    asked = {
        "options": [arms[i].name for i in order or range(len(arms))],
        "chosen_by": run._generator_key or PERSON,
    }
    earlier = (run.gen_metadata or {}).get(REPEATS)
    known = {"rater": rater, REPEATS: earlier}
    record(trial, ASKED, **asked, **{k: v for k, v in known.items() if v is not None})
    return trial


def new_answer(
    trial: BatchTrial,
    settings: Settings,
    around: Circumstances,
    said: dict[str, Any],
) -> Answer | None:
    """The answer to a question, checked; nothing is changed.

    Args:
        trial: Of the question.
        settings: Of the experiment.
        around: See `circumstances_of`.
        said: See `Answer`.

    Returns:
        The answer; None if the question has it already, of the same rater, with the
        same note.

    Raises:
        ExperimentError: The question has another answer, this cannot be an answer to
            it, or the model takes no such answer.
    """
    size, levels = len(trial.arms), number_of_levels(trial.experiment)
    answer = checked_answer(size, levels, **said)
    before = standing_event(trial)
    if before is None:
        check_told_apart(settings, around)
        check_taken(settings, answer, size, levels)
        return answer
    earlier = Circumstances.of_event(before, size)
    same_words = (earlier.rater, earlier.note) == (around.rater, around.note)
    if before.said == answer.given() and same_words:
        return None
    raise ExperimentError(
        f"Question {trial.index} has the answer {dict(before.what)}; withdraw it or "
        "undo it before you give another one."
    )


def circumstances_of(trial: BatchTrial, **given: Any) -> Circumstances:
    """Circumstances of an answer to a question, checked.

    Args:
        trial: Of the question.
        given: Fields of `Circumstances`. Who was asked is who answers.

    Raises:
        ExperimentError: They cannot be, or somebody else was asked.
    """
    asked, around = asked_rater(trial), Circumstances.checked(len(trial.arms), **given)
    if asked is None or asked == around.rater:
        return around
    if around.rater is not None:
        raise ExperimentError(
            f"Question {trial.index} was asked of {asked!r}, and {around.rater!r} "
            "answers; ask about its options anew, with rater= and options=."
        )
    return replace(around, rater=asked)


def give_answer(trial: BatchTrial, answer: Answer, around: Circumstances) -> BatchTrial:
    """A trial with its answer: data, status and an event.

    Args:
        trial: Of the question; changed.
        answer: See `new_answer`.
        around: See `circumstances_of`.
    """
    if answer.cannot_compare:
        trial.mark_abandoned(reason="cannot compare", unsafe=True)
    else:
        trial.experiment.attach_data(_data(trial, answer))
        trial.mark_completed(unsafe=True)
    record(trial, TOLD, **answer.given(), **around.given())
    return trial


def batch(trial: BaseTrial) -> BatchTrial:
    """A trial as the batch trial that it is.

    Args:
        trial: Of a question.
    """
    assert isinstance(trial, BatchTrial)
    return trial


def _data(trial: BatchTrial, answer: Answer) -> Data:
    arms = options_shown(trial)
    return Data(
        data_rows=[
            DataRow(trial.index, arms[i].name, metric, metric, value, math.nan)
            for metric, values in answer.rows(len(arms)).items()
            for i, value in values.items()
        ]
    )
