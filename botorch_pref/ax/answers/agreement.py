"""Check that the log, the data and the space of a loaded experiment agree."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from ax.core.base_trial import BaseTrial
from ax.core.batch_trial import BatchTrial
from ax.core.experiment import Experiment
from ax.core.trial_status import TrialStatus
from pandas import DataFrame

from botorch_pref.ax.answers.answer import Answer, checked_answer
from botorch_pref.ax.answers.circumstances import Circumstances
from botorch_pref.ax.answers.kinds.metric_data import DECIMALS
from botorch_pref.ax.answers.kinds.option_levels import number_of_levels
from botorch_pref.ax.space.catalogue import Catalogue
from botorch_pref.ax.storage.events import (
    ASKED,
    TOLD,
    UNDONE,
    WITHDRAWN,
    events_of,
    options_shown,
    standing_event,
)
from botorch_pref.errors import ExperimentError, StorageError

Values = dict[tuple[str, str], float]
"""Data of one question: values by arm and metric."""


def check_agreement(experiment: Experiment) -> None:
    """Checks that an experiment is what its log says.

    The log is what was asked and said; arms, statuses and data follow from it.

    Args:
        experiment: Ax's, as it was loaded, with a log that counts its events.

    Raises:
        StorageError: Something differs, was lost, or cannot have been said.
    """
    data = _values(experiment.lookup_data().full_df)
    if unknown := sorted(data.keys() - experiment.trials.keys()):
        raise StorageError(
            f"{experiment.name!r} has data of the questions {unknown}, which are lost."
        )
    if sorted(experiment.trials) != [*range(len(experiment.trials))]:
        raise StorageError(
            f"{experiment.name!r} has the questions {sorted(experiment.trials)}, which "
            "should count from 0; some are lost."
        )
    catalogue = Catalogue.of(experiment)
    for index, trial in experiment.trials.items():
        _check_order(trial)
        _check_arms(trial, catalogue)
        answer = _answer(trial)
        _check_status(trial, answer)
        _check_data(trial, answer, data.get(index, {}))


def _values(table: DataFrame) -> dict[int, Values]:
    found: dict[int, Values] = {}
    columns = ("trial_index", "arm_name", "metric_name", "mean")
    rows = zip(*(table[column] for column in columns), strict=True)
    for index, arm, metric, value in rows:
        values = found.setdefault(int(index), {})
        if (arm, metric) in values:
            raise StorageError(f"Trial {index} has two data of {metric} for {arm}.")
        values[arm, metric] = round(float(value), DECIMALS)
    return found


_AFTER = {
    ASKED: (TOLD, WITHDRAWN),
    TOLD: (WITHDRAWN, UNDONE),
    WITHDRAWN: (TOLD,),
    UNDONE: (TOLD, WITHDRAWN),
}
"""What can happen to a question next."""


def _check_order(trial: BaseTrial) -> None:
    """Asked once and first, told when nothing stands, taken back once at a time."""
    kinds = [event.kind for event in events_of(trial)]
    if kinds[:1] != [ASKED] or any(
        after not in _AFTER.get(before, ()) for before, after in pairwise(kinds)
    ):
        raise StorageError(
            f"By its log, trial {trial.index} was {', '.join(kinds) or 'never asked'}, "
            "which cannot be."
        )


def _check_arms(trial: BaseTrial, catalogue: Catalogue | None) -> None:
    assert isinstance(trial, BatchTrial)
    space = trial.experiment.search_space
    for arm in options_shown(trial):
        numbers = [v for v in arm.parameters.values() if isinstance(v, float)]
        inside = all(map(math.isfinite, numbers))
        if not inside or not space.check_membership(arm.parameters):
            raise StorageError(
                f"Trial {trial.index} shows {arm.name}, {arm.parameters}, which is "
                "not in the search space."
            )
        if catalogue is not None and catalogue.rows.get(arm.name) != arm.parameters:
            raise StorageError(
                f"Trial {trial.index} shows {arm.name}, {arm.parameters}, which is no "
                "row of the catalogue."
            )


def _answer(trial: BaseTrial) -> Answer | None:
    event = standing_event(trial)
    if event is None:
        return None
    size, said = len(trial.arms), event.said
    try:
        answer = checked_answer(size, number_of_levels(trial.experiment), **said)
        around = Circumstances.of_event(event, size)
    except (ExperimentError, TypeError) as error:
        raise StorageError(
            f"The log of trial {trial.index} has the answer {said}, which nobody can "
            f"have given: {error}"
        ) from error
    read = {**answer.given(), **around.given()}
    if read != event.what:
        raise StorageError(
            f"The log of trial {trial.index} has the answer {dict(event.what)} instead "
            f"of {read}."
        )
    return answer


def _check_status(trial: BaseTrial, answer: Answer | None) -> None:
    status = TrialStatus.COMPLETED
    if answer is None:
        waits = events_of(trial)[-1].kind in (ASKED, UNDONE)
        status = TrialStatus.RUNNING if waits else TrialStatus.ABANDONED
    elif answer.cannot_compare:
        status = TrialStatus.ABANDONED
    if trial.status != status:
        raise StorageError(
            f"Trial {trial.index} is {trial.status.name}, and by its log it is "
            f"{status.name}."
        )


def _check_data(trial: BaseTrial, answer: Answer | None, values: Values) -> None:
    assert isinstance(trial, BatchTrial)
    arms = options_shown(trial)
    rows: Mapping[str, Mapping[int, Any]] = {}
    if answer is not None:
        rows = answer.rows(len(arms))
    told = {
        (arms[i].name, metric): round(float(value), DECIMALS)
        for metric, by_option in rows.items()
        for i, value in by_option.items()
    }
    if values != told:
        raise StorageError(
            f"The log of trial {trial.index} says {told or 'nothing'}, and its data "
            f"say {values or 'nothing'}."
        )
