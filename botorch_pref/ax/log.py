"""The log of an experiment: what it is, and all that was asked, said and undone.

The log is the one truth of an experiment. It grows at its end, and nothing in it is
ever rewritten. Ax's ``Experiment`` is made from it (`projection`), and tables keep it
(`log_store`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from string import ascii_uppercase
from typing import Any, Self, cast

from ax.api import configs
from ax.core.experiment import Experiment
from ax.core.types import TParameterization
from ax.exceptions.core import AxError

from botorch_pref.ax.answer_kinds import INVALID, POSITION, TIE, stop_place
from botorch_pref.ax.answers import CIRCUMSTANCES, checked_parts, checked_rater
from botorch_pref.ax.settings import SHARE, Settings, checked_space, new_experiment
from botorch_pref.ax.space.constraints import in_steps
from botorch_pref.ax.space.context import (
    NO_CONTEXT,
    Context,
    check_one_context,
    context_of,
)
from botorch_pref.ax.space.lines import Line
from botorch_pref.ax.space.options import Catalogue
from botorch_pref.errors import ExperimentError, StorageError

VERSION = 4
"""The version of what is stored. Raise it when an older reader would misread it."""

ASKED, TOLD, WITHDRAWN, UNDONE = "asked", "told", "withdrawn", "undone"

_AFTER = {
    None: (ASKED,),
    ASKED: (TOLD, WITHDRAWN),
    TOLD: (WITHDRAWN, UNDONE),
    WITHDRAWN: (TOLD,),
    UNDONE: (TOLD, WITHDRAWN),
}
"""The kinds of events that can follow one of each kind."""

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
    """Returns the text of a value."""
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
    """Reads the text of an event; equal texts, of which there are many, once."""
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
        """Returns Ax's experiment of this definition, without questions."""
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
    """Makes parameters as they are stored, checked with their constraints."""
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
        """Returns the event as a row of a table."""
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
        """Returns a new event, whose ``what`` is as it will be read again."""
        text = json_text({key: v for key, v in content.items() if key != "rater"})
        values = number, question, kind, time, content.get("rater"), text
        return cls._from_written(dict(zip(COLUMNS, values, strict=True)))

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Self:
        """Returns an event from its row."""
        kinds = {"number": int, "question": int, "rater": str | None}
        if not all(isinstance(row[key], kinds.get(key, str)) for key in COLUMNS):
            raise StorageError(f"it is no event: {_short(row)}")
        return cls._from_written(row)

    @classmethod
    def _from_written(cls, row: Mapping[str, Any]) -> Self:
        content, rater = _said_by(row["what"]), row["rater"]
        complete = content if rater is None else {**content, "rater": rater}
        columns = {key: row[key] for key in ("number", "question", "kind", "time")}
        return cls(what=complete, text=row["what"], **columns)


COLUMNS = ("number", "question", "kind", "time", "rater", "what")
"""The columns of an event."""


def _short(values: Mapping[str, Any]) -> str:
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


