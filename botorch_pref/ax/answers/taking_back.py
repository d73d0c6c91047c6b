"""Changes of a question's trial when its answer is withdrawn or undone."""

from __future__ import annotations

from ax.core.batch_trial import BatchTrial
from ax.core.data import Data
from ax.core.experiment import Experiment

from botorch_pref.ax.answers.telling import batch
from botorch_pref.ax.storage.events import (
    UNDONE,
    WITHDRAWN,
    record,
    standing_answer,
    standing_event,
)
from botorch_pref.errors import ExperimentError


def is_taken_back(trial: BatchTrial) -> bool:
    """Whether a question was withdrawn and not told anew.

    Args:
        trial: Of the question.
    """
    return standing_answer(trial) is None and trial.status.is_abandoned


def take_back(trial: BatchTrial) -> BatchTrial:
    """A trial that is abandoned, without its data, with an event.

    Args:
        trial: Of the question; changed.
    """
    _remove_data(trial)
    trial.mark_abandoned(reason="withdrawn", unsafe=True)
    record(trial, WITHDRAWN)
    return trial


def last_answered(experiment: Experiment, rater: str | None) -> BatchTrial:
    """The trial of the latest of the answers that stand.

    Args:
        experiment: Ax's.
        rater: Whose; None for anybody's.

    Raises:
        ExperimentError: There is none.
    """
    told = [
        event
        for event in map(standing_event, experiment.trials.values())
        if event is not None and rater in (None, event.what.get("rater"))
    ]
    if not told:
        whose = "" if rater is None else f" of {rater!r}"
        raise ExperimentError(f"There is no answer{whose} that could be undone.")
    last = max(told, key=lambda event: event.number)
    return batch(experiment.trials[last.trial])


def undo_answer(trial: BatchTrial) -> BatchTrial:
    """A trial that runs as before its answer, with an event.

    Args:
        trial: Of the question; changed.
    """
    _remove_data(trial)
    trial.mark_running(
        no_runner_required=True, unsafe=True, started_time=trial.time_run_started
    )
    # Ax never goes back from these.
    trial._time_completed = None
    trial._status_reason = None
    record(trial, UNDONE)
    return trial


def _remove_data(trial: BatchTrial) -> None:
    experiment = trial.experiment
    data = experiment.data.full_df
    experiment.data = Data(df=data[data["trial_index"] != trial.index])
