"""The log of an experiment: what it is, and all that was asked, said and undone.

The log is the one truth of an experiment. It grows at its end, and nothing in it is
ever rewritten. Ax's ``Experiment`` is made from it (`projection`), and tables keep it
(`log_store`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from dataclasses import asdict
from datetime import datetime
from typing import Any

from ax.core.types import TParameterization
from ax.exceptions.core import AxError

from botorch_pref.ax.answer_kinds import POSITION, stop_place
from botorch_pref.ax.answers import checked_parts, checked_rater
from botorch_pref.ax.events import (
    ASKED,
    TOLD,
    UNDONE,
    VERSION,
    WITHDRAWN,
    Chosen,
    Definition,
    Event,
    LoggedQuestion,
    Option,
    check_of_line,
    now,
    option_title,
    short_text,
)
from botorch_pref.ax.settings import SHARE, Settings
from botorch_pref.ax.space.context import (
    NO_CONTEXT,
    Context,
    check_one_context,
    context_of,
)
from botorch_pref.ax.space.lines import Line
from botorch_pref.ax.space.options import Catalogue
from botorch_pref.errors import ExperimentError, StorageError

_AFTER = {
    None: (ASKED,),
    ASKED: (TOLD, WITHDRAWN),
    TOLD: (WITHDRAWN, UNDONE),
    WITHDRAWN: (TOLD,),
    UNDONE: (TOLD, WITHDRAWN),
}
"""The kinds of events that can follow one of each kind."""


class Log:
    """Log of an experiment in memory, complete and checked.

    ``blank`` is Ax's experiment without questions; ``names`` has the name of each
    option that was shown, by its parameters; ``titles`` what people call
    it, by its name: the id of a row, or the `option_title` where it was first shown;
    ``raters`` the number of each person who has answered, by name, in the order of
    their first answers. ``position`` points of the Sobol sequence were used.
    """

    def __init__(self, definition: Definition) -> None:
        """Makes an empty log of an experiment; its events are added one by one."""
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
        """Sets all that follows from events to what it is without any."""
        self.events: list[Event] = []
        self.questions: list[LoggedQuestion] = []
        self.names: dict[frozenset[tuple[str, Any]], str] = {}
        self.titles: dict[str, str] = {}
        self.raters: dict[str, int] = {}
        self.position = 0
        self._options: dict[str, Option] = {}

    def number_of_rater(self, name: str | None) -> int | None:
        """Finds the number by which a model tells a rater's utility from others.

        None, for the mean of all, where there is no name or answers are pooled.
        Somebody new has the next number: the model predicts her from the others.
        """
        if name is None or self.settings.raters != SHARE:
            return None
        return self.raters.get(name, len(self.raters))

    def known_rater(self, name: str) -> int:
        """Returns the number of a rater whose utility somebody asks for by name.

        Raises:
            ExperimentError: The rater has not answered, or answers of all are pooled.
        """
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
        """Yields answers that stand, neither withdrawn nor undone, the latest first.

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
        """The context of the latest answer that stands, by anybody; or none."""
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
        """Adds a question about options, see `add`.

        An option that was shown before keeps its name. A new one is called by the id of
        its row, or by the question and the place at which it was chosen: Ax's arms and
        stored events have these names.
        """
        check_one_context(chosen.options, self.settings.context)
        index, named = len(self.questions), []
        for place, option in enumerate(chosen.options):
            name = self.name_of(option)
            if name is None and self.catalogue is not None:
                name = self.catalogue.id_of(option)
            in_order = {n: option[n] for n in self.space.parameters if n in option}
            named.append({"name": name or f"{index}_{place}", "parameters": in_order})
        # Named first: names do not depend on the order on display.
        places = range(len(named)) if chosen.places is None else chosen.places
        options_in_order = [named[place] for place in places]
        # Fields of `Chosen` are stored by their names.
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
        """Adds what happened to a question to the end of the log, in memory.

        With a ``time``, in UTC as `moment` writes it, it comes from a table or another
        log, and is checked like an event that is read. Callers have checked the others.
        """
        event = Event.following(
            len(self.events), question, kind, time or now(), content
        )
        if time is not None:
            self.check(event)
        self.append(event)
        return event

    def forget(self, since: int) -> None:
        """Drops the events from a number on, which could not be stored.

        All that follows from the others is made anew.
        """
        before = copy(self)
        before._begin()
        for event in self.events[:since]:
            before.append(event)
        # In one step: a thread that reads sees all events or those before.
        vars(self).update(vars(before))

    def append(self, event: Event) -> None:
        """Adds an event that is known to be right.

        Threads may read meanwhile, so that the names of its options are added before a
        question, and the question before its event. A rater is numbered before the
        answer is among the log's events, where `answers` finds it.
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
        # How far the Sobol sequence was used: the next points follow.
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
        """Adds an option by its name; people call it by the title, or a row's id."""
        self._options[option.name] = option
        self.titles[option.name] = option.name if self.catalogue else title
        self.names[frozenset(option.parameters.items())] = option.name
        return option

    def _stop(self, question: LoggedQuestion, position: float) -> Option:
        """Finds the option at which somebody stopped, or makes it if it was not shown.

        Its name counts the answers that the question had before, undone ones too: names
        in a log are never given twice.
        """
        if (place := stop_place(position)) < 2:
            return question.options[place]
        design = self.line_of(question).at(position)
        if (name := self.name_of(design)) is not None:
            return self._options[name]
        place += sum(event.kind == TOLD for event in question.events)
        option = Option(f"{question.index}_{place}", design)
        return self._new_option(option, option_title(question.index, place))

    def append_stored(self, rows: Iterable[Mapping[str, Any]], number: object) -> None:
        """Adds events that were stored, each checked to be one that can have happened.

        Args:
            rows: Of the events that follow those that the log has.
            number: How many events it has then, as the storage counts them.

        Raises:
            StorageError: An event cannot have happened, or some are missing. The
                log has the events before it then.
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
                # Nothing else may be there, nor anything in another form.
                if {**answer.to_json(), **around} != event.what:
                    raise StorageError(f"{dict(event.what)} is no answer to it")
                check_of_line(self.questions[event.question].is_line, event.what)
            elif event.what:
                raise StorageError(f"it says {dict(event.what)}")
        # Damaged data fail in all kinds of ways.
        except (AttributeError, KeyError, TypeError, ValueError, AxError) as error:
            raise StorageError(
                f"it cannot have happened ({error}): {short_text(asdict(event))}"
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
        """Checks that a question about a line has two ends with designs between."""
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
