"""Events of the log of an experiment, and the questions that they are about."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from string import ascii_uppercase
from typing import Any, Self, cast

from ax.api import configs
from ax.core.experiment import Experiment
from ax.core.types import TParameterization

from botorch_pref.ax.answer_kinds import INVALID, POSITION, TIE
from botorch_pref.ax.answers import CIRCUMSTANCES
from botorch_pref.ax.settings import Settings, checked_space, new_experiment
from botorch_pref.ax.space.constraints import in_steps
from botorch_pref.ax.space.options import Catalogue
from botorch_pref.errors import ExperimentError, StorageError

VERSION = 4
"""The version of what is stored. Raise it when an older reader would misread it."""

ASKED, TOLD, WITHDRAWN, UNDONE = "asked", "told", "withdrawn", "undone"

PERSON = "person"
"""The chooser of options that a person gave."""

_CONFIGS = {
    "range": configs.RangeParameterConfig,
    "choice": configs.ChoiceParameterConfig,
    "derived": configs.DerivedParameterConfig,
}
"""The kinds of parameters, by the names that the log has for them."""


_ENCODERS = {
    any_order: json.JSONEncoder(
        sort_keys=any_order,
        ensure_ascii=False,
        allow_nan=False,
        default=lambda number: number.item(),
    )
    for any_order in (False, True)
}
"""Encoders, made once: many short texts are written."""


def json_text(value: Any, any_order: bool = False) -> str:
    """Returns the JSON of a value, as it is stored.

    In ``any_order`` its keys are sorted, so that texts of equal values are equal.

    Raises:
        ExperimentError: JSON cannot hold the value.
    """
    try:
        return _ENCODERS[any_order].encode(value)
    except (AttributeError, TypeError, ValueError) as error:
        raise ExperimentError(f"{value!r} cannot be stored: {error}") from error


def json_value(text: object) -> Any:
    """Returns the value of a text that `json_text` made."""
    if not isinstance(text, str):
        raise StorageError(f"{text!r:.80} is no text")
    try:
        return _DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        raise StorageError(f"{text[:80]!r} is no JSON: {error}") from error


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is no number")


_DECODER = json.JSONDecoder(parse_constant=_no_number)


@lru_cache(maxsize=4096)
def _said_by(text: str) -> dict[str, Any]:
    """Reads the text of an event; equal texts, of which there are many, once.

    Events share the result, which must not be changed.
    """
    content = json_value(text)
    if not isinstance(content, dict):
        raise StorageError(f"{content!r:.80} says nothing")
    return content


@dataclass(frozen=True)
class Definition:
    """Everything of an experiment that never changes, as it is stored.

    ``parameters`` are Ax's configurations, each with its ``kind``.
    """

    name: str
    created: str
    parameters: list[dict[str, Any]]
    constraints: list[str]
    num_levels: int | None
    settings: dict[str, Any]
    catalogue: dict[str, Any] | None
    version: int = VERSION

    def read_back(self) -> Self:
        """Returns the same as it comes out of JSON."""
        return replace(self, **json.loads(json_text(asdict(self))))

    def experiment(self) -> Experiment:
        """Returns Ax's experiment of this definition, without questions.

        Raises:
            StorageError: What was stored is damaged.
            ExperimentError: It cannot be an experiment.
        """
        # The part that is being read, for the message.
        source, table = "parameters", self.catalogue
        try:
            configs = []
            for stored in map(dict, self.parameters):
                if stored.get("bounds") is not None:
                    # JSON has no tuples.
                    stored["bounds"] = tuple(stored["bounds"])
                configs.append(_CONFIGS[stored.pop("kind")](**stored))
            source = "catalogue"
            catalogue = None if table is None else Catalogue.from_property(table)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise StorageError(
                f"The {source} of {self.name!r} cannot be read: {error!r}"
            ) from error
        return new_experiment(
            self.name,
            configs,
            self.constraints,
            self.num_levels,
            Settings.from_stored(self.settings),
            catalogue,
        )


def stored_parameters(parameters: object, constraints: object) -> list[dict[str, Any]]:
    """Makes parameters as they are stored, checked with their constraints.

    Each is Ax's configuration with its ``kind``; `Definition.experiment` reads it.
    """
    stored = []
    for config in map(in_steps, checked_space(parameters, constraints)):
        (kind,) = (kind for kind, cls in _CONFIGS.items() if isinstance(config, cls))
        stored.append({"kind": kind, **asdict(config)})
    return stored


def option_title(question: int, place: int) -> str:
    """Names an option as people do, by its question and the place where it was shown.

    Both are counted from 0 here, and from 1 and A on by people, as the page shows them:
    "3 B" is the second option of the third question.
    """
    letter = ascii_uppercase[place] if place < len(ascii_uppercase) else place + 1
    return f"{question + 1} {letter}"


def question_number(index: int) -> str:
    """Numbers a question for errors, which pages show as well as code.

    People count from 1, as in `option_title`, and code takes the index, from 0.
    """
    return f"{index + 1} (index {index})"


def now() -> str:
    """Returns the time of this moment, as events have it."""
    return moment(datetime.now(UTC))


def moment(time: datetime) -> str:
    """Returns a time in UTC, to a millisecond, as ISO 8601."""
    return time.astimezone(UTC).isoformat(timespec="milliseconds")


@dataclass(frozen=True)
class Event:
    """Something that happened to a question.

    Attributes:
        number: The event's place in the experiment, from 0.
        question: The number of the question.
        kind: ``asked``, ``told``, ``withdrawn`` or ``undone``.
        time: In UTC, ISO 8601.
        what: Of a question its ``options`` in the order they were shown, each with a
            ``name`` and ``parameters``; perhaps the ``rater`` who is asked; and fields
            of `Chosen`. Of an answer what was said, and `CIRCUMSTANCES`. Events with
            equal texts share it: it is never changed.
        text: The JSON of ``what`` without the rater, as it is written.
    """

    number: int
    question: int
    kind: str
    time: str
    what: Mapping[str, Any]
    text: str

    @property
    def fields(self) -> dict[str, Any]:
        """Fields of an answer that say something."""
        return {k: v for k, v in self.what.items() if k not in CIRCUMSTANCES}

    @property
    def count(self) -> int:
        """The number of times that an answer was given."""
        return cast("int", self.what.get("count", 1))

    @property
    def rater(self) -> str | None:
        """The name of who was asked or who answered; None for nobody in particular."""
        return cast("str | None", self.what.get("rater"))

    def to_row(self) -> dict[str, Any]:
        """Returns the event as a row of the table `EVENTS`, and of a file."""
        return {
            "number": self.number,
            "question": self.question,
            "kind": self.kind,
            "time": self.time,
            "rater": self.rater,
            "what": self.text,
        }

    @classmethod
    def following(
        cls,
        number: int,
        question: int,
        kind: str,
        time: str,
        content: Mapping[str, Any],
    ) -> Self:
        """Returns a new event, whose ``what`` is as it will be read again.

        A tuple is a list then, and NumPy's numbers are Python's.
        """
        text = json_text({key: v for key, v in content.items() if key != "rater"})
        values = number, question, kind, time, content.get("rater"), text
        return cls._from_written(dict(zip(COLUMNS, values, strict=True)))

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Self:
        """Returns an event from its row, as a database or a file has it.

        Raises:
            StorageError: A value is of another type than it was written in.
        """
        kinds = {"number": int, "question": int, "rater": str | None}
        if not all(isinstance(row[key], kinds.get(key, str)) for key in COLUMNS):
            raise StorageError(f"it is no event: {short_text(row)}")
        return cls._from_written(row)

    @classmethod
    def _from_written(cls, row: Mapping[str, Any]) -> Self:
        """Returns the event of a row, whose rater has a column besides the text."""
        content, rater = _said_by(row["what"]), row["rater"]
        complete = content if rater is None else {**content, "rater": rater}
        columns = {key: row[key] for key in ("number", "question", "kind", "time")}
        return cls(what=complete, text=row["what"], **columns)


COLUMNS = ("number", "question", "kind", "time", "rater", "what")
"""The columns of an event."""


def short_text(values: Mapping[str, Any]) -> str:
    """Writes values by their names for a message, each cut off where it is long."""
    texts = {key: str(value) for key, value in values.items()}
    return ", ".join(
        f"{key} {text if len(text) <= 200 else text[:200] + ' ...'}"
        for key, text in texts.items()
    )


@dataclass(frozen=True)
class Option:
    """Option of a question; its name is that of Ax's arm, or the id of a row."""

    name: str
    parameters: TParameterization


