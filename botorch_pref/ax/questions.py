"""Questions, and answers that are told and recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ax.core.types import TParameterization
from pandas.api.types import is_integer

from botorch_pref.ax.answer_kinds import POSITION
from botorch_pref.ax.answers import check_taken, checked_parts
from botorch_pref.ax.events import (
    TOLD,
    Chosen,
    LoggedQuestion,
    check_of_line,
    json_text,
    question_number,
)
from botorch_pref.ax.log import Log
from botorch_pref.ax.settings import SHARE
from botorch_pref.ax.space.context import Context
from botorch_pref.ax.space.lines import Line
from botorch_pref.ax.user_values import argument_error, quoted
from botorch_pref.errors import ExperimentError

MOST_OPTIONS = 100
"""The number of options of a question, at most; nobody compares more at once."""


class Design(dict[str, Any]):
    """Values of parameters by name, of one design.

    Args:
        parameters: The values.
        id: Of its row, where designs are the rows of a catalogue; otherwise None. It is
            an attribute too.
    """

    def __init__(self, parameters: Mapping[str, Any], id: str | None = None) -> None:
        super().__init__(parameters)
        self.id = id

    def copy(self) -> Design:
        """Returns another design with the same values and the same id."""
        return Design(self, self.id)

    def __repr__(self) -> str:
        values = super().__repr__()
        return values if self.id is None else f"Design({values}, id={self.id!r})"


@dataclass(frozen=True)
class Question:
    """Two options to compare, more to choose from or to rank, or the ends of a line.

    Attributes:
        index: The number of Ax's trial.
        options: The parameters of each option, by name; of a catalogue, with its id.
            Of a line its two ends.
        rater: The name of who is asked; None for whoever answers.
        names: The names of the options' arms: of a catalogue, the ids of the rows.
        line: The designs between the options; None of options side by side.
        context: The values that were measured and not chosen, of all options.
    """

    index: int
    options: tuple[Design, ...]
    rater: str | None = None
    names: tuple[str, ...] = field(default=(), compare=False)
    line: Line | None = field(default=None, compare=False, repr=False)
    context: Context = field(default_factory=dict, compare=False, repr=False)

    @property
    def is_line(self) -> bool:
        """Whether it asks where on the line between the options somebody stops."""
        return self.line is not None

    def at(self, position: float) -> Design:
        """Returns the design at a position of the line, from 0, its first end, to 1.

        Whole numbers and numbers in steps have the nearest value that there is.

        Raises:
            ExperimentError: The question is about no line, or this is no position.
        """
        return Design(self._line.at(position))

    def positions(self, limit: int) -> list[float]:
        """Lists positions of different designs from end to end, at most ``limit``.

        A page's slider stops there.

        Raises:
            ExperimentError: The question is about no line.
        """
        return self._line.positions(limit)

    @property
    def _line(self) -> Line:
        """The line that the question is about, which it must have."""
        if self.line is None:
            raise ExperimentError(
                f"Question {question_number(self.index)} shows options side by side; "
                "ask with line=True for designs in between."
            )
        return self.line

    @classmethod
    def from_logged(cls, log: Log, logged: LoggedQuestion) -> Question:
        """Returns a question of a log as a person gets it, with names and its line."""
        names = tuple(option.name for option in logged.options)
        ids = [None] * len(names) if log.catalogue is None else names
        pairs = zip(logged.options, ids, strict=True)
        options = tuple(Design(option.parameters, name) for option, name in pairs)
        line = log.line_of(logged) if logged.is_line else None
        context = log.context_of(logged)
        return cls(logged.index, options, logged.rater, names, line, context)


def asked_question(log: Log, question: Question | int) -> LoggedQuestion:
    """Returns a question of the log, given itself or its index.

    Raises:
        ExperimentError: The log has no such question; one of another experiment may
            have the index of one here, and other options.
    """
    index = question.index if isinstance(question, Question) else question
    if not is_integer(index):
        raise argument_error("question", index, "a Question, or its index from 0")
    if index not in range(len(log.questions)):
        raise ExperimentError(
            f"There is no question with the index {quoted(index)}; "
            f"{len(log.questions)} were asked so far, counted from 0."
        )
    logged = log.questions[int(index)]
    if isinstance(question, Question) and Question.from_logged(log, logged) != question:
        raise ExperimentError(
            f"Question {question_number(index)} of {log.name!r} shows other options; "
            "this one is of another experiment."
        )
    return logged


def tell(log: Log, question: LoggedQuestion, fields: Mapping[str, Any]) -> None:
    """Adds an answer to a question, unless it has this one already.

    ``fields`` has those of `Answer` and `CIRCUMSTANCES`; without a rater, the person
    answers who was asked. The same answer has the same rater and the same note.

    Raises:
        ExperimentError: It has another answer, or was asked of somebody else; or this
            is no answer to it.
    """
    if fields.get("count") is not None:
        raise ExperimentError(
            f"count is {quoted(fields['count'])}; leave it out, or give record "
            "answers from elsewhere that were given several times."
        )
    if fields.get("rater") is None:
        fields = {**fields, "rater": question.rater}
    if question.is_line and fields.get(POSITION.field) is not None:
        # The person judged a design that exists, which may lie beside the position.
        tried = log.line_of(question).tried(fields[POSITION.field])
        fields = {**fields, POSITION.field: tried}
    answer, before = (
        answer_content(log, len(question.options), fields),
        question.standing,
    )
    check_of_line(question.is_line, answer)
    if question.rater not in (None, answer.get("rater")):
        raise ExperimentError(
            f"Question {question_number(question.index)} was asked of "
            f"{question.rater!r}, and {answer['rater']!r} answers; ask about its "
            "options anew, with rater= and options=."
        )
    if before is None:
        log.add(question.index, TOLD, answer)
        return
    if told_again(answer) != told_again(before.what):
        raise ExperimentError(
            f"Question {question_number(question.index)} has the answer "
            f"{dict(before.what)}; withdraw it or undo it before you give another one."
        )


_OF_TELLING = {"seconds", "order"}
"""Circumstances that may be others when the same answer is told again."""


def told_again(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the part of an answer that is the same when it is told again."""
    return {name: value for name, value in answer.items() if name not in _OF_TELLING}


