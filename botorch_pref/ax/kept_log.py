"""The log of an experiment as it is kept, also of one that is damaged."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from functools import wraps
from threading import RLock
from typing import Any, ParamSpec, TypeVar

from botorch_pref.ax.log import (
    ASKED,
    VERSION,
    Chosen,
    Definition,
    Event,
    Log,
    LoggedQuestion,
    Option,
    json_value,
    stored_parameters,
)
from botorch_pref.ax.log_store import PARTS, LogStore, Row, definition_of
from botorch_pref.ax.projection import Projection
from botorch_pref.ax.settings import (
    ParameterConfig,
    Settings,
    check_same_space,
    check_with_parameters,
)
from botorch_pref.ax.space.options import Catalogue
from botorch_pref.errors import BotorchPrefError, ExperimentError, StorageError

P = ParamSpec("P")
T = TypeVar("T")

_TURN = RLock()

if hasattr(os, "register_at_fork"):
    # A child of a thread that waits would wait for ever.
    free = _TURN.release
    os.register_at_fork(before=_TURN.acquire, after_in_parent=free, after_in_child=free)


def one_at_a_time(function: Callable[P, T]) -> Callable[P, T]:
    """A function that threads call in turn, with all others of this kind.

    Seeds of generators, filters of warnings and settings of GPyTorch belong to the
    whole process: two threads that set them at once would ask other questions than
    each of them alone, or break each other.
    """

    @wraps(function)
    def in_turn(*args: P.args, **kwargs: P.kwargs) -> T:
        with _TURN:
            return function(*args, **kwargs)

    return in_turn


class KeptLog:
    """Log of an experiment, which is in memory what is stored.

    A change that could not be written has not happened. The stored log is read again
    then, before anything else is done. ``damage`` says what of the stored log was left
    out, a line each.
    """

    def __init__(
        self, log: Log, store: LogStore | None, damage: Sequence[str] = ()
    ) -> None:
        self.damage = [*damage]
        self.place = "memory, to be read" if store is None else store.shown_url
        self._log, self._store = log, store
        self._projection = Projection(log)
        self._is_stored = True

    @classmethod
    def opened(
        cls,
        store: LogStore,
        name: str,
        parameters: Sequence[ParameterConfig] | None,
        constraints: Sequence[str],
        read_only: bool,
    ) -> KeptLog:
        """A log that was kept, see `PreferenceExperiment.resume`."""
        check_with_parameters(parameters, constraints)
        if read_only:
            return cls(*good_part(store, name, parameters, constraints))
        log = checked_log(store, name)
        if parameters is not None:
            check_same_space(log.blank, parameters, constraints)
        return cls(log, store)

    @property
    def reopened_by(self) -> tuple[str, str]:
        """The name of the experiment and its storage, which open it again.

        Raises:
            ExperimentError: It was opened to be read, or its storage has a password.
        """
        name, store = self._log.name, self._store
        place = None if store is None else store.reopened_by
        if place is None:
            why = "it was opened to be read" if store is None else "its URL is secret"
            raise ExperimentError(
                f"{name!r} cannot be copied or pickled as an object: {why}. Open it "
                f"where it is wanted by PreferenceExperiment.resume({name!r}, "
                "storage=...)."
            )
        return name, place

    @property
    def log(self) -> Log:
        """The log, as it is stored."""
        if not self._is_stored:
            try:
                self._read_again()
            except StorageError as error:
                raise StorageError(
                    f"The last change of {self._log.name!r} could not be written, and "
                    f"what is stored cannot be read; mend this, and repeat: {error}"
                ) from error
        return self._log

    @property
    def projection(self) -> Projection:
        """The log with Ax's experiment of it, which is up to date."""
        log = self.log
        try:
            self._projection.experiment()
        except ExperimentError:
            self._projection = Projection(log)
            raise
        return self._projection

    def check_writable(self) -> LogStore:
        """Where changes are written."""
        name = self.log.name
        if self._store is None:
            raise StorageError(
                f"{name!r} was opened to be read; copy it, and go on there."
            )
        try:
            self._store.check_file(f"write to {name!r}", writes=True)
        except StorageError:
            # Like any change that could not be written.
            self._is_stored = False
            raise
        return self._store

    @contextmanager
    def change(self) -> Iterator[Log]:
        """The log, to be added to: what was added is kept in the end, or forgotten."""
        log = self.log
        since, head = len(log.events), log.head
        try:
            yield log
            if events := log.events[since:]:
                store = self.check_writable()
                self._is_stored = False
                store.append(log.name, head, events)
                self._is_stored = True
        except BaseException:
            if len(log.events) > since:
                log.forget(since)
            if not self._is_stored:
                # The first error is worth more; the next use raises that of reading.
                with suppress(Exception):
                    self._read_again()
            raise

    def _read_again(self) -> None:
        """Reads what follows the log, or all of it if another one is stored."""
        assert self._store is not None
        log = self._log
        record, rows = self._store.read(log.name, len(log.events))
        try:
            log.append_stored(rows, record["events"], record["head"])
        except StorageError:
            self._log = log = checked_log(self._store, log.name)
            self._projection = Projection(log)
        self._is_stored = True


