"""Ax's experiment as a projection of the log, in memory.

A question is a batch trial, which runs until it is answered; its options are arms; an
answer is data of metrics, one for each kind of answer. Everything here follows from the
log, which nothing here changes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import chain
from typing import Any

from ax.core.arm import Arm
from ax.core.base_trial import BaseTrial
from ax.core.data import Data, DataRow
from ax.core.experiment import Experiment
from ax.core.generator_run import GeneratorRun
from ax.core.trial_status import TrialStatus

from botorch_pref.ax.answers import Answer, position
from botorch_pref.ax.log import (
    ASKED,
    PERSON,
    REPEATS,
    TOLD,
    Draft,
    Event,
    Log,
    LoggedQuestion,
    Option,
)
from botorch_pref.ax.settings import PROPERTY as SETTINGS
from botorch_pref.ax.settings import SHARE
from botorch_pref.errors import ExperimentError, StorageError

PROPERTY = "preference_events"
"""The property of Ax's trial that holds its events, in order."""

_POSITION = "init_position"
"""Where Ax keeps how many points of the Sobol sequence were used."""


def ask_run(
    draft: Draft, run: GeneratorRun, rater: str | None, order: list[int] | None
) -> int:
    """Asks about the options of a generator's run; returns the question's number.

    Without a generator they are a person's own. ``order`` has the places of the options
    in the order in which they are shown.
    """
    state = run._generator_state_after_gen or {}
    generated = {"node": run._generation_node_name, "position": state.get(_POSITION)}
    known = {key: value for key, value in generated.items() if value is not None}
    return draft.ask(
        [arm.parameters for arm in run.arms],
        chosen_by=run._generator_key or PERSON,
        rater=rater,
        order=order,
        repeats=(run.gen_metadata or {}).get(REPEATS),
        generated=known or None,
    )


class Projection:
    """Ax's experiment of a log; what follows in the log is added when it is wanted."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._experiment = log.definition.made()
        self._seen = 0
        self._rows: dict[int, list[DataRow]] = {}

    def experiment(self) -> Experiment:
        """Ax's experiment, with everything that the log has by now."""
        experiment, log = self._experiment, self._log
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
        if question.standing is not None:
            self._rows[index] = _data_rows(question, question.standing)


def _run_of(question: LoggedQuestion) -> GeneratorRun:
    """The run of the generator that chose the options, as far as the log has it."""
    asked, options = question.events[0].what, question.options
    places = asked.get("places", range(len(options)))
    in_order = [options[places.index(place)] for place in range(len(options))]
    chosen_by, generated = asked["chosen_by"], asked.get("generated", {})
    position, repeats = generated.get("position"), asked.get(REPEATS)
    return GeneratorRun(
        [Arm(dict(option.parameters), name=option.name) for option in in_order],
        generator_key=None if chosen_by == PERSON else chosen_by,
        generation_node_name=generated.get("node"),
        generator_state_after_gen=None if position is None else {_POSITION: position},
        gen_metadata=None if repeats is None else {REPEATS: repeats},
    )


def _status(question: LoggedQuestion) -> tuple[TrialStatus, str | None]:
    told = question.standing
    if told is not None and told.what.get("cannot_compare"):
        return TrialStatus.ABANDONED, "cannot compare"
    if told is not None:
        return TrialStatus.COMPLETED, None
    if question.pending:
        return TrialStatus.RUNNING, None
    return TrialStatus.ABANDONED, "withdrawn"


def _data_rows(question: LoggedQuestion, told: Event) -> list[DataRow]:
    said: dict[str, Any] = {
        k: tuple(v) if isinstance(v, list) else v for k, v in told.said.items()
    }
    options = question.options
    return [
        DataRow(question.index, options[i].name, metric, metric, value, math.nan)
        for metric, values in Answer(**said).rows(len(options)).items()
        for i, value in values.items()
    ]


def _time(event: Event) -> datetime:
    """The time of an event as Ax has times: of this place, without a zone."""
    return datetime.fromisoformat(event.time).astimezone().replace(tzinfo=None)


def events_of(trial: BaseTrial) -> list[Event]:
    """Everything that happened to a question, in order."""
    return [Event(**event) for event in trial._properties.get(PROPERTY, [])]


def events(experiment: Experiment) -> Iterator[Event]:
    """Everything that happened in an experiment, in order."""
    found = chain(*map(events_of, experiment.trials.values()))
    return iter(sorted(found, key=lambda event: event.number))


def question_of(trial: BaseTrial) -> LoggedQuestion:
    """The question that a trial asks."""
    happened = events_of(trial)
    if not happened:
        raise StorageError(
            f"Trial {trial.index} has no log of what it showed; it is no question that "
            "PreferenceExperiment.ask asked."
        )
    options = tuple(Option(**option) for option in happened[0].what["options"])
    return LoggedQuestion(trial.index, options, happened)


def standing_answers(
    experiment: Experiment,
) -> Iterator[tuple[list[str], dict[str, Any]]]:
    """Answers that stand, after the names of the options in the order shown."""
    for question in map(question_of, experiment.trials.values()):
        if question.standing is not None:
            yield [option.name for option in question.options], question.standing.said


def rater_numbers(happened: Iterable[Event]) -> dict[str, int]:
    """Numbers of the raters who have answered, by name, in the order of the answers."""
    told = (event.rater for event in happened if event.kind == TOLD)
    names = dict.fromkeys(name for name in told if name is not None)
    return {name: number for number, name in enumerate(names)}


def raters_of_trials(experiment: Experiment) -> dict[int, int] | None:
    """Number of the rater of each answer that stands, by trial; None where pooled."""
    stored = (experiment._properties or {}).get(SETTINGS, {})
    if stored.get("raters") != SHARE:
        return None
    numbers = rater_numbers(events(experiment))
    # Ax's client adds trials of its own, about which nothing was asked here.
    happened = filter(None, map(events_of, experiment.trials.values()))
    return {
        last.question: numbers[last.what["rater"]]
        for *_, last in happened
        if last.kind == TOLD
    }


def positions_of_trials(experiment: Experiment) -> dict[int, dict[str, float]] | None:
    """Position of each option of answers that stand, by trial and by arm.

    See `position`; trials of which it is not known are left out. None where positions
    do not count.
    """
    stored = (experiment._properties or {}).get(SETTINGS, {})
    if not stored.get("position_bias"):
        return None
    asked = (question_of(t) for t in experiment.trials.values() if events_of(t))
    return {
        question.index: {
            question.options[place].name: position(rank, len(question.display))
            for rank, place in enumerate(question.display)
        }
        for question in asked
        if question.display is not None
    }


def number_of_rater(experiment: Experiment, rater: str | None) -> int | None:
    """Number of a rater whose own utility counts; None for what all have in common.

    Somebody new has the next number: the model knows what the others let expect.
    """
    if rater is None or raters_of_trials(experiment) is None:
        return None
    numbers = rater_numbers(events(experiment))
    return numbers.get(rater, len(numbers))


def known_rater(experiment: Experiment, rater: str) -> int:
    """Number of a rater who has answered, and is told from others."""
    if raters_of_trials(experiment) is None:
        raise ExperimentError(
            f"The answers of {experiment.name!r} are pooled: nothing is known of "
            f"{rater!r} alone; create an experiment with raters={SHARE!r}."
        )
    numbers = rater_numbers(events(experiment))
    if rater not in numbers:
        raise ExperimentError(
            f"There are no answers of {rater!r}; there are some of "
            f"{', '.join(map(repr, numbers)) or 'nobody'}."
        )
    return numbers[rater]
