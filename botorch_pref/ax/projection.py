"""Ax's experiment as a projection of the log, in memory, and models' data of it.

A question is a batch trial, which runs until it is answered; its options are arms; an
answer is data of metrics, one for each kind of answer. Everything here follows from the
log, which nothing here changes. Models take their answers from Ax's tables, also of
experiments that are not ours.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any, Self

import torch
from ax.adapter.data_utils import ExperimentData
from ax.core.arm import Arm
from ax.core.base_trial import BaseTrial
from ax.core.batch_trial import BatchTrial
from ax.core.data import Data, DataRow
from ax.core.experiment import Experiment
from ax.core.generator_run import GeneratorRun
from ax.core.trial_status import TrialStatus

from botorch_pref.ax.answer_containers import feedback_blocks, position
from botorch_pref.ax.answer_kinds import (
    DECIMALS,
    KINDS,
    OBJECTIVE,
    POSITION,
    STOP,
    Answered,
    Values,
    number_of_levels,
)
from botorch_pref.ax.answers import Answer
from botorch_pref.ax.events import (
    PERSON,
    Chosen,
    Event,
    LoggedQuestion,
    Option,
    json_text,
)
from botorch_pref.ax.log import Log
from botorch_pref.ax.settings import SHARE, Settings
from botorch_pref.errors import ExperimentError
from botorch_pref.models.training_data import FeedbackDataset

PROPERTY = "preference_events"
"""The property of Ax's trial that holds its events, in order, for Ax's users."""

_RATERS, _POSITIONS = "preference_raters", "preference_positions"
"""Properties with how often the answer of a trial was given, in pairs of the number of
a rater, or None, and a count; and with options' positions by their arms."""

_POSITION = "init_position"
"""The key under which Ax keeps how many points of the Sobol sequence were used."""


def chosen_by(run: GeneratorRun) -> Chosen:
    """Returns the options of a run of Ax's generator, and how they were chosen.

    The log keeps them, with the node of the strategy and how far the Sobol sequence
    was used.
    """
    state = run._generator_state_after_gen or {}
    generated = {"node": run._generation_node_name, "position": state.get(_POSITION)}
    stated = {key: value for key, value in generated.items() if value is not None}
    options = [arm.parameters for arm in run.arms]
    return Chosen(options, run._generator_key or PERSON, generated=stated or None)


class SignedArm(Arm):
    """Arm that computes its signature once, where Ax does so at each look at it.

    Args:
        parameters: Values by name.
        name: Of the arm.
    """

    @cached_property
    def signature(self) -> str:
        """Text that arms with equal parameters share."""
        return super().signature

    def __eq__(self, other: object) -> bool:
        """See base class; whichever class of arms the other one has."""
        if not isinstance(other, Arm):
            return False
        return self.parameters == other.parameters and self._name == other._name

    __hash__ = Arm.__hash__

    def clone(self, clear_name: bool = False) -> Self:
        """See base class: a copy, which has the signature too."""
        copied = super().clone(clear_name)
        vars(copied)["signature"] = self.signature
        return copied


