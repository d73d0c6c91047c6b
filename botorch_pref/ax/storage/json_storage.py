"""One experiment in a JSON file, through Ax's JSON storage."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import BinaryIO

from ax.core.base_trial import BaseTrial
from ax.core.experiment import Experiment
from ax.storage.json_store.decoder import object_from_json
from ax.storage.json_store.encoder import object_to_json

from botorch_pref.ax.storage.events import check_nothing_else_happened
from botorch_pref.ax.storage.storage import Storage
from botorch_pref.ax.storage.storage_warnings import hidden_storage_warnings
from botorch_pref.ax.storage.stored_expressions import expressions_are_data
from botorch_pref.ax.storage.whole_file import (
    create_file,
    remove_parts,
    replace_file,
)
from botorch_pref.errors import StorageError

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # Windows
    fcntl = None


class JsonStorage(Storage):
    """A file that ``ax.storage.json_store.load.load_experiment`` reads too.

    A process killed in the middle of a write leaves the old file. Processes write one
    after the other, as far as the file system has locks; those of Windows are not used.

    Args:
        path: Of the file.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def create(self, experiment: Experiment) -> None:
        """See base class."""
        try:
            create_file(self.path, _text_of(experiment))
        except StorageError as error:
            if not isinstance(error.__cause__, FileExistsError):
                raise
            raise StorageError(
                f"There is a file {self.path} already; resume its experiment, or give "
                "another path."
            ) from error

    def save(self, experiment: Experiment, trials: list[BaseTrial]) -> None:
        """See base class."""
        with _locked(self.path):
            remove_parts(self.path)
            stored = read_json(self.path).trials.values()
            check_nothing_else_happened(experiment, (t._properties for t in stored))
            write_json(experiment, self.path)

    def load(self, name: str) -> Experiment:
        """See base class."""
        experiment = read_json(self.path)
        if experiment.name != name:
            raise StorageError(
                f"{self.path} holds the experiment {experiment.name!r}, not {name!r}."
            )
        return experiment


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Waits until no other process writes a file, and keeps others waiting."""
    if fcntl is None:
        yield
        return
    while True:
        try:
            file = path.open("rb")
        except OSError as error:
            raise StorageError(f"Cannot read {path}: {error}") from error
        with file:
            # Ends with the file, and so with the process, however that ends.
            fcntl.flock(file, fcntl.LOCK_EX)
            if not _is_still(file, path):
                # Renamed over while this process waited: that lock is of no use.
                continue
            yield
            return


def _is_still(file: BinaryIO, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def write_json(experiment: Experiment, path: Path) -> None:
    """Writes an experiment to a file, whole or not at all.

    Args:
        experiment: Ax's.
        path: Of the file; replaced if there is one.

    Raises:
        StorageError: It cannot be written.
    """
    replace_file(path, _text_of(experiment))


def _text_of(experiment: Experiment) -> str:
    return json.dumps(object_to_json(experiment))


def read_json(path: Path) -> Experiment:
    """Reads an experiment from a file.

    Args:
        path: Of the file.

    Raises:
        StorageError: There is none, or it holds no experiment.
    """
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        with hidden_storage_warnings(), expressions_are_data():
            experiment = object_from_json(stored)
    except OSError as error:
        raise StorageError(f"Cannot read {path}: {error}") from error
    except StorageError:
        raise
    except Exception as error:
        # Ax checks little of what it decodes: anything can come of damaged data.
        raise StorageError(
            f"{path} holds no experiment that can be read: {error!r}. It is left as it "
            "is."
        ) from error
    if not isinstance(experiment, Experiment):
        raise StorageError(
            f"{path} holds a {type(experiment).__name__} instead of an experiment."
        )
    return experiment
