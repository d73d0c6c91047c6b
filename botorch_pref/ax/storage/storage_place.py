"""Choice of the storage from a path or a URL."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy.engine import URL

from botorch_pref.ax.storage.json_storage import JsonStorage
from botorch_pref.ax.storage.sql_storage import SqlStorage
from botorch_pref.ax.storage.storage import Storage
from botorch_pref.errors import StorageError


def storage_at(place: str | Path) -> Storage:
    """The storage that a path or a URL means.

    Args:
        place: A path that ends in ``.json``; another path, of an SQLite file; or the
            URL of a database.

    Raises:
        StorageError: It means none.
    """
    if not isinstance(place, str | Path) or not str(place):
        raise StorageError(
            f"storage is {place!r}; give a path or the URL of a database."
        )
    if "://" in str(place):
        return SqlStorage(str(place))
    # Of the folder of this moment, and never the name of a database in memory.
    path = Path(place).absolute()
    if path.is_dir():
        raise StorageError(f"{path} is a folder; name a file in it.")
    if not path.parent.is_dir():
        raise StorageError(f"There is no folder {path.parent}; make it first.")
    if path.suffix == ".json":
        return JsonStorage(path)
    return SqlStorage(URL.create("sqlite", database=str(path)))