class Projection:
    """A log, and Ax's experiment of it, which follows it when it is wanted.

    Each question has a trial of its number. Of those that were answered elsewhere, all
    that have the same answer about the same options share the trial of the first one:
    what follows costs as much as there are distinct answers.
    """

    def __init__(self, log: Log) -> None:
        self.log = log
        self._begin()

    def _begin(self) -> None:
        """Makes Ax's experiment anew, as if nothing of the log had been read."""
        self._experiment = self.log.definition.experiment()
        self._seen = self._num_questions = self._num_trials = 0
        self._trials: dict[object, int] = {}
        self._rows: dict[int, list[DataRow]] = {}
        self._arms: dict[str, Arm] = {}

    def experiment(self) -> Experiment:
        """Returns Ax's experiment, with everything that the log has by now.

        It is the same object each time, to which what is new is added, except after
        changes of answers that were given elsewhere.

        Raises:
            ExperimentError: Somebody has added trials to it; a new `Projection` is due.
        """
        log = self.log
        if len(self._experiment.trials) != self._num_trials:
            raise ExperimentError(
                f"Trials were added to Ax's experiment of {log.name!r}, or removed. "
                "They are not kept, and Ax's experiment is made anew: add questions by "
                "ask, and answers that were given elsewhere by record."
            )
        changed = sorted({event.question for event in log.events[self._seen :]})
        before = changed[: bisect_left(changed, self._num_questions)]
        if any(log.questions[index].elsewhere for index in before):
            # Which questions share a trial follows from the answers that stand now.
            self._begin()
            changed = [*range(len(log.questions))]
        if changed:
            for index in changed:
                self._bring_up_to_date(log.questions[index])
            rows = (row for index in sorted(self._rows) for row in self._rows[index])
            self._experiment.data = Data(data_rows=rows)
            self._seen, self._num_questions = len(log.events), len(log.questions)
        return self._experiment

    def _bring_up_to_date(self, question: LoggedQuestion) -> None:
        """Brings the trial of a question to the state of its events.

        An answer that a trial of another question has already is counted there. Else
        the question has a trial: running while it is pending, completed by an answer
        that says something of the options, and abandoned otherwise.
        """
        answer, key = question.standing, self._key(question)
        index = self._trials.setdefault(key, question.index)
        if answer is not None and index != question.index:
            self._add_to_trial(self._experiment.trials[index], question, answer)
            return
        trial = self._experiment.trials.get(index)
        first_time, last = (_time(question.events[i]) for i in (0, -1))
        if trial is None:
            # In the order of choice, as Ax has them; positions on display stand below.
            run = _run_of(question, [*map(self._arm, question.as_chosen)])
            trial = BatchTrial(self._experiment, generator_run=run, index=index)
            trial._time_created = first_time
            self._num_trials += 1
        status, reason = TrialStatus.RUNNING, None
        if question.compared:
            status = TrialStatus.COMPLETED
        elif not question.pending:
            status = TrialStatus.ABANDONED
            reason = "withdrawn" if answer is None else "cannot compare"
        if trial.status is not status:
            trial.mark_as(status, unsafe=True, no_runner_required=True, reason=reason)
        # Marking sets these once; an answer that is undone takes them back.
        trial._time_completed = None if question.pending else last
        trial._status_reason, trial._time_run_started = reason, first_time
        trial._properties[PROPERTY] = _as_properties(question.events)
        names = [option.name for option in question.options]
        stops = question.judged[len(names) :]
        for stop in stops:
            self._add_arm(trial, self._arm(stop))
        display, self._rows[index] = question.display, []
        trial._properties[_POSITIONS] = display and {
            names[place]: position(rank, len(names))
            for rank, place in enumerate(display)
        }
        trial._properties[_RATERS] = []
        if answer is not None:
            trial._properties[_RATERS] = [[self._number_of(answer), answer.count]]
            self._rows[index] = [
                DataRow(index, names[i], metric, metric, value, math.nan)
                for metric, values in Answer(**answer.fields).rows(len(names)).items()
                for i, value in values.items()
            ]
            metric = POSITION.metric
            self._rows[index] += [
                DataRow(index, stop.name, metric, metric, STOP, math.nan)
                for stop in stops
            ]

    def _add_arm(self, trial: BaseTrial, arm: Arm) -> None:
        """Adds an arm to a trial that was run already: a stop comes with its answer."""
        assert isinstance(trial, BatchTrial)
        if arm.name not in trial.arms_by_name:
            status = trial.status
            # Ax adds arms to no trial that was run.
            trial._status = TrialStatus.CANDIDATE
            trial.add_arm(arm)
            trial._status = status

    def _arm(self, option: Option) -> Arm:
        """Returns the arm of an option, made once, for it keeps its signature."""
        arm = self._arms.get(option.name)
        if arm is None:
            arm = SignedArm(option.parameters, option.name)
            self._arms[option.name] = arm
        return arm

    def _number_of(self, answer: Event) -> int | None:
        """Returns the number of the rater who gave an answer; None without a name."""
        return self.log.raters.get(answer.rater or "")

    def _key(self, question: LoggedQuestion) -> object:
        """Makes the key that questions of one trial share.

        It is the question's own number, but for an answer from elsewhere: the same
        options, shown in the same order, what was said, and the rater where raters
        share.
        """
        answer = question.standing
        if answer is None or not question.elsewhere or not question.compared:
            return question.index
        shared = self.log.settings.raters == SHARE
        return (
            tuple(option.name for option in question.options),
            json_text(answer.fields, any_order=True),
            json_text(question.display),
            answer.rater if shared else None,
        )

    def _add_to_trial(
        self, trial: BaseTrial, question: LoggedQuestion, answer: Event
    ) -> None:
        """Adds an answer to the trial that has the same one, and counts it there.

        Counts are kept by the numbers of raters, whether raters share or not.
        """
        trial._properties[PROPERTY] += _as_properties(question.events)
        trial._time_completed = _time(answer)
        number, pairs = self._number_of(answer), trial._properties[_RATERS]
        for pair in pairs:
            if pair[0] == number:
                pair[1] += answer.count
                return
        pairs.append([number, answer.count])


