"""Changes of a question's trial when an answer is told or taken back."""

from __future__ import annotations

import math
from typing import Any

from ax.core.base_trial import BaseTrial
from ax.core.batch_trial import BatchTrial
from ax.core.data import Data, DataRow
from ax.core.experiment import Experiment
from pandas.api.types import is_integer

from botorch_pref.ax.answers.answer import Answer, checked_answer
from botorch_pref.ax.answers.kinds.option_levels import number_of_levels
from botorch_pref.ax.answers.taken_answers import check_taken
from botorch_pref.ax.question import Question
from botorch_pref.ax.settings import Settings
from botorch_pref.ax.storage.events import (
    TOLD,
    WITHDRAWN,
    options_shown,
    record,
    standing_answer,
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
            f"There is no question {index!r}; those asked so far are "
            f"{list(experiment.trials)}."
        )
    trial = batch(experiment.trials[int(index)])
    if isinstance(question, Question) and Question.of_trial(trial) != question:
        raise ExperimentError(
            f"Question {index} of {experiment.name!r} shows other options; this one is "
            "of another experiment."
        )
    return trial


def take_answer(trial: BatchTrial, settings: Settings, said: dict[str, Any]) -> bool:
    """Gives a trial its answer: data, status and an event.

    Args:
        trial: Of the question.
        settings: Of the experiment.
        said: See `Answer`.

    Returns:
        Whether anything changed; not if the question has the same answer already.

    Raises:
        ExperimentError: The question has another answer, this cannot be an answer to
            it, or the model takes no such answer.
    """
    size, levels = len(trial.arms), number_of_levels(trial.experiment)
    answer = checked_answer(size, levels, **said)
    before = standing_answer(trial)
    if before == answer.given():
        return False
    if before is not None:
        raise ExperimentError(
            f"Question {trial.index} has the answer {before}; withdraw it before you "
            "give another one."
        )
    check_taken(settings, answer, size, levels)
    if answer.cannot_compare:
        trial.mark_abandoned(reason="cannot compare", unsafe=True)
    else:
        trial.experiment.attach_data(_data(trial, answer))
        trial.mark_completed(unsafe=True)
    record(trial, TOLD, **answer.given())
    return True


def take_back(trial: BatchTrial) -> bool:
    """Abandons a trial and drops its data, with an event.

    Args:
        trial: Of the question.

    Returns:
        Whether anything changed; not if it was taken back already.
    """
    if standing_answer(trial) is None and trial.status.is_abandoned:
        return False
    experiment = trial.experiment
    data = experiment.data.full_df
    experiment.data = Data(df=data[data["trial_index"] != trial.index])
    trial.mark_abandoned(reason="withdrawn", unsafe=True)
    record(trial, WITHDRAWN)
    return True


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
