"""Ax's experiment as a projection of the log, in memory, and models' data of it.

A question is a batch trial, which runs until it is answered; its options are arms; an
answer is data of metrics, one for each kind of answer. Everything here follows from the
log, which nothing here changes. Models take their answers from Ax's tables, also of
experiments that are not ours.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import torch
from ax.adapter.data_utils import ExperimentData
from ax.core.arm import Arm
from ax.core.data import Data, DataRow
from ax.core.experiment import Experiment
from ax.core.generator_run import GeneratorRun
from ax.core.trial_status import TrialStatus

from botorch_pref.ax.answers import Answer
from botorch_pref.ax.kinds import (
    DECIMALS,
    OBJECTIVE,
    Values,
    feedback_blocks,
    number_of_levels,
    position,
)
from botorch_pref.ax.log import ASKED, PERSON, Chosen, Event, Log, LoggedQuestion
from botorch_pref.ax.settings import SHARE, Settings
from botorch_pref.errors import ExperimentError
from botorch_pref.models.data import FeedbackDataset

PROPERTY = "preference_events"
"""The property of Ax's trial that holds its events, in order, for Ax's users."""

_RATER, _POSITIONS = "preference_rater", "preference_positions"
"""Properties with the number of who answered, and options' positions by their arms."""

_POSITION = "init_position"
"""Where Ax keeps how many points of the Sobol sequence were used."""


def chosen_by(run: GeneratorRun) -> Chosen:
    """Options that a generator chose, as the log keeps them."""
    state = run._generator_state_after_gen or {}
    generated = {"node": run._generation_node_name, "position": state.get(_POSITION)}
    known = {key: value for key, value in generated.items() if value is not None}
    options = [arm.parameters for arm in run.arms]
    return Chosen(options, run._generator_key or PERSON, generated=known or None)


class Projection:
    """A log, and Ax's experiment of it, which follows it when it is wanted."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self._experiment = log.definition.made()
        self._seen = 0
        self._rows: dict[int, list[DataRow]] = {}

    def experiment(self) -> Experiment:
        """Ax's experiment, with everything that the log has by now."""
        experiment, log = self._experiment, self.log
        known = sum(event.kind == ASKED for event in log.events[: self._seen])
        if len(experiment.trials) != known:
            raise ExperimentError(
                f"Trials were added to Ax's experiment of {log.name!r}, or removed. "
                "They are not kept, and Ax's experiment is made anew: add questions by "
                "ask, and answers that were given elsewhere by record."
            )
        changed = dict.fromkeys(event.question for event in log.events[self._seen :])
        if changed:
            for index in changed:
                self._bring_up_to_date(log.questions[index])
            rows = (row for index in sorted(self._rows) for row in self._rows[index])
            experiment.data = Data(data_rows=rows)
            self._seen = len(log.events)
        return experiment

    def _bring_up_to_date(self, question: LoggedQuestion) -> None:
        experiment, index, told = self._experiment, question.index, question.standing
        trial = experiment.trials.get(index)
        asked, last = (_time(question.events[i]) for i in (0, -1))
        if trial is None:
            trial = experiment.new_batch_trial(generator_run=_run_of(question))
            trial._time_created = asked
        status, reason = TrialStatus.RUNNING, None
        if question.compared:
            status = TrialStatus.COMPLETED
        elif not question.pending:
            status = TrialStatus.ABANDONED
            reason = "withdrawn" if told is None else "cannot compare"
        if trial.status is not status:
            trial.mark_as(status, unsafe=True, no_runner_required=True, reason=reason)
        # Ax never goes back from these.
        trial._time_completed = None if question.pending else last
        trial._status_reason, trial._time_run_started = reason, asked
        events = [{**vars(one), "what": dict(one.what)} for one in question.events]
        trial._properties[PROPERTY] = events
        names = [option.name for option in question.options]
        shown, self._rows[index] = question.display, []
        trial._properties[_POSITIONS] = shown and {
            names[place]: position(rank, len(names)) for rank, place in enumerate(shown)
        }
        trial._properties[_RATER] = None
        if told is not None:
            trial._properties[_RATER] = self.log.raters.get(told.rater or "")
            self._rows[index] = [
                DataRow(index, names[i], metric, metric, value, math.nan)
                for metric, values in Answer(**told.said).rows(len(names)).items()
                for i, value in values.items()
            ]


