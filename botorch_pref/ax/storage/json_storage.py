"""One experiment in a JSON file, through Ax's JSON storage."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import BinaryIO

from ax.core.base_trial import BaseTrial
from ax.core.experiment import Experiment
from ax.storage.json_store.decoder import object_from_json

from botorch_pref.ax.storage.experiment_text import ExperimentText, is_whole
from botorch_pref.ax.storage.storage import Storage, another_wrote
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
        self._text = ExperimentText({}, {})
        self._seen = b""

    def __str__(self) -> str:
        return str(self.path)

    def create(self, experiment: Experiment) -> None:
        """See base class."""
        text = ExperimentText.of(experiment)
        whole = text.whole(experiment)
        try:
            create_file(self.path, whole)
        except StorageError as error:
            if not isinstance(error.__cause__, FileExistsError):
                raise
            raise StorageError(
                f"There is a file {self.path} already; resume its experiment, or give "
                "another path."
            ) from error
        self._text, self._seen = text, whole

    def save(self, experiment: Experiment, trials: Sequence[BaseTrial]) -> None:
        """See base class."""
        text = self._text.changed(experiment, trials)
        whole = text.whole(experiment)
        with _locked(self.path):
            remove_parts(self.path)
            if _read(self.path) != self._seen:
                raise another_wrote(experiment.name)
            replace_file(self.path, whole)
        self._text, self._seen = text, whole

    def load(self, name: str) -> Experiment:
        """See base class."""
        self._seen = _read(self.path)
        experiment, self._text = _decoded(self._seen, self.path)
        if experiment.name != name:
            raise StorageError(
                f"{self.path} holds the experiment {experiment.name!r}, not {name!r}."
            )
        return experiment

    def check_unchanged(self) -> None:
        """See base class."""
        if not is_whole(self._seen):
            raise StorageError(
                f"{self.path} is not what was written, though its questions and "
                "answers are: it was changed by another program, or damaged."
            )


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
    replace_file(path, ExperimentText.of(experiment).whole(experiment))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise StorageError(
            f"There is no file {path}; create the experiment first."
        ) from error
    except OSError as error:
        raise StorageError(f"Cannot read {path}: {error}") from error


def _decoded(whole: bytes, path: Path) -> tuple[Experiment, ExperimentText]:
    """The experiment that a file holds, and its text."""
    try:
        stored = json.loads(whole.decode())
        if not isinstance(stored, dict) or stored.get("__type") != "Experiment":
            raise StorageError(f"{path} holds something else instead of an experiment.")
        # Ax changes what it decodes.
        text = ExperimentText.of_stored(stored)
        with hidden_storage_warnings(), expressions_are_data():
            experiment = object_from_json(stored)
    except StorageError:
        raise
    except Exception as error:
        # Ax checks little of what it decodes: anything can come of damaged data.
        raise _unreadable(path, error) from error
    return experiment, text


def _unreadable(path: Path, error: Exception) -> StorageError:
    return StorageError(
        f"{path} holds no experiment that can be read: {error!r}. It is left as it is."
    )
