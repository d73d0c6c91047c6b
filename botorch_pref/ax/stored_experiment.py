"""A preference experiment as it is kept: created, resumed, read, written, copied."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from ax.core.experiment import Experiment
from pandas import DataFrame

from botorch_pref.ax import exchange
from botorch_pref.ax.answer_table import answer_table, csv_content
from botorch_pref.ax.creation import new_log
from botorch_pref.ax.hooks import register_classes
from botorch_pref.ax.log import Log
from botorch_pref.ax.log_store import LogStore, replace_file
from botorch_pref.ax.settings import ParameterConfig, check_with_parameters
from botorch_pref.ax.stored_log import StoredLog, one_at_a_time
from botorch_pref.ax.user_values import checked_path, checked_truth


class StoredExperiment:
    """Experiment whose log is kept in a database: what was asked and said of it.

    Args:
        stored: The log, as it is kept.
    """

    def __init__(self, stored: StoredLog) -> None:
        self._stored = stored
        self.settings = stored.log.settings

    @classmethod
    @one_at_a_time
    def create(
        cls,
        name: str,
        *,
        parameters: Sequence[ParameterConfig] | None = None,
        parameter_constraints: Sequence[str] = (),
        catalogue: DataFrame | None = None,
        storage: str | Path,
        num_levels: int | None = None,
        **settings: Any,
    ) -> Self:
        """Returns a new experiment, kept at once.

        Args:
            name: Of the experiment.
            parameters: Ax's.
            parameter_constraints: Linear ones, as ``"dose + ratio <= 25"``.
            catalogue: A table in place of parameters: options are its rows, its columns
                their features, and its index their ids.
            storage: The path of an SQLite file, or the URL of a database.
            num_levels: How many levels there are, if answers are levels of a scale.
            settings: See `Settings`.

        Raises:
            ExperimentError: A setting or parameter that cannot be.
            StorageError: There is an experiment of that name already.
        """
        register_classes()
        log = new_log(
            name, parameters, parameter_constraints, num_levels, settings, catalogue
        )
        return cls._create(log, storage)

    @classmethod
    def _create(cls, log: Log, storage: str | Path) -> Self:
        store = LogStore(storage)
        store.create(log)
        return cls(StoredLog(log, store))

    @classmethod
    @one_at_a_time
    def resume(
        cls,
        name: str,
        *,
        storage: str | Path,
        parameters: Sequence[ParameterConfig] | None = None,
        parameter_constraints: Sequence[str] = (),
        read_only: bool = False,
    ) -> Self:
        """Returns an experiment as its last change left it, also after a crash.

        Args:
            name: Of the experiment.
            storage: Where it was created.
            parameters: If given, they must be those of the experiment.
            parameter_constraints: Theirs.
            read_only: Whether to open it to be read, so that nothing is written.

        Raises:
            ExperimentError: The search space has changed.
            StorageError: There is no such experiment, or it cannot be read.
        """
        register_classes()
        space = (parameters, parameter_constraints)
        read_only = checked_truth("read_only", read_only)
        return cls(StoredLog.open(LogStore(storage), name, *space, read_only))

    @classmethod
    @one_at_a_time
    def read(
        cls, path: str | Path, *, storage: str | Path, name: str | None = None
    ) -> Self:
        """Returns a new experiment from a file of `write_json`.

        Args:
            path: Of the file.
            storage: Where the experiment is kept from now on, see `create`.
            name: Of the new experiment; that of the old one by default.

        Raises:
            StorageError: The file is not what was written, or the storage has such an
                experiment already.
        """
        register_classes()
        return cls._create(
            exchange.read_file(checked_path("path", path), name), storage
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Makes a copy or a pickle, which opens the same experiment once more.

        It has the name and the storage, and no answers: `resume` reads these.

        Raises:
            ExperimentError: It was opened to be read, or its storage has a password.
        """
        return _resume, (type(self), *self._stored.reopened_by)

    @property
    @one_at_a_time
    def log(self) -> Log:
        """All that was asked and said, to be read."""
        return self._stored.log

    @property
    @one_at_a_time
    def experiment(self) -> Experiment:
        """Ax's experiment of this moment, made from the log, to be read.

        Raises:
            ExperimentError: Somebody added trials to it. It is made anew.
            StorageError: A write failed, and what is stored still cannot be read.
        """
        return self._stored.projection.experiment()

    @property
    def num_answers(self) -> int:
        """Number of answers that stand, each as often as it was given."""
        return sum(answer.count for answer in self.log.answers())

    @property
    def version(self) -> str:
        """Time of the experiment's start and its number of events: new after each."""
        log = self.log
        return f"{log.definition.created}, {len(log.events)} events"

    @property
    def titles(self) -> dict[str, str]:
        """The name that people have for each option shown, by the name of Ax's arm.

        "3 B" is option B of the third question, in which it was first shown, as the
        page and the report have it; a row of a catalogue is called by its id.
        """
        return dict(self.log.titles)

    @property
    def raters(self) -> list[str]:
        """The names of those who have answered, in the order of their first answers."""
        return [*self.log.raters]

    @property
    def num_levels(self) -> int | None:
        """Number of levels of the scale; None without a scale."""
        return self.log.num_levels

    @one_at_a_time
    def answers(self) -> DataFrame:
        """Returns answers that stand, a row for each option, see `answer_table`."""
        return answer_table(self.log)

    @one_at_a_time
    def write_answers(self, path: str | Path) -> None:
        """Writes the table of `answers` as CSV, in place of a file of this path.

        Raises:
            StorageError: It cannot be written; what was there stays.
        """
        replace_file(checked_path("path", path), csv_content(self.answers()))

    @one_at_a_time
    def write_json(self, path: str | Path) -> None:
        """Writes what the experiment is and its log as JSON, which `read` reads.

        See `write_answers`.
        """
        exchange.write_json(self.log, checked_path("path", path))

    @one_at_a_time
    def save_to_ax(self, place: str | Path) -> None:
        """Writes Ax's experiment to Ax's own storage, for Ax's tools to open.

        Nothing here reads it again; this experiment goes on where it is.

        Args:
            place: A path that ends in ``.json``; another path, of an SQLite file; or
                the URL of a database.

        Raises:
            StorageError: It cannot be written, or the database has an experiment of
                that name.
        """
        checked_path("place", place)
        exchange.save_to_ax(self.experiment, str(place))

    @one_at_a_time
    def copy(
        self,
        *,
        storage: str | Path,
        name: str | None = None,
        parameters: Sequence[ParameterConfig] | None = None,
        parameter_constraints: Sequence[str] = (),
    ) -> Self:
        """Returns a new experiment with all that was asked and said in this one.

        Args:
            storage: Where the new one is kept, see `create`.
            name: Of the new one; the same by default.
            parameters: Those of the new one; by default the same.
            parameter_constraints: Theirs, all of them: those of this experiment are
                not kept beside ``parameters``.

        Raises:
            ExperimentError: The new search space lacks an option; names the event.
            StorageError: It cannot be written.
        """
        check_with_parameters(parameters, parameter_constraints)
        new = (name, parameters, parameter_constraints)
        return self._create(exchange.repeat_events(self.log, *new), storage)


def _resume(cls: type[StoredExperiment], name: str, place: str) -> Any:
    """Returns the experiment of a pickle, or of an object that was copied."""
    return cls.resume(name, storage=place)
