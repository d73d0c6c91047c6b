"""Tables that keep the logs of experiments, and files that are replaced whole.

``preference_experiments`` has a row for each experiment, ``preference_events`` one for
everything that happened. Both can be read by ``sqlite3`` and ``pandas.read_sql``. Rows
of events are inserted and never changed.
"""

from __future__ import annotations

import errno
import os
import secrets
import sqlite3
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy import Column, Connection, Engine, Integer, Text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from botorch_pref.ax.events import Definition, Event, json_text, json_value
from botorch_pref.ax.log import Log
from botorch_pref.errors import StorageError

SQLITE = b"SQLite format 3\0"
"""The first bytes of every SQLite database."""


def file_content(path: Path) -> bytes:
    """Reads a regular file; reading a pipe would wait for somebody to write."""
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "It is no regular file; name one", str(path))
    return path.read_bytes()


def replace_file(path: Path, content: bytes) -> None:
    """Writes a file, whole or not at all: another one beside it, which is renamed.

    The new file gets the mode and the owner of the old one. A symbolic link stays one,
    and its target is replaced.
    """
    try:
        target = Path(os.path.realpath(path))
        if not target.parent.is_dir():
            raise StorageError(
                f"Cannot write {path}: there is no folder {target.parent}; make it "
                "first."
            )
        before, mode = None, 0o666
        with suppress(FileNotFoundError):
            before = target.stat()
            mode = stat.S_IMODE(before.st_mode)
            _check_replaceable(target, before)
        # Nobody can guess this name and have planted a link there.
        part = target.with_name(f".{target.name}.{secrets.token_hex(16)}.part")
        try:
            with open(
                part, "xb", opener=lambda p, flags: os.open(p, flags, mode)
            ) as file:
                if before is not None:
                    # Only an administrator can give files away; Windows has no chown.
                    with suppress(PermissionError, AttributeError):
                        os.chown(part, before.st_uid, before.st_gid)
                    part.chmod(mode)
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
        if os.name != "nt":
            # The file has its name after a loss of power, too.
            descriptor = os.open(target.parent, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
    # A path that no file can have is a ValueError.
    except (OSError, ValueError) as error:
        raise StorageError(f"Cannot write {path}: {error}") from error


def _check_replaceable(target: Path, status: os.stat_result) -> None:
    """Checks that a path may be replaced: a writable file, no database."""
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "It is no file", str(target))
    if not _is_writable(target, status):
        raise PermissionError(errno.EACCES, "It is read-only", str(target))
    with target.open("rb") as file:
        if file.read(len(SQLITE)) == SQLITE:
            raise FileExistsError(
                errno.EEXIST, "It is a database; name another file", str(target)
            )


_METADATA = sa.MetaData()

_PLAIN = ("name", "created", "version")
PARTS: dict[str, Any] = {
    "parameters": list,
    "constraints": list,
    "num_levels": int | None,
    "settings": dict,
    "catalogue": dict | None,
}
"""Fields of `Definition` that are kept as they are, and as JSON of these types."""