@dataclass(frozen=True)
class Chosen:
    """Parameters of options in the order in which they were chosen, and how.

    Attributes:
        chosen_by: Ax's name of a generator, or `PERSON`.
        places: Of the options in the order in which they are shown, if that differs.
        repeats: The number of the question that is asked again.
        generated: What the generator goes on from: the ``node`` of the strategy, and
            the ``position`` in the Sobol sequence.
        elsewhere: Whether the question was answered elsewhere.
        line: Whether the two options are the ends of a line.
    """

    options: Sequence[TParameterization]
    chosen_by: str = PERSON
    places: Sequence[int] | None = None
    repeats: int | None = None
    generated: Mapping[str, Any] | None = None
    elsewhere: bool = False
    line: bool = False


@dataclass
class LoggedQuestion:
    """Question with its options as they were shown, and with all of its events.

    ``stop`` is the option at which somebody stopped who was asked about a line.
    """

    index: int
    options: tuple[Option, ...]
    events: list[Event]
    stop: Option | None = None

    @property
    def content(self) -> Mapping[str, Any]:
        """The part of its first event that says what was asked."""
        return self.events[0].what

    @property
    def elsewhere(self) -> bool:
        """Whether it was answered elsewhere and recorded."""
        return "elsewhere" in self.content

    @property
    def is_line(self) -> bool:
        """Whether the options are the ends of a line."""
        return "line" in self.content

    @property
    def judged(self) -> tuple[Option, ...]:
        """The options that an answer is about: with the stop on a line."""
        answer, stop = self.standing, self.stop
        if answer is None or stop is None or POSITION.field not in answer.what:
            return self.options
        return self.options if stop in self.options else (*self.options, stop)

    @property
    def has_no_stop(self) -> bool:
        """Whether the answer to a line was that nothing on it is best, or any good."""
        answer = self.standing
        return self.is_line and answer is not None and POSITION.field not in answer.what

    @property
    def as_chosen(self) -> list[Option]:
        """The options in the order in which they were chosen."""
        places = self.content.get("places", range(len(self.options)))
        return [self.options[places.index(place)] for place in range(len(places))]

    @property
    def display(self) -> Sequence[int] | None:
        """The places of options in the order of their display to who answered.

        None where that is not known, or there is no answer.
        """
        answer = self.standing
        if answer is None:
            return None
        usual = None if self.elsewhere else range(len(self.options))
        return cast("Sequence[int] | None", answer.what.get("order", usual))

    @property
    def rater(self) -> str | None:
        """The name of who is asked; None for whoever answers."""
        return self.events[0].rater

    @property
    def standing(self) -> Event | None:
        """The event of the answer that stands, neither withdrawn nor undone."""
        # Once: a thread may undo it meanwhile.
        last = self.events[-1]
        return last if last.kind == TOLD else None

    @property
    def pending(self) -> bool:
        """Whether it waits for an answer."""
        return self.events[-1].kind in (ASKED, UNDONE)

    @property
    def withdrawn(self) -> bool:
        """Whether it, or its answer, was withdrawn and not told anew."""
        return self.events[-1].kind == WITHDRAWN

    @property
    def compared(self) -> bool:
        """Whether it has an answer that says something of the options."""
        answer = self.standing
        return answer is not None and not answer.what.get("cannot_compare")


def check_of_line(is_line: bool, stated: Mapping[str, Any]) -> None:
    """Checks that an answer is about a line where its question is, and only there."""
    if is_line and (further := stated.keys() - {*_OF_LINES, *CIRCUMSTANCES}):
        raise ExperimentError(
            f"The answer to a line says {', '.join(sorted(further))}; say position, "
            "where the person stopped, tie where nothing changed along it, or invalid="
            "[0, 1] where nothing on it was any good."
        )
    if not is_line and POSITION.field in stated:
        raise ExperimentError(
            "The question shows options side by side, which have no position; ask with "
            "line=True."
        )


_OF_LINES = {POSITION.field, TIE.field, INVALID.field, "cannot_compare"}
"""Fields of an answer to a line."""