def checked_log(store: LogStore, name: str) -> Log:
    """The log of an experiment as it was last kept, checked to be complete."""
    record, rows = store.read(name)
    try:
        log = Log(definition_of(record))
        log.append_stored(rows, record["events"], record["head"])
    # Data that are damaged fail in all kinds of ways.
    except Exception as error:
        said = str(error) if isinstance(error, BotorchPrefError) else repr(error)
        if record["version"] == VERSION:
            said += (
                f" {store.shown_url} is left as it is. PreferenceExperiment.resume("
                f"{name!r}, storage=..., read_only=True) opens what is good of it: its "
                "damage says what is left out, and copy(storage=...) writes the good "
                "part to another storage, where one can go on."
            )
        raise StorageError(f"{name!r} cannot be read: {said}") from error
    return log


def good_part(
    store: LogStore,
    name: str,
    parameters: Sequence[ParameterConfig] | None = None,
    constraints: Sequence[str] = (),
) -> tuple[Log, None, list[str]]:
    """The good part of the log of a damaged experiment.

    Its events are what was written and can have happened. With it come no store, and
    what was left out or replaced, a line each. Where a question is missing, later ones
    have lower numbers. Parameters that are given replace stored ones.
    """
    given: dict[str, Any] = {}
    if parameters is not None:
        stored = stored_parameters(parameters, constraints)
        given = {"parameters": stored, "constraints": [*constraints]}
    try:
        return checked_log(store, name), None, []
    except StorageError as error:
        refusal = error
    record, rows, damage = store.read_what_can_be(name)
    log = _good_log(record, given, damage)
    retelling, number, head = Retelling(log), 0, None
    for row in rows:
        found = row["number"]
        if isinstance(found, int) and found >= number:
            if found > number + 1:
                damage.append(f"Events {number} to {found - 1} are missing.")
            elif found > number:
                damage.append(f"Event {number} is missing.")
            number = found + 1
        try:
            event = Event.of_row(row)
            if head not in (None, event.before):
                damage.append(
                    f"Event {event.number} does not follow the one before it: one of "
                    "them, or what was between them, was replaced."
                )
            retelling.add(event)
        except StorageError as error:
            damage.append(f"Event {found!r} is left out: {error}.")
        head = row["checksum"]
    written = record["events"]
    if not isinstance(written, int) or number < written:
        damage.append(f"{number} events were found, and {written!r} were written.")
    nothing = f"Nothing is left out, and something differs: {refusal.__cause__}"
    return log, None, damage or [nothing]


def _good_log(record: Row, given: dict[str, Any], damage: list[str]) -> Log:
    """An empty log of the parts of a definition that can be read or are given.

    Settings that cannot be are those by default.
    """
    try:
        definition = definition_of(record)
    except (StorageError, TypeError) as error:
        damage.append(f"The definition is damaged: {error}")
        good: dict[str, Any] = {}
        for key, kind in PARTS.items():
            try:
                found = json_value(record[key])
                if not isinstance(found, kind):
                    raise StorageError(f"it is {found!r:.80}")
                is_table = key == "catalogue" and found is not None
                if is_table and not Catalogue.of_property(found).rows:
                    raise StorageError("it has no rows")
            # A damaged value can lead to any error.
            except Exception as error:
                damage.append(f"The {key} cannot be read: {error}.")
                found = None if isinstance(None, kind) else kind()
            good[key] = found
        definition = Definition(str(record["name"]), str(record["created"]), **good)
    definition = replace(definition, **given)
    with suppress(Exception):
        return Log(definition)
    try:
        log = Log(replace(definition, settings=asdict(Settings())))
    # A damaged value can lead to any error.
    except Exception as error:
        raise StorageError(
            f"{definition.name!r} has no search space that could be read: {error} Give "
            "that of the experiment, by parameters= and parameter_constraints=."
        ) from error
    damage.append("The settings cannot be read; they are those by default.")
    return log


class Retelling:
    """Events of one log told again to another: a repaired one, a copy or a merged one.

    Questions and options get the next numbers and names there; times, raters and what
    was said stay. ``option`` makes the parameters that an option has there. ``shared``
    has questions that ``log`` has already: by their numbers in the other log, the
    number in ``log``, and how many of their events it has.
    """

    def __init__(
        self,
        log: Log,
        option: Callable[[Mapping[str, Any]], dict[str, Any]] = dict,
        shared: Mapping[int, tuple[int, int]] = {},
    ) -> None:
        self._log = log
        self._option = option
        self._numbers = {there: here for there, (here, _) in shared.items()}
        self._known = {there: count for there, (_, count) in shared.items()}

    def add(self, event: Event) -> None:
        """Tells the next event again, unless the log has it."""
        if self._known.get(event.question):
            self._known[event.question] -= 1
            return
        here = self._numbers.get(event.question)
        if event.kind != ASKED:
            if here is None:
                raise StorageError(f"question {event.question} is not there")
            self._log.add(here, event.kind, event.what, event.time)
            return
        if here is not None:
            raise StorageError(f"question {event.question} was asked before")
        try:
            what = dict(event.what)
            options = tuple(Option(**each) for each in what.pop("options"))
            rater, repeats = what.pop("rater", None), what.pop("repeats", None)
            # Names are made of the order in which they were chosen.
            asked = LoggedQuestion(event.question, options, [event])
            again = [self._option(each.parameters) for each in asked.as_chosen]
            chosen = Chosen(again, repeats=self._numbers.get(repeats), **what)
            told = self._log.ask(chosen, rater, event.time)
        # Damaged data fail in all kinds of ways.
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise StorageError(f"its options cannot be shown here ({error})") from error
        self._numbers[event.question] = told.question
