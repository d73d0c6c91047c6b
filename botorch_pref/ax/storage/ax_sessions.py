"""Sessions of Ax's SQL storage that one thread directs to a connection of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from threading import local

from ax.storage.sqa_store import db
from sqlalchemy import Connection
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from botorch_pref.errors import StorageError

_of_this_thread = local()
_ax_session = db.get_session


def _session() -> Session:
    """The session of this thread's connection, or Ax's own where there is none."""
    factory = getattr(_of_this_thread, "factory", None)
    return _ax_session() if factory is None else factory()


# Once, and for all threads: Ax's variable of the whole process is left alone, so that
# other threads, and who uses Ax's storage besides ours, keep their databases.
db.get_session = _session


@contextmanager
def ax_sessions_on(connection: Connection) -> Iterator[None]:
    """Makes all sessions of Ax that this thread opens parts of one transaction.

    Args:
        connection: In a transaction, which the caller ends.

    Raises:
        StorageError: This version of Ax opens its sessions in another way.
    """
    factory = scoped_session(
        sessionmaker(
            connection,
            expire_on_commit=False,
            # Ax's commits end savepoints; the last one is the caller's.
            join_transaction_mode="create_savepoint",
        )
    )
    before = getattr(_of_this_thread, "factory", None)
    _of_this_thread.factory = factory
    try:
        with db.session_scope() as session:
            if session.get_bind() is not connection:
                raise StorageError(
                    f"Ax {version('ax-platform')} opens databases in a way that this "
                    "package does not know; nothing was read or written. Use Ax 1.3."
                )
        yield
    finally:
        _of_this_thread.factory = before
        factory.remove()