def _as_properties(events: Sequence[Event]) -> list[dict[str, Any]]:
    """Returns events as dictionaries, as Ax's trials keep them for Ax's users."""
    columns = "number", "question", "kind", "time"
    return [
        {**{name: getattr(event, name) for name in columns}, "what": dict(event.what)}
        for event in events
    ]


def _run_of(question: LoggedQuestion, arms: list[Arm]) -> GeneratorRun:
    """Gives the run of Ax's generator that chose the arms, as far as the log has it.

    It is the inverse of `chosen_by`.
    """
    content = question.content
    chosen_by, generated = content["chosen_by"], content.get("generated", {})
    position, repeats = generated.get("position"), content.get("repeats")
    return GeneratorRun(
        arms,
        generator_key=None if chosen_by == PERSON else chosen_by,
        generation_node_name=generated.get("node"),
        generator_state_after_gen=None if position is None else {_POSITION: position},
        gen_metadata=None if repeats is None else {"repeats": repeats},
    )


def _time(event: Event) -> datetime:
    """Returns the time of an event as Ax has times: of this place, without a zone."""
    return datetime.fromisoformat(event.time).astimezone().replace(tzinfo=None)


Counts = Mapping[int, Mapping[int | None, int]]
"""Counts of the answers of each trial: by the numbers of raters where their
answers are kept apart, and by None of all others."""


def answer_counts(experiment: Experiment, apart: bool | None = None) -> Counts:
    """Counts the answers that stand, by trial and rater, see `Counts`.

    Raters are kept ``apart`` by their numbers, by default as settings say. A trial
    without an answer has the count 1 too, and so has one that Ax's client has added.
    """
    if apart is None:
        apart = Settings.from_experiment(experiment).raters == SHARE
    counts = {}
    for index, trial in experiment.trials.items():
        pairs = trial._properties.get(_RATERS) or [[None, 1]]
        counts[index] = dict(pairs)
        if not apart:
            counts[index] = {None: sum(counts[index].values())}
    return counts


def num_answers(experiment: Experiment) -> int:
    """Returns the number of answers, of which the model needs some to choose."""
    completed = experiment.trial_indices_by_status[TrialStatus.COMPLETED]
    counts = answer_counts(experiment, apart=False)
    return sum(counts[index][None] for index in completed)


def arms_and_raters(
    experiment_data: ExperimentData, counts: Counts
) -> list[tuple[str, int | None]]:
    """Lists names of the arms that answers are about, with numbers of their raters.

    These pairs are the datapoints of models, in this order.
    Each pair is there once, in the order of the names; the number is None where raters
    are not kept apart.
    """
    index = experiment_data.observation_data.sort_index().index
    levels = ("arm_name", "trial_index")
    pairs = zip(*(index.get_level_values(level) for level in levels), strict=True)
    return list(
        dict.fromkeys((name, rater) for name, trial in pairs for rater in counts[trial])
    )


