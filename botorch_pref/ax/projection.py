"""Ax's experiment as a projection of the log, in memory.

A question is a batch trial, which runs until it is answered; its options are arms; an
answer is data of metrics, one for each kind of answer. Everything here follows from the
log, which nothing here changes.
"""

from __future__ import annotations

import math
from datetime import datetime

from ax.core.arm import Arm
from ax.core.data import Data, DataRow
from ax.core.experiment import Experiment
from ax.core.generator_run import GeneratorRun
from ax.core.trial_status import TrialStatus

from botorch_pref.ax.answers import Answer, position
from botorch_pref.ax.log import ASKED, PERSON, Chosen, Event, Log, LoggedQuestion
from botorch_pref.ax.settings import PROPERTY as SETTINGS
from botorch_pref.ax.settings import SHARE
from botorch_pref.errors import ExperimentError

PROPERTY = "preference_events"
"""The property of Ax's trial that holds its events, in order, for Ax's users."""

_RATER = "preference_rater"
"""The property of Ax's trial with the number of who gave the answer that stands."""

_POSITIONS = "preference_positions"
"""The property of Ax's trial with the positions of its options, by name of the arm."""

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
        experiment, index = self._experiment, question.index
        trial = experiment.trials.get(index)
        if trial is None:
            trial = experiment.new_batch_trial(generator_run=_run_of(question))
            trial._time_created = _time(question.events[0])
        last = question.events[-1]
        status, reason = _status(question)
        if trial.status is not status:
            trial.mark_as(status, unsafe=True, no_runner_required=True, reason=reason)
        running = status is TrialStatus.RUNNING
        # Ax never goes back from these.
        trial._time_completed = None if running else _time(last)
        trial._status_reason = reason
        trial._time_run_started = _time(question.events[0])
        trial._properties[PROPERTY] = [
            {**vars(event), "what": dict(event.what)} for event in question.events
        ]
        self._rows.pop(index, None)
        trial._properties[_RATER] = None
        trial._properties[_POSITIONS] = _positions(question)
        told = question.standing
        if told is not None:
            self._rows[index] = _data_rows(question, told)
            trial._properties[_RATER] = self.log.raters.get(told.rater or "")


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


def _status(question: LoggedQuestion) -> tuple[TrialStatus, str | None]:
    if question.compared:
        return TrialStatus.COMPLETED, None
    if question.pending:
        return TrialStatus.RUNNING, None
    withdrawn = question.standing is None
    return TrialStatus.ABANDONED, "withdrawn" if withdrawn else "cannot compare"


def _data_rows(question: LoggedQuestion, told: Event) -> list[DataRow]:
    options = question.options
    return [
        DataRow(question.index, options[i].name, metric, metric, value, math.nan)
        for metric, values in Answer(**told.said).rows(len(options)).items()
        for i, value in values.items()
    ]


def _time(event: Event) -> datetime:
    """The time of an event as Ax has times: of this place, without a zone."""
    return datetime.fromisoformat(event.time).astimezone().replace(tzinfo=None)


def raters_of_trials(experiment: Experiment) -> dict[int, int] | None:
    """Number of the rater of each answer that stands, by trial; None where pooled."""
    stored = (experiment._properties or {}).get(SETTINGS, {})
    return named_raters(experiment) if stored.get("raters") == SHARE else None


def named_raters(experiment: Experiment) -> dict[int, int]:
    """Number of the rater of each answer that stands and has a name, by trial."""
    # Ax's client adds trials of its own, about which nothing was asked here.
    return {
        index: trial._properties[_RATER]
        for index, trial in experiment.trials.items()
        if trial._properties.get(_RATER) is not None
    }


def positions_of_trials(experiment: Experiment) -> dict[int, dict[str, float]] | None:
    """Position of each option of answers that stand, by trial and by arm.

    See `position`; trials of which it is not known are left out. None where positions
    do not count.
    """
    stored = (experiment._properties or {}).get(SETTINGS, {})
    if not stored.get("position_bias"):
        return None
    return {
        index: trial._properties[_POSITIONS]
        for index, trial in experiment.trials.items()
        if trial._properties.get(_POSITIONS) is not None
    }


def _positions(question: LoggedQuestion) -> dict[str, float] | None:
    """The position of each option by its name; None where they are not known."""
    shown = question.display
    if shown is None:
        return None
    names = [question.options[place].name for place in shown]
    return {name: position(rank, len(names)) for rank, name in enumerate(names)}
