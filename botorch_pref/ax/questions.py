"""Questions, and answers that are told and recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ax.core.types import TParameterization
from pandas.api.types import is_integer

from botorch_pref.ax.answers import check_taken, checked_told
from botorch_pref.ax.given import written, wrong
from botorch_pref.ax.log import TOLD, Chosen, Log, LoggedQuestion, json_text
from botorch_pref.ax.settings import SHARE
from botorch_pref.errors import ExperimentError

MOST_OPTIONS = 100
"""Of one question; nobody compares more at once."""


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
        """Another design with the same values and the same id."""
        return Design(self, self.id)

    def __repr__(self) -> str:
        values = super().__repr__()
        return values if self.id is None else f"Design({values}, id={self.id!r})"


@dataclass(frozen=True)
class Question:
    """Two options to compare, or more to choose from or to rank.

    Attributes:
        index: The number of Ax's trial.
        options: The parameters of each option, by name; of a catalogue, with its id.
        rater: The name of who is asked; None for whoever answers.
        names: The names of the options' arms: of a catalogue, the ids of the rows.
    """

    index: int
    options: tuple[Design, ...]
    rater: str | None = None
    names: tuple[str, ...] = field(default=(), compare=False)

    @classmethod
    def of_logged(cls, log: Log, logged: LoggedQuestion) -> Question:
        """A question of a log."""
        names = tuple(option.name for option in logged.options)
        ids = [None] * len(names) if log.catalogue is None else names
        each = zip(logged.options, ids, strict=True)
        options = tuple(Design(option.parameters, name) for option, name in each)
        return cls(logged.index, options, logged.rater, names)


def asked_question(log: Log, question: Question | int) -> LoggedQuestion:
    """A question of the log, given itself or its index."""
    index = question.index if isinstance(question, Question) else question
    if not is_integer(index):
        raise wrong("question", index, "a Question, or its index from 0")
    if index not in range(len(log.questions)):
        raise ExperimentError(
            f"There is no question {written(index)}; {len(log.questions)} were asked "
            "so far, counted from 0."
        )
    found = log.questions[int(index)]
    if isinstance(question, Question) and Question.of_logged(log, found) != question:
        raise ExperimentError(
            f"Question {index} of {log.name!r} shows other options; this one is of "
            "another experiment."
        )
    return found


def tell(log: Log, asked: LoggedQuestion, given: Mapping[str, Any]) -> None:
    """Adds an answer to a question, unless it has this one already.

    ``given`` has fields of `Answer` and `CIRCUMSTANCES`; without a rater, the person
    answers who was asked. The same answer has the same rater and the same note.
    """
    if given.get("count") is not None:
        raise ExperimentError(
            f"count is {written(given['count'])}; leave it out, or give record answers "
            "from elsewhere that were given several times."
        )
    if given.get("rater") is None:
        given = {**given, "rater": asked.rater}
    what, before = taken(log, len(asked.options), given), asked.standing
    if asked.rater not in (None, what.get("rater")):
        raise ExperimentError(
            f"Question {asked.index} was asked of {asked.rater!r}, and "
            f"{what['rater']!r} answers; ask about its options anew, with rater= and "
            "options=."
        )
    if before is None:
        log.add(asked.index, TOLD, what)
        return
    if told_again(what) != told_again(before.what):
        raise ExperimentError(
            f"Question {asked.index} has the answer {dict(before.what)}; withdraw it "
            "or undo it before you give another one."
        )


_OF_TELLING = {"seconds", "order"}
"""Circumstances that may be others when the same answer is told again."""


def told_again(what: Mapping[str, Any]) -> dict[str, Any]:
    """The part of an answer that is the same when it is told again."""
    return {name: value for name, value in what.items() if name not in _OF_TELLING}


def record(
    log: Log,
    designs: Sequence[TParameterization],
    what: Mapping[str, Any],
    time: str | None = None,
    known: KnownAnswers | None = None,
) -> None:
    """Asks about designs of `own_options`, and adds an answer from elsewhere.

    It is what `taken` returned. With the ``time`` at which it was given, it is not
    added where it is one of those that are ``known``.
    """
    if known and time is not None and known.has(designs, what, time):
        return
    asked = log.ask(Chosen(designs, elsewhere=True), what.get("rater"), time)
    log.add(asked.question, TOLD, what, time)


class KnownAnswers:
    """Answers that a log has, or had, before a table is read; each is found once.

    Args:
        log: The log.
    """

    def __init__(self, log: Log) -> None:
        self._numbers = {
            key: [number for number, _ in places]
            for key, places in answers_by_key(log).items()
        }
        self._standing: dict[str, dict[int, Mapping[str, Any]]] = {}
        for told in log.answers():
            options = [each.parameters for each in log.questions[told.question].options]
            same = self._standing.setdefault(
                _asked_key(options, told.what, told.time), {}
            )
            same[told.question] = told.what

    def has(
        self, options: Sequence[Mapping[str, Any]], what: Mapping[str, Any], time: str
    ) -> bool:
        """Whether an answer is one of them, which is not found again then.

        Raises:
            ExperimentError: Another answer of its rater and time about these options
                stands, and was not found: somebody edited it.
        """
        standing = self._standing.get(_asked_key(options, what, time), {})
        if numbers := self._numbers.get(_key(options, what, time)):
            found = next((n for n in numbers if n in standing), numbers[0])
            numbers.remove(found)
            standing.pop(found, None)
            return True
        for number, said in standing.items():
            raise ExperimentError(
                f"Question {number} has another answer of this rater and time about "
                f"these options: {dict(said)}. To change it, withdraw question "
                f"{number}, and give the table again; to add one beside it, leave out "
                "the time."
            )
        return False


def answers_by_key(log: Log) -> dict[str, list[tuple[int, int]]]:
    """Questions that were answered, by a text that tells the answer, the latest first.

    They have their number, and how many of their events there were then. An answer has
    the same text in every log: of its time, its options, and what was said. It may have
    been taken back since, and another one given.
    """
    found: dict[str, list[tuple[int, int]]] = {}
    for told in reversed(log.events):
        if told.kind == TOLD:
            question = log.questions[told.question]
            options = [option.parameters for option in question.options]
            place = question.index, question.events.index(told) + 1
            found.setdefault(_key(options, told.what, told.time), []).append(place)
    return found


def _asked_key(
    options: Sequence[Mapping[str, Any]], what: Mapping[str, Any], time: str
) -> str:
    """As `_key`, of who was asked and not of what was said."""
    return _key(options, {"rater": what.get("rater")}, time)


def _key(
    options: Sequence[Mapping[str, Any]], what: Mapping[str, Any], time: str
) -> str:
    return json_text(
        [time, [dict(option) for option in options], told_again(what)], any_order=True
    )


def taken(log: Log, num_options: int, given: Mapping[str, Any]) -> dict[str, Any]:
    """The part of an event that says an answer, which the model of the log takes."""
    answer, around = checked_told(num_options, log.num_levels, given)
    if log.settings.raters == SHARE and "rater" not in around:
        raise ExperimentError(
            "Each rater has a utility here, and the answer has no rater; give rater=, "
            "the name of the person who answered."
        )
    check_taken(log.settings, answer, num_options, log.num_levels)
    return {**answer.given(), **around}