def feedback_dataset(
    experiment: Experiment,
    experiment_data: ExperimentData,
    parameters: list[str],
    counts: Counts | None = None,
    of_raters: bool = False,
) -> FeedbackDataset:
    """Makes the data set of all answers in tables of an experiment.

    Args:
        experiment: Ax's, whose settings count.
        experiment_data: Ax's tables of its arms, transformed, and of its answers.
        parameters: The columns of the arms that are features.
        counts: How often each answer was given, of every trial in the data; by default
            those of `answer_counts`. Raters that are not among them are left out.
        of_raters: Whether raters are kept apart and positions do not count, whatever
            the settings say of both.

    Returns:
        Answers about datapoints, which are the rows of `arms_and_raters`.

    Raises:
        ExperimentError: No answer compares or judges options.
    """
    settings = Settings.from_experiment(experiment)
    biased = not of_raters and settings.position_bias
    apart = of_raters or settings.raters == SHARE
    counts = answer_counts(experiment, apart) if counts is None else counts
    rows = arms_and_raters(experiment_data, counts)
    if not rows:
        raise _no_answer()
    place = {row: i for i, row in enumerate(rows)}
    answers = _values_of_answers(experiment_data, counts, place)
    positions = None
    if biased:
        positions = {
            (trial, rater): {
                place[row]: position
                for name, position in display.items()
                if (row := (name, rater)) in place
            }
            for trial, display in _positions(experiment).items()
            for rater in counts.get(trial, ())
        }
    names, numbers = zip(*rows, strict=True)
    arms = experiment_data.arm_data.droplevel("trial_index")
    # An arm has a row for each of its trials, all alike.
    first = arms[~arms.index.duplicated()].loc[[*names], parameters]
    times = {
        (trial, rater): count
        for trial, by_rater in counts.items()
        for rater, count in by_rater.items()
    }
    num_levels = number_of_levels(experiment)
    return FeedbackDataset(
        torch.from_numpy(first.to_numpy(dtype=float, copy=True)),
        feedback_blocks(answers, num_levels, positions, times),
        feature_names=parameters,
        outcome_names=[OBJECTIVE],
        raters=torch.tensor(numbers) if apart else None,
    )


def _values_of_answers(
    experiment_data: ExperimentData,
    counts: Counts,
    place: Mapping[tuple[str, int | None], int],
) -> dict[Answered, dict[str, Values]]:
    """Reads what each answer says from tables, by its metrics and the rows of options.

    Answers are sorted by trial: a database keeps no order, and Ax's transforms may
    change it.
    """
    means = experiment_data.observation_data["mean"].sort_index()
    answers: dict[Answered, dict[str, Values]] = defaultdict(lambda: defaultdict(dict))
    for metric in means.columns:
        # Ax's tables keep these decimals, and may read back further ones.
        values = means[metric].dropna().round(DECIMALS)
        trials, names = map(values.index.get_level_values, ("trial_index", "arm_name"))
        for trial, name, value in zip(trials, names, values.tolist(), strict=True):
            for rater in counts[trial]:
                answers[trial, rater][metric][place[name, rater]] = value
    if not any(kind.metric in rows for rows in answers.values() for kind in KINDS):
        raise _no_answer()
    return dict(sorted(answers.items(), key=lambda answer: answer[0][0]))


def _no_answer() -> ExperimentError:
    """Makes the error of data from which no model can be made."""
    return ExperimentError(
        "There is no answer yet that compares options ('cannot compare' does not); ask "
        "and tell first. In an experiment of Ax's own, "
        f"give trials of two arms data of the metric {OBJECTIVE!r}: 1 for the better "
        "arm and 0 for the other."
    )


def _positions(experiment: Experiment) -> dict[int, Mapping[str, float]]:
    """Gives positions of options by their arms, of the trials where they are known."""
    stored = ((i, t._properties.get(_POSITIONS)) for i, t in experiment.trials.items())
    return {index: positions for index, positions in stored if positions is not None}