def record(
    log: Log,
    designs: Sequence[TParameterization],
    answer: Mapping[str, Any],
    time: str | None = None,
    earlier: KnownAnswers | None = None,
) -> None:
    """Asks about designs of `own_options`, and adds an answer from elsewhere.

    The answer is what `answer_content` returned. With the ``time`` at which it was
    given, it is not added where it is one of the ``earlier`` ones.
    """
    is_line = POSITION.field in answer
    if is_line:
        tried = Line(log.space, *designs).tried(answer[POSITION.field])
        answer = {**answer, POSITION.field: tried}
    if earlier and time is not None and earlier.has(designs, answer, time):
        return
    chosen = Chosen(designs, elsewhere=True, line=is_line)
    question = log.ask(chosen, answer.get("rater"), time)
    log.add(question.question, TOLD, answer, time)


class KnownAnswers:
    """Answers that a log has, or had, before a table is read; each is found once.

    Args:
        log: The log.
    """

    def __init__(self, log: Log) -> None:
        """Lists the questions of all answers, and those of answers that stand."""
        self._numbers = answers_by_key(log)
        # By time, options and rater: a row that says otherwise was edited.
        self._standing: dict[str, dict[int, Mapping[str, Any]]] = {}
        for event in log.answers():
            options = [
                option.parameters for option in log.questions[event.question].options
            ]
            answers = self._standing.setdefault(
                _asked_key(options, event.what, event.time), {}
            )
            answers[event.question] = event.what

    def has(
        self, options: Sequence[Mapping[str, Any]], answer: Mapping[str, Any], time: str
    ) -> bool:
        """Tells whether the log has an answer of a table, which is left out then.

        What was found is not found again: of equal rows as many are left out as the log
        has.

        Raises:
            ExperimentError: Another answer of its rater and time about these options
                stands, and was not found: somebody edited it.
        """
        standing = self._standing.get(_asked_key(options, answer, time), {})
        if numbers := self._numbers.get(_key(options, answer, time)):
            number = next((n for n in numbers if n in standing), numbers[0])
            numbers.remove(number)
            standing.pop(number, None)
            return True
        for number, standing_answer in standing.items():
            raise ExperimentError(
                f"Question {question_number(number)} has another answer of this rater "
                f"and time about these options: {dict(standing_answer)}. To change it, "
                f"withdraw it by withdraw({number}), and give the table again; to add "
                "one beside it, leave out the time."
            )
        return False


def answers_by_key(log: Log) -> dict[str, list[int]]:
    """Lists numbers of answered questions by a text of the answer, the latest first.

    An answer has the same text in every log: of its time, its options, and what was
    said. Somebody may have undone it since, and given another one.
    """
    numbers: dict[str, list[int]] = {}
    for event in reversed(log.events):
        if event.kind == TOLD:
            options = [o.parameters for o in log.questions[event.question].options]
            key = _key(options, event.what, event.time)
            numbers.setdefault(key, []).append(event.question)
    return numbers


def _asked_key(
    options: Sequence[Mapping[str, Any]], answer: Mapping[str, Any], time: str
) -> str:
    """Makes a text like `_key`, of who was asked and not of what was said."""
    return _key(options, {"rater": answer.get("rater")}, time)


def _key(
    options: Sequence[Mapping[str, Any]], answer: Mapping[str, Any], time: str
) -> str:
    """Makes a text that an answer of a time about options has in every log."""
    return json_text(
        [time, [dict(option) for option in options], told_again(answer)], any_order=True
    )


def answer_content(
    log: Log, num_options: int, fields: Mapping[str, Any]
) -> dict[str, Any]:
    """Makes what an event of the log says of an answer that a person or table gives.

    Raises:
        ExperimentError: This is no answer about so many options, its rater is missing,
            or the experiment's model does not take it.
    """
    answer, around = checked_parts(num_options, log.num_levels, fields)
    if log.settings.raters == SHARE and "rater" not in around:
        raise ExperimentError(
            "Each rater has a utility here, and the answer has no rater; give rater=, "
            "the name of the person who answered."
        )
    check_taken(log.settings, answer, num_options, log.num_levels)
    return {**answer.to_json(), **around}