def _run_of(question: LoggedQuestion) -> GeneratorRun:
    """The run of the generator that chose the options, as far as the log has it."""
    asked = question.asked
    chosen_by, generated = asked["chosen_by"], asked.get("generated", {})
    position, repeats = generated.get("position"), asked.get("repeats")
    return GeneratorRun(
        [Arm(dict(each.parameters), name=each.name) for each in question.as_chosen],
        generator_key=None if chosen_by == PERSON else chosen_by,
        generation_node_name=generated.get("node"),
        generator_state_after_gen=None if position is None else {_POSITION: position},
        gen_metadata=None if repeats is None else {"repeats": repeats},
    )


def _time(event: Event) -> datetime:
    """The time of an event as Ax has times: of this place, without a zone."""
    return datetime.fromisoformat(event.time).astimezone().replace(tzinfo=None)


def raters_of_trials(experiment: Experiment, pooled: bool = False) -> dict[int, int]:
    """Number of the rater of each answer that stands and has a name, by trial.

    Nobody where answers are pooled, unless ``pooled`` ones are asked for.
    """
    shared = Settings.of(experiment).raters == SHARE
    return _of_trials(experiment, _RATER) if pooled or shared else {}


def _of_trials(experiment: Experiment, name: str) -> dict[int, Any]:
    """A property of Ax's trials, without those that Ax's client has added."""
    found = ((i, t._properties.get(name)) for i, t in experiment.trials.items())
    return {index: value for index, value in found if value is not None}


def arms_and_raters(
    experiment_data: ExperimentData, raters: Mapping[int, int]
) -> list[tuple[str, int | None]]:
    """The names of the arms that answers are about, with the numbers of their raters.

    Each pair is there once, in the order of the names; the number is None where the
    trial of the answer is not in ``raters``.
    """
    index = experiment_data.observation_data.sort_index().index
    levels = ("arm_name", "trial_index")
    pairs = zip(*(index.get_level_values(level) for level in levels), strict=True)
    return list(dict.fromkeys((name, raters.get(trial)) for name, trial in pairs))


def feedback_dataset(
    experiment: Experiment,
    experiment_data: ExperimentData,
    parameters: list[str],
    raters: Mapping[int, int] | None = None,
) -> FeedbackDataset:
    """Data set of every answer in tables of an experiment, whose arms are numbers.

    Its datapoints are the rows of `arms_and_raters`, its features the columns
    ``parameters``. ``raters`` has the number of who answered, by trial, where these are
    to be kept apart, and positions not to count; by default it is as settings say.
    """
    settings = Settings.of(experiment)
    biased = raters is None and settings.position_bias
    apart = raters is not None or settings.raters == SHARE
    raters = raters_of_trials(experiment) if raters is None else raters
    rows = arms_and_raters(experiment_data, raters)
    if not rows:
        raise ExperimentError("There is no answer yet; ask and tell first.")
    place = {row: i for i, row in enumerate(rows)}
    # A database keeps no order, and Ax's transforms not always this one.
    means = experiment_data.observation_data["mean"].sort_index()
    told: dict[int, dict[str, Values]] = defaultdict(lambda: defaultdict(dict))
    for metric in means.columns:
        # Ax's tables keep so many decimals, and read back others.
        values = means[metric].dropna().round(DECIMALS)
        trials, names = map(values.index.get_level_values, ("trial_index", "arm_name"))
        for trial, name, value in zip(trials, names, values.tolist(), strict=True):
            told[trial][metric][place[name, raters.get(trial)]] = value
    positions = None
    if biased:
        positions = {
            trial: {
                place[row]: at
                for name, at in shown.items()
                if (row := (name, raters.get(trial))) in place
            }
            for trial, shown in _of_trials(experiment, _POSITIONS).items()
        }
    names, numbers = zip(*rows, strict=True)
    arms = experiment_data.arm_data.droplevel("trial_index")
    first = arms[~arms.index.duplicated()].loc[[*names], parameters]
    return FeedbackDataset(
        torch.from_numpy(first.to_numpy(dtype=float, copy=True)),
        feedback_blocks(
            dict(sorted(told.items())), number_of_levels(experiment), positions
        ),
        feature_names=parameters,
        outcome_names=[OBJECTIVE],
        raters=torch.tensor(numbers) if apart else None,
    )
