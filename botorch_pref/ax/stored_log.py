"""The log of an experiment as it is kept."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import wraps
from threading import RLock
from typing import ParamSpec, TypeVar

from botorch_pref.ax.log import (
    Log,
)
from botorch_pref.ax.log_store import LogStore, definition_of
from botorch_pref.ax.projection import Projection
from botorch_pref.ax.settings import (
    ParameterConfig,
    check_same_space,
    check_with_parameters,
)
from botorch_pref.errors import BotorchPrefError, ExperimentError, StorageError

P = ParamSpec("P")
T = TypeVar("T")

_TURN = RLock()

if hasattr(os, "register_at_fork"):
    # A child of a thread that waits would wait for ever.
    free = _TURN.release
    os.register_at_fork(before=_TURN.acquire, after_in_parent=free, after_in_child=free)


def one_at_a_time(function: Callable[P, T]) -> Callable[P, T]:
    """Makes a function that threads call in turn with all others so decorated.

    Seeds of generators, filters of warnings and settings of GPyTorch belong to the
    whole process: two threads that set them at once would ask other questions than
    each of them alone, or break each other.
    """

    @wraps(function)
    def in_turn(*args: P.args, **kwargs: P.kwargs) -> T:
        # Reentrant: such functions call each other.
        with _TURN:
            return function(*args, **kwargs)

    return in_turn


class StoredLog:
    """Log of an experiment, which is in memory what is stored.

    A change that could not be written has not happened. The stored log is read again
    then, before anything else is done.
    """

    def __init__(self, log: Log, store: LogStore | None) -> None:
        self.place = "memory, to be read" if store is None else store.shown_url
        self._log, self._store = log, store
        self._projection = Projection(log)
        self._is_stored = True

    @classmethod
    def open(
        cls,
        store: LogStore,
        name: str,
        parameters: Sequence[ParameterConfig] | None,
        constraints: Sequence[str],
        read_only: bool,
    ) -> StoredLog:
        """Returns a log that was kept, see `PreferenceExperiment.resume`."""
        check_with_parameters(parameters, constraints)
        log = checked_log(store, name)
        if parameters is not None:
            check_same_space(log.blank, parameters, constraints)
        return cls(log, None if read_only else store)

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
        """The log, as it is stored: after a write that failed it is read again."""
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
        """The log with Ax's experiment of it, which is up to date.

        Raises:
            ExperimentError: Somebody added trials to it. The next one is made anew.
        """
        log = self.log
        try:
            self._projection.experiment()
        except ExperimentError:
            self._projection = Projection(log)
            raise
        return self._projection

    def check_writable(self) -> LogStore:
        """Checks that changes can be written, and returns the store that takes them.

        Raises:
            StorageError: The log was opened to be read, or its file cannot be written.
        """
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
        """Opens the log for additions, which are stored at the end.

        After an error, of the body too, the log is as it was before.
        """
        log = self.log
        since = len(log.events)
        try:
            yield log
            if events := log.events[since:]:
                store = self.check_writable()
                # Until it is known: an interrupt may come after the database's commit.
                self._is_stored = False
                store.append(log.name, events)
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
        """Reads what follows the log, or all of it if another one is stored.

        A write that failed may have been one that another process made impossible.
        """
        assert self._store is not None
        log = self._log
        record, rows = self._store.read(log.name, len(log.events))
        try:
            log.append_stored(rows, record["events"])
        except StorageError:
            self._log = log = checked_log(self._store, log.name)
            self._projection = Projection(log)
        self._is_stored = True


def checked_log(store: LogStore, name: str) -> Log:
    """Returns the log of an experiment as it was last kept, checked to be complete."""
    record, rows = store.read(name)
    try:
        log = Log(definition_of(record))
        log.append_stored(rows, record["events"])
    # Data that are damaged fail in all kinds of ways.
    except Exception as error:
        reason = str(error) if isinstance(error, BotorchPrefError) else repr(error)
        raise StorageError(f"{name!r} cannot be read: {reason}") from error
    return log
