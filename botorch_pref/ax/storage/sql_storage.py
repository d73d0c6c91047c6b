"""Experiments in a database, through Ax's SQL storage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ax.core.base_trial import BaseTrial
from ax.core.experiment import Experiment
from ax.exceptions.core import AxError
from ax.storage.sqa_store import db
from ax.storage.sqa_store.load import load_experiment
from ax.storage.sqa_store.save import (
    save_experiment,
    save_or_update_trials,
    update_properties_on_experiment,
)
from ax.storage.sqa_store.sqa_classes import SQAExperiment
from sqlalchemy import (
    Connection,
    Engine,
    String,
    Text,
    create_engine,
    event,
    inspect,
    select,
)
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.pool import NullPool

from botorch_pref.ax.storage.ax_sessions import ax_sessions_on
from botorch_pref.ax.storage.log_head import PROPERTY
from botorch_pref.ax.storage.part_of_experiment import part_of_experiment
from botorch_pref.ax.storage.storage import Storage, another_wrote
from botorch_pref.ax.storage.storage_warnings import hidden_storage_warnings
from botorch_pref.ax.storage.stored_expressions import expressions_are_data
from botorch_pref.errors import StorageError


class SqlStorage(Storage):
    """A database; SQLite in a file, or any other by its URL.

    Ax writes an experiment in several transactions. Here all of a write is one: a
    process killed in the middle leaves what was there before.

    Args:
        url: SQLAlchemy's, for example ``sqlite:///espresso.db`` or
            ``postgresql+psycopg://user:password@host/database``.

    Raises:
        StorageError: It is no URL of a database that can be reached.
    """

    def __init__(self, url: str | URL) -> None:
        try:
            self._url = make_url(url)
            # A connection for each transaction: none is left open.
            self._engine = create_engine(self._url, poolclass=NullPool)
        except ModuleNotFoundError as error:
            raise StorageError(
                f"storage= needs the driver {error.name}, which is not installed; "
                "install it, or name another one in the URL."
            ) from error
        except SQLAlchemyError as error:
            raise StorageError(f"storage= is no database: {error}") from error
        if self._engine.dialect.name == "sqlite":
            _begin_at_once(self._engine)
        self._seen: object = None

    def create(self, experiment: Experiment) -> None:
        """See base class."""
        with self._transaction(f"create {experiment.name!r}") as connection:
            db.Base.metadata.create_all(connection)
            if self._locked(connection, experiment.name) is not None:
                raise StorageError(
                    f"{self._shown_url} has an experiment {experiment.name!r} already; "
                    "resume it, or give another name."
                )
            save_experiment(experiment)
        self._seen = experiment._properties[PROPERTY]

    def save(self, experiment: Experiment, trials: Sequence[BaseTrial]) -> None:
        """See base class."""
        numbers = ", ".join(str(trial.index) for trial in trials)
        what = f"save trial {numbers} of {experiment.name!r}"
        with self._transaction(what) as connection:
            stored = self._locked(connection, experiment.name)
            if stored is None:
                raise StorageError(
                    f"{self._shown_url} has no experiment {experiment.name!r} any more."
                )
            if stored.get(PROPERTY) != self._seen:
                raise another_wrote(experiment.name)
            # Ax would make tables of all data there are, and throw most of them away.
            save_or_update_trials(part_of_experiment(experiment, trials), [*trials])
            update_properties_on_experiment(experiment)
        self._seen = experiment._properties[PROPERTY]

    def load(self, name: str) -> Experiment:
        """See base class."""
        path = self._url.database
        if self._engine.dialect.name == "sqlite" and not Path(path or "").is_file():
            # SQLite would make one.
            raise StorageError(f"There is no file {path}; create the experiment first.")
        with self._transaction(f"load {name!r}") as connection:
            if self._locked(connection, name) is None:
                raise StorageError(
                    f"{self._shown_url} has no experiment {name!r}; create it first."
                )
            try:
                with expressions_are_data():
                    experiment = load_experiment(name)
                self._seen = experiment._properties.get(PROPERTY)
                return experiment
            except StorageError:
                raise
            except Exception as error:
                # Ax checks little of what it decodes: anything comes of damaged data.
                raise StorageError(
                    f"{name!r} in {self._shown_url} cannot be read: {error!r}. It is "
                    "left as it is."
                ) from error

    def check_unchanged(self) -> None:
        """See base class. Databases have nothing more to compare with."""

    def __str__(self) -> str:
        return self._shown_url

    @property
    def _shown_url(self) -> str:
        return self._url.render_as_string(hide_password=True)

    @staticmethod
    def _locked(connection: Connection, name: str) -> dict[str, Any] | None:
        """Properties of an experiment, kept from other writers; None if it is none."""
        if not inspect(connection).has_table(SQAExperiment.__tablename__):
            return None
        table = SQAExperiment.__table__.c
        query = select(table.properties).where(table.name == name).with_for_update()
        row = connection.execute(query).one_or_none()
        return None if row is None else row.properties or {}

    @contextmanager
    def _transaction(self, what: str) -> Iterator[Connection]:
        """One transaction around all of Ax's sessions."""
        try:
            with (
                hidden_storage_warnings(),
                self._engine.begin() as connection,
                ax_sessions_on(connection),
            ):
                yield connection
        except (SQLAlchemyError, AxError, ValueError, KeyError, TypeError) as error:
            raise StorageError(
                f"Cannot {what} in {self._shown_url}: {error}"
            ) from error


def _begin_at_once(engine: Engine) -> None:
    """Makes SQLite's driver leave transactions and savepoints to SQLAlchemy.

    Each transaction takes the lock of a writer at once: two processes wait for each
    other instead of failing halfway.
    """

    @event.listens_for(engine, "connect")
    def leave_transactions_alone(connection, _record) -> None:  # type: ignore[no-untyped-def]
        connection.isolation_level = None

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")


@compiles(String, "postgresql")
@compiles(Text, "postgresql")
def _text_of_any_length(_type: String, _compiler: object, **_options: object) -> str:
    """Ax's tables have texts of lengths that PostgreSQL does not know."""
    return "TEXT"