class Log:
    """Log of an experiment in memory, complete and checked.

    ``blank`` is Ax's experiment without questions; ``names`` has the name of each
    option that was shown, by its parameters; ``titles`` what people call
    it, by its name: the id of a row, or the `option_title` where it was first shown;
    ``raters`` the number of each person who has answered, by name, in the order of
    their first answers. ``position`` points of the Sobol sequence were used.
    """

    def __init__(self, definition: Definition) -> None:
        if definition.version != VERSION:
            raise StorageError(
                f"{definition.name!r} is stored as version {definition.version!r}, and "
                f"this package reads version {VERSION}; use the package that wrote it."
            )
        self.definition = definition
        self.name = definition.name
        self.blank = definition.experiment()
        self.space = self.blank.search_space
        # With the baseline as a design of the space has it.
        self.settings = Settings.from_experiment(self.blank)
        self.catalogue = Catalogue.from_experiment(self.blank)
        self.num_levels = definition.num_levels
        self._begin()

    def _begin(self) -> None:
        self.events: list[Event] = []
        self.questions: list[LoggedQuestion] = []
        self.names: dict[frozenset[tuple[str, Any]], str] = {}
        self.titles: dict[str, str] = {}
        self.raters: dict[str, int] = {}
        self.position = 0
        self._options: dict[str, Option] = {}

    def number_of_rater(self, name: str | None) -> int | None:
        """Finds the number of a rater whose own utility counts; None for all together.

        Somebody new has the next number: the model predicts her from the others.
        """
        if name is None or self.settings.raters != SHARE:
            return None
        return self.raters.get(name, len(self.raters))

    def known_rater(self, name: str) -> int:
        """Returns the number of a rater who has answered, and is told from others."""
        if self.settings.raters != SHARE:
            raise ExperimentError(
                f"The answers of {self.name!r} are pooled: nothing is known of "
                f"{name!r} alone; create an experiment with raters={SHARE!r}."
            )
        if name not in self.raters:
            raise ExperimentError(
                f"There are no answers of {name!r}; there are some of "
                f"{', '.join(map(repr, self.raters)) or 'nobody'}."
            )
        return self.raters[name]

    def name_of(self, option: TParameterization) -> str | None:
        """Returns the name of an option that was shown."""
        return self.names.get(frozenset(option.items()))

    def titles_of(self, question: LoggedQuestion) -> list[str]:
        """Returns what people call the options of a question, in the order shown.

        After the ends of a line there is the design at which somebody stopped.
        """
        return [self.titles[option.name] for option in question.judged]

    def line_of(self, question: LoggedQuestion) -> Line:
        """Returns the line between the two options of a question."""
        first, last = (option.parameters for option in question.options)
        return Line(self.space, first, last)

    def answers(self) -> Iterator[Event]:
        """Returns answers that stand, neither withdrawn nor undone, the latest first.

        They are in the order of their times: a table may have brought older ones.
        """
        events, questions = self.events, self.questions
        standing = (e for e in events if questions[e.question].standing is e)
        yield from sorted(standing, key=lambda e: (e.time, e.number), reverse=True)

    def context_of(self, question: LoggedQuestion) -> Context:
        """Returns the values that all options of a question have in common."""
        return context_of(question.options[0].parameters, self.settings.context)

    @property
    def last_context(self) -> Context:
        """The context of the last answer; none where there is no answer."""
        last = self.last_answer(None)
        return (
            NO_CONTEXT
            if last is None
            else self.context_of(self.questions[last.question])
        )

    @property
    def num_compared(self) -> int:
        """Number of answers that stand and say something of their options."""
        answers = (e for e in self.answers() if "cannot_compare" not in e.what)
        return sum(answer.count for answer in answers)

    def last_answer(self, rater: str | None) -> Event | None:
        """Returns the latest answer that stands, of one rater or of anybody (None)."""
        return next((e for e in self.answers() if rater in (None, e.rater)), None)

    def ask(
        self, chosen: Chosen, rater: str | None = None, time: str | None = None
    ) -> Event:
        """Asks about options, see `add`; one that was shown before keeps its name."""
        check_one_context(chosen.options, self.settings.context)
        index, named = len(self.questions), []
        for place, option in enumerate(chosen.options):
            name = self.name_of(option)
            if name is None and self.catalogue is not None:
                name = self.catalogue.id_of(option)
            in_order = {n: option[n] for n in self.space.parameters if n in option}
            named.append({"name": name or f"{index}_{place}", "parameters": in_order})
        places = range(len(named)) if chosen.places is None else chosen.places
        options_in_order = [named[place] for place in places]
        content = {**vars(chosen), "options": options_in_order, "rater": rater}
        stated = {k: v for k, v in content.items() if v is not None and v is not False}
        return self.add(index, ASKED, stated, time)

    def add(
        self,
        question: int,
        kind: str,
        content: Mapping[str, Any] = {},
        time: str | None = None,
    ) -> Event:
        """Adds what happened to a question, now, or at a time: then it is checked."""
        event = Event.following(
            len(self.events), question, kind, time or now(), content
        )
        if time is not None:
            self.check(event)
        self.append(event)
        return event

    def forget(self, since: int) -> None:
        """Drops the events from a number on, which could not be stored."""
        before = copy(self)
        before._begin()
        for event in self.events[:since]:
            before.append(event)
        # In one step: a thread that reads sees all events or those before.
        vars(self).update(vars(before))

    def append(self, event: Event) -> None:
        """Adds an event that is known to be right.

        Threads may read meanwhile, so that the names of its options are added before a
        question, and the question before its event.
        """
        if event.kind == ASKED:
            self._append_question(event)
        else:
            question = self.questions[event.question]
            if event.kind == TOLD and POSITION.field in event.what:
                question.stop = self._stop(question, event.what[POSITION.field])
            question.events.append(event)
        if event.kind == TOLD and event.rater is not None:
            self.raters.setdefault(event.rater, len(self.raters))
        self.events.append(event)

    def _append_question(self, event: Event) -> None:
        """Adds a question to the log, with names for its new options."""
        used = event.what.get("generated", {}).get("position", 0)
        self.position = max(self.position, used)
        options = []
        for place, fields in enumerate(event.what["options"]):
            option = self._options.get(fields["name"])
            if option is None:
                title = option_title(event.question, place)
                option = self._new_option(Option(**fields), title)
            options.append(option)
        self.questions.append(LoggedQuestion(event.question, tuple(options), [event]))

    def _new_option(self, option: Option, title: str) -> Option:
        self._options[option.name] = option
        self.titles[option.name] = option.name if self.catalogue else title
        self.names[frozenset(option.parameters.items())] = option.name
        return option

    def _stop(self, question: LoggedQuestion, position: float) -> Option:
        """Finds the option at a position of a line, or makes it if it was not shown."""
        if (place := stop_place(position)) < 2:
            return question.options[place]
        design = self.line_of(question).at(position)
        if (name := self.name_of(design)) is not None:
            return self._options[name]
        # One after the ends, for each time that another stop was told.
        place += sum(event.kind == TOLD for event in question.events)
        option = Option(f"{question.index}_{place}", design)
        return self._new_option(option, option_title(question.index, place))

    def append_stored(self, rows: Iterable[Mapping[str, Any]], number: object) -> None:
        """Adds events that were stored, each checked to be one that can have happened.

        There are ``number`` events then in all.
        """
        for row in rows:
            try:
                event = Event.from_row(row)
                if event.number != len(self.events):
                    raise StorageError(f"{len(self.events)} events are before it")
                self.check(event)
            except StorageError as error:
                raise StorageError(
                    f"Event {row['number']!r} of {self.name!r} is damaged: {error}."
                ) from error
            self.append(event)
        if len(self.events) != number:
            raise StorageError(
                f"The log of {self.name!r} has {len(self.events)} events, and {number} "
                "were written."
            )

    def check(self, event: Event) -> None:
        """Checks that an event can have happened next."""
        try:
            self._check_order(event)
            if event.kind == ASKED:
                self._check_options(event)
                self._check_line(event)
            elif event.kind == TOLD:
                size = len(self.questions[event.question].options)
                answer, around = checked_parts(size, self.num_levels, event.what)
                if {**answer.to_json(), **around} != event.what:
                    raise StorageError(f"{dict(event.what)} is no answer to it")
                check_of_line(self.questions[event.question].is_line, event.what)
            elif event.what:
                raise StorageError(f"it says {dict(event.what)}")
        # Damaged data fail in all kinds of ways.
        except (AttributeError, KeyError, TypeError, ValueError, AxError) as error:
            raise StorageError(
                f"it cannot have happened ({error}): {_short(asdict(event))}"
            ) from error

    def _check_order(self, event: Event) -> None:
        """Checks that an event may follow the last one of its question."""
        index, before = event.question, None
        if index in range(len(self.questions)):
            before = self.questions[index].events[-1].kind
        elif index != len(self.questions):
            raise StorageError(f"question {index} was never asked")
        if event.kind not in _AFTER[before]:
            raise StorageError(
                f"question {index} was {before or 'never asked'} and then {event.kind}"
            )
        datetime.fromisoformat(event.time)

    def _check_line(self, event: Event) -> None:
        if event.what.get("line"):
            first, last = (option["parameters"] for option in event.what["options"])
            Line(self.space, first, last)

    def _check_options(self, event: Event) -> None:
        """Checks that a question shows different options of the space."""
        checked_rater(event.rater)
        designs = [option["parameters"] for option in event.what["options"]]
        check_one_context(designs, self.settings.context)
        names = [option["name"] for option in event.what["options"]]
        if len(names) < 2 or len({*names}) < len(names):
            raise StorageError(f"it shows {names}")
        for option in event.what["options"]:
            name, parameters = option["name"], option["parameters"]
            if not isinstance(name, str) or not name:
                raise StorageError(f"it shows an option named {name!r}")
            before = self._options.get(name)
            if before is not None and before.parameters == parameters:
                continue
            if before is not None or self.name_of(parameters) is not None:
                raise StorageError(f"{name!r} is the name of another option")
            numbers = [v for v in parameters.values() if isinstance(v, float)]
            finite = all(map(math.isfinite, numbers))
            if not finite or not self.space.check_membership(parameters):
                raise StorageError(f"{parameters} is not in the search space")
            if self.catalogue and self.catalogue.rows.get(name) != parameters:
                raise StorageError(f"{name!r}, {parameters}, is no row of its table")