EXPERIMENTS = sa.Table(
    "preference_experiments",
    _METADATA,
    Column("id", Integer, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("created", Text, nullable=False),
    *(Column(name, Text, nullable=False) for name in PARTS),
    Column("version", Integer, nullable=False),
    Column("events", Integer, nullable=False),
)
"""The definitions of experiments, and how many events each log has."""

EVENTS = sa.Table(
    "preference_events",
    _METADATA,
    Column("experiment", sa.ForeignKey(EXPERIMENTS.c.id), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("question", Integer, nullable=False),
    Column("kind", Text, nullable=False),
    Column("time", Text, nullable=False),
    Column("rater", Text),
    Column("what", Text, nullable=False),
)
"""The logs, see `Event`."""

_ADVICE = {
    "SQLITE_BUSY": "wait for the other program that uses it, or end it, and repeat.",
    "SQLITE_FULL": "make room on the disk, and repeat.",
    "SQLITE_IOERR": "make room on the disk if it is full, and repeat.",
    "SQLITE_READONLY_DIRECTORY": "make its folder writable too, and repeat.",
    "SQLITE_CORRUPT": "put back a copy that is whole, or save what is left of this one "
    "by the command .recover of sqlite3.",
    "SQLITE_NOTADB": "name another file.",
}
"""Advice about errors of SQLite, by the beginning of their names."""

Row = dict[str, Any]


class LogStore:
    """Database of logs; every write is kept whole or not at all."""

    def __init__(self, place: str | Path) -> None:
        """Makes the engine of a path or URL; nothing is opened or created yet."""
        if not isinstance(place, str | Path) or not str(place):
            raise StorageError(
                f"storage is {place!r}; give a path or the URL of a database."
            )
        self.path: Path | None = None
        self._place = str(place)
        try:
            url = make_url(str(place)) if "://" in str(place) else None
            url = url or URL.create("sqlite", database=str(place))
            # Without a password.
            self.shown_url = url.render_as_string(hide_password=True)
            if url.get_backend_name() == "sqlite":
                self.path, self._engine = _sqlite_engine(url)
                self.shown_url = str(self.path)
            else:
                # A connection for each transaction: none is left open.
                self._engine = sa.create_engine(url, poolclass=NullPool)
        except ModuleNotFoundError as error:
            raise StorageError(
                f"storage= needs the driver {error.name}, which is not installed; "
                "install it, or name another one in the URL."
            ) from error
        except SQLAlchemyError as error:
            raise StorageError(f"storage= is no database: {error}") from error

    @property
    def reopened_by(self) -> str | None:
        """The URL that opens the database again; None where that has a password."""
        if self.path is not None:
            return str(self.path)
        return None if make_url(self._place).password else self._place

    def create(self, log: Log) -> None:
        """Stores a new experiment with its events, in a new file if there is none.

        Raises:
            StorageError: There is one of that name, or it cannot be written.
        """
        if self.path is not None and not self.path.exists():
            try:
                # Another process may do so too; the transaction below decides.
                self.path.touch()
            except OSError as error:
                raise StorageError(f"Cannot create {self.path}: {error}") from error
        name, stored = log.name, asdict(log.definition)
        row = {key: stored[key] for key in _PLAIN}
        row |= {key: json_text(stored[key]) for key in PARTS}
        row["events"] = len(log.events)
        with self._transaction(f"create {name!r}", writes=True) as connection:
            _METADATA.create_all(connection)
            same_name = sa.select(EXPERIMENTS.c.id).where(EXPERIMENTS.c.name == name)
            if connection.execute(same_name).first() is not None:
                raise StorageError(
                    f"{self.shown_url} has an experiment {name!r} already; resume it, "
                    "or give another name."
                )
            inserted = connection.execute(EXPERIMENTS.insert().values(**row))
            assert inserted.inserted_primary_key is not None
            _insert(connection, inserted.inserted_primary_key[0], log.events)

    def append(self, name: str, events: Sequence[Event]) -> None:
        """Stores events that follow those of an experiment, all or none.

        Raises:
            StorageError: Other events follow already, or these cannot be written.
        """
        first, last, table = events[0].number, events[-1].number, EXPERIMENTS
        unchanged = table.c.name == name, table.c.events == first
        with self._transaction(f"write to {name!r}", writes=True) as connection:
            record = self._record(connection, name)
            # A row that another writer has locked is waited for.
            moved_on = table.update().where(*unchanged).values(events=last + 1)
            if connection.execute(moved_on).rowcount != 1:
                raise StorageError(
                    f"Another process has gone on with {name!r}. Nothing was written, "
                    "and what it wrote is loaded: look at what is pending, and repeat."
                )
            _insert(connection, record["id"], events)

    def read(self, name: str, since: int = 0) -> tuple[Row, list[Row]]:
        """Reads an experiment: its row, and those of its events from a number on."""
        with self._transaction(f"read {name!r}") as connection:
            record, columns = self._record(connection, name), EVENTS.c
            conditions = columns.experiment == record["id"], columns.number >= since
            query = sa.select(EVENTS).where(*conditions).order_by(columns.number)
            return record, [dict(row) for row in connection.execute(query).mappings()]

    def _record(self, connection: Connection, name: str) -> Row:
        """Returns the row of an experiment, which must be there."""
        names: list[str] = []
        if sa.inspect(connection).has_table(EXPERIMENTS.name):
            query = sa.select(EXPERIMENTS).where(EXPERIMENTS.c.name == name)
            row = connection.execute(query).mappings().one_or_none()
            if row is not None:
                return dict(row)
            names = [*connection.execute(sa.select(EXPERIMENTS.c.name)).scalars()]
        raise StorageError(
            f"{self.shown_url} has no experiment {name!r}; it has "
            f"{', '.join(map(repr, names)) or 'none'}. Create it first."
        )

    def check_file(self, action: str, writes: bool) -> None:
        """Checks that an SQLite file can be opened, before a driver does so.

        The driver's errors would say less. ``action`` is what cannot be done otherwise,
        for messages. Databases on servers are not checked.
        """
        if self.path is None:
            return
        try:
            status = self.path.stat()
        except FileNotFoundError as error:
            raise StorageError(
                f"Cannot {action}: there is no file {self.path} any more; put it back."
                if writes
                else f"There is no file {self.path}; create the experiment first, or "
                "put the file back."
            ) from error
        except OSError as error:
            raise StorageError(f"Cannot {action}: {error}") from error
        place = f"Cannot {action}: {self.path} is"
        if not stat.S_ISREG(status.st_mode):
            raise StorageError(f"{place} no regular file; name one.")
        if writes and not _is_writable(self.path, status):
            raise StorageError(
                f"{place} read-only, and it is left as it is; change its mode, or "
                "write a copy."
            )

    @contextmanager
    def _transaction(self, action: str, writes: bool = False) -> Iterator[Connection]:
        """Opens a transaction, to be committed unless there is an error.

        Args:
            action: What it is for, as messages about errors of the database say.
            writes: Whether it changes something. Then an SQLite file is locked from the
                start, see `_sqlite_engine`.
        """
        self.check_file(action, writes)
        options: dict[str, Any] = {"botorch_pref_writes": writes}
        if self.path is None and not writes:
            # All that is read is of one moment, as in an SQLite file.
            options["isolation_level"] = "REPEATABLE READ"
        engine = self._engine.execution_options(**options)
        try:
            with engine.begin() as connection:
                yield connection
        except (SQLAlchemyError, sqlite3.Error, ValueError, TypeError) as error:
            reason = getattr(error, "orig", None) or error
            code = getattr(reason, "sqlite_errorname", "")
            advice = [text for start, text in _ADVICE.items() if code.startswith(start)]
            place = self.shown_url
            message = "; ".join([f"Cannot {action} in {place}: {reason}", *advice])
            raise StorageError(message) from error


def _insert(connection: Connection, key: int, events: Sequence[Event]) -> None:
    if rows := [{"experiment": key, **event.to_row()} for event in events]:
        connection.execute(EVENTS.insert(), rows)


def definition_of(record: Row) -> Definition:
    """Returns the definition of an experiment from its row."""
    fields = {key: record[key] for key in _PLAIN}
    fields |= {key: json_value(record[key]) for key in PARTS}
    return Definition(**fields)


def _is_writable(path: Path, status: os.stat_result) -> bool:
    # The mode counts for an administrator too, who could write any file.
    return bool(status.st_mode & 0o222) and os.access(path, os.W_OK)


def _checked_path(name: str) -> Path:
    """Returns the absolute path of a database, which may not be there yet.

    Raises:
        StorageError: There can be no file of this name, or it would be a JSON file.
    """
    # Of the folder of this moment, whatever the process changes to later.
    path = Path(name).absolute()
    try:
        with suppress(FileNotFoundError, NotADirectoryError):
            path.lstat()
    except (OSError, ValueError) as error:
        raise StorageError(f"{name!r} can name no file: {error}") from error
    if path.is_dir():
        raise StorageError(f"{path} is a folder; name a file in it.")
    if not path.parent.is_dir():
        raise StorageError(f"There is no folder {path.parent}; make it first.")
    if path.suffix == ".json":
        raise StorageError(
            f"{path} would be a JSON file, and experiments are kept in databases; give "
            "another name, as espresso.db. PreferenceExperiment.read makes an "
            "experiment of what write_json wrote."
        )
    return path


def _sqlite_engine(url: URL) -> tuple[Path, Engine]:
    """Returns the engine of an SQLite file, which is opened and never made."""
    if not url.database or "uri" in url.query:
        raise StorageError("storage= names no file; give the path of one.")
    path = _checked_path(url.database)
    plain = sa.create_engine(url)
    _, options = plain.dialect.create_connect_args(url)

    def connect() -> sqlite3.Connection:
        """Opens the file, which must be there, as its mode allows at the moment."""
        mode = "rw" if _is_writable(path, path.stat()) else "ro"
        # Transactions and savepoints are SQLAlchemy's.
        options["isolation_level"] = None
        uri = f"file:{quote(str(path))}?mode={mode}"
        return sqlite3.connect(uri, uri=True, **options)

    # A connection for each transaction: none is left open.
    engine = sa.create_engine("sqlite://", creator=connect, poolclass=NullPool)

    @sa.event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get("botorch_pref_writes")
        # Two writers wait for each other instead of failing halfway.
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return path, engine
