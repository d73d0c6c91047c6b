"""Questions and answers in terms of JSON."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ax.core.batch_trial import BatchTrial
from ax.core.experiment import Experiment
from ax.core.parameter import ChoiceParameter, ParameterType, RangeParameter
from ax.core.parameter_constraint import ParameterConstraint
from ax.core.search_space import SearchSpace

from botorch_pref.ax import PreferenceExperiment, Question
from botorch_pref.ax.answers import check_taken, checked_answer
from botorch_pref.ax.kept_log import one_at_a_time
from botorch_pref.ax.log import UNDONE, WITHDRAWN
from botorch_pref.ax.projection import events_of, standing_event
from botorch_pref.errors import ExperimentError
from botorch_pref.web.contents import (
    Content,
    Contents,
    Media,
    Presenter,
    Text,
    named_unit,
    step,
    written,
)


class AskError(ExperimentError):
    """Error with a remedy for the page to offer.

    Args:
        why: What is wrong.
        details: For the page: ``question``, the number of the one that can be skipped,
            or ``needs``, what it lacks.
    """

    def __init__(self, why: str, **details: Any) -> None:
        super().__init__(why)
        self.details = details


class AnswerConflictError(ExperimentError):
    """Answer to a question that has another one, or that is somebody else's.

    Also the undoing of an answer that is not the last one any more.
    """


Field = dict[str, Any]


def design_form(space: SearchSpace, units: dict[str, str]) -> list[Field]:
    """Fields of a search space, one for each parameter that can be chosen.

    Args:
        space: Ax's.
        units: By name of the parameter.

    Returns:
        For each its ``name``, ``label``, ``unit`` and ``type``: ``number`` with
        ``lower``, ``upper`` and ``step``, or ``choice`` with ``values``.
    """
    return [_field(parameter, units) for parameter in _chosen(space)]


def check_designs(space: SearchSpace, designs: Sequence[Mapping[str, Any]]) -> None:
    """Checks designs that were entered, in the words of the form.

    Args:
        space: Ax's.
        designs: The values of each by the name of the parameter; those that nobody
            chooses are checked elsewhere.

    Raises:
        ExperimentError: A value is missing, or cannot be; or two designs look the same.
    """
    for design in designs:
        for parameter in _chosen(space):
            if parameter.name not in design:
                raise ExperimentError(f"Choose a value of {_label(parameter.name)}.")
            _check_value(parameter, design[parameter.name])
        for constraint in space.parameter_constraints:
            _check_together(constraint, design)
    looks = [
        tuple(written(one, design[one.name]) for one in _chosen(space))
        for design in designs
    ]
    if len(set(looks)) < len(looks):
        raise ExperimentError(
            "Two of these designs look the same. Change a value of one, so that they "
            "can be told apart."
        )


def _chosen(space: SearchSpace) -> list[RangeParameter | ChoiceParameter]:
    return [
        parameter
        for parameter in space.parameters.values()
        if isinstance(parameter, RangeParameter | ChoiceParameter)
    ]


def _label(name: str) -> str:
    return named_unit(name)[0]


def _check_value(parameter: RangeParameter | ChoiceParameter, value: Any) -> None:
    label = _label(parameter.name)
    if isinstance(parameter, ChoiceParameter):
        if value not in parameter.values:
            allowed = " or ".join(written(parameter, one) for one in parameter.values)
            raise ExperimentError(f"The value of {label} has to be {allowed}.")
        return
    lower, upper = (f"{end:g}" for end in (parameter.lower, parameter.upper))
    allowed = f"The value of {label} has to be a number from {lower} to {upper}."
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ExperimentError(allowed)
    if not parameter.lower <= value <= parameter.upper:
        raise ExperimentError(allowed)
    if parameter.parameter_type is ParameterType.INT and value != int(value):
        raise ExperimentError(f"The value of {label} has to be a whole number.")


def _check_together(constraint: ParameterConstraint, design: Mapping[str, Any]) -> None:
    """Checks a linear constraint of several values."""
    weights = constraint.constraint_dict
    if not weights.keys() <= design.keys() or constraint.check(
        {name: float(design[name]) for name in weights}
    ):
        return
    ordered = sorted(weights.items(), key=lambda one: (one[1] < 0, one[0]))
    terms = [
        ("" if abs(weight) == 1.0 else f"{abs(weight):g} times ") + _label(name)
        for name, weight in ordered
    ]
    signs = ["- " if weight < 0 else "+ " for _, weight in ordered]
    total = " ".join(map("".join, zip(signs, terms, strict=True))).removeprefix("+ ")
    limit = "" if constraint.is_equality else "at most "
    raise ExperimentError(
        f"These values do not go together: {total} has to be {limit}"
        f"{constraint.bound:g}."
    )


def _field(parameter: RangeParameter | ChoiceParameter, units: dict[str, str]) -> Field:
    label, unit = named_unit(parameter.name)
    field: Field = {
        "name": parameter.name,
        "label": label,
        "unit": units.get(parameter.name, unit),
    }
    if isinstance(parameter, RangeParameter):
        whole = parameter.parameter_type is ParameterType.INT
        return field | {
            "type": "number",
            "lower": parameter.lower,
            "upper": parameter.upper,
            "step": 1 if whole else step(parameter),
            "log": parameter.log_scale,
        }
    return field | {"type": "choice", "values": list(parameter.values)}


_OF_TWO: dict[str, Any] = {"winner": 0, "tie": True, "strength": 0.7}
_OF_MORE: dict[str, Any] = {"best": 0}


def offered_kinds(
    experiment: PreferenceExperiment, size: int, kinds: Collection[str] | None = None
) -> tuple[str, ...]:
    """Keywords of ``tell`` that the model of an experiment takes.

    Args:
        experiment: Whose model it is.
        size: How many options a question shows.
        kinds: Those that are wanted; None for all that the model takes.

    Raises:
        ExperimentError: The model does not take one that is wanted, there is no such
            kind, or none of them compares the options or judges each of them.
    """
    examples = _examples(size, experiment.num_levels)
    if kinds is None:
        return tuple(k for k in examples if _refusal(experiment, k, size) is None)
    if isinstance(kinds, str):
        raise ExperimentError(f"kinds is {kinds!r}; give a list of kinds of answers.")
    for kind in kinds:
        if kind not in examples:
            raise ExperimentError(
                f"kinds names {kind!r}; of {size} options one can say "
                f"{', '.join(examples)}."
            )
        if (refusal := _refusal(experiment, kind, size)) is not None:
            raise refusal
    chosen = tuple(kind for kind in examples if kind in kinds)
    if not set(chosen) - {"cannot_compare", "invalid"}:
        raise ExperimentError(
            f"kinds is {list(kinds)}, by which nothing can be preferred; add one of "
            f"{', '.join(examples)}."
        )
    return chosen


def _examples(size: int, num_levels: int | None) -> dict[str, Any]:
    """One answer of each kind that can be given about so many options."""
    compared = _OF_TWO if size == 2 else _OF_MORE | {"ranking": [*range(size)]}
    levels = {} if num_levels is None else {"levels": [0] * size}
    judged = {"invalid": [0], "ratings": [0.5] * size} | levels
    return {**compared, "cannot_compare": True, **judged}


def _refusal(
    experiment: PreferenceExperiment, kind: str, size: int
) -> ExperimentError | None:
    """Refusal of a kind of answer by the model; None if it takes it."""
    levels = experiment.num_levels
    said = {kind: _examples(size, levels)[kind]}
    try:
        answer = checked_answer(size, levels, **said)
        check_taken(experiment.settings, answer, size, levels)
    except ExperimentError as error:
        return error
    return None


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


JSON = dict[str, Any]
MediaAddress = Callable[[int, int, int, Media], str]
"""Address of a part of an option of a question, by their numbers."""

_AT_ONCE = 0.05
"""Seconds for which also those wait who wait for nothing."""


class QuestionRenderer:
    """Renderer of the questions of an experiment, and of the answers to them.

    Args:
        experiment: Whose questions they are.
        presenter: Of what is shown of an option.
        address: Where a browser finds media.
        kinds: Keywords of ``tell`` that are offered, by the number of options; for
            other numbers all that the model takes.
    """

    def __init__(
        self,
        experiment: PreferenceExperiment,
        presenter: Presenter,
        address: MediaAddress,
        kinds: Mapping[int, tuple[str, ...]],
    ) -> None:
        self._experiment = experiment
        self._presenter = presenter
        self._address = address
        self._kinds = dict(kinds)
        self._name = experiment.experiment.name
        self._num_levels = experiment.num_levels

    def asked(self, question: Question, patience: float) -> JSON | None:
        """A question as the page takes it.

        Args:
            question: Of the experiment.
            patience: How many seconds to wait for what is shown of its options.

        Returns:
            The question; None while that is in the making.

        Raises:
            AskError: It cannot be shown.
        """
        try:
            # What is made in no time at all is awaited.
            contents = self._presenter.contents(question, max(patience, _AT_ONCE))
        except ExperimentError as error:
            raise AskError(str(error), question=question.index) from error
        if contents is None:
            return None
        size = len(question.options)
        if size not in self._kinds:
            self._kinds[size] = offered_kinds(self._experiment, size)
        return {
            "question": question.index,
            "experiment": self._name,
            "options": list(question.options),
            "shown": self._shown(question, contents),
            "kinds": self._kinds[size],
            "levels": self._num_levels,
        }

    def answered(self, answered: AnsweredQuestion) -> JSON:
        """An answer as the page takes it.

        Args:
            answered: Of the experiment. Where its options cannot be shown any more, the
                reason is.
        """
        question = answered.question
        try:
            contents = self._contents(question)
        except ExperimentError as error:
            contents = [(Text(str(error)),)] * len(question.options)
        return {
            "question": question.index,
            "options": list(question.options),
            "shown": self._shown(question, contents),
            "said": answered.said,
            "time": answered.time,
        }

    def media(self, question: Question, option: int, part: int) -> Media | None:
        """A picture, a sound or a film of a question; None if there is no such thing.

        Args:
            question: Of the experiment.
            option: The place of the option.
            part: The place of the part in what is shown of it.

        Raises:
            ExperimentError: It cannot be shown any more.
        """
        contents = self._contents(question)
        if option >= len(contents) or part >= len(contents[option]):
            return None
        found = contents[option][part]
        return found if isinstance(found, Media) else None

    def close(self) -> None:
        """Draws no more."""
        self._presenter.close()

    def _contents(self, question: Question) -> list[Contents]:
        """Contents of a question, however long it takes."""
        contents = self._presenter.contents(question)
        assert contents is not None
        return contents

    def _shown(self, question: Question, contents: list[Contents]) -> list[list[JSON]]:
        def part(option: int, place: int, content: Content) -> JSON:
            return content.to_json(
                lambda media: self._address(question.index, option, place, media)
            )

        return [
            [part(option, place, content) for place, content in enumerate(shown)]
            for option, shown in enumerate(contents)
        ]
