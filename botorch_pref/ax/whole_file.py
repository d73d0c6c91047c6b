"""Files that are written whole or not at all."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from botorch_pref.ax.given_values import written
from botorch_pref.errors import ExperimentError, StorageError


def given_path(argument: str, given: object) -> Path:
    """The path of a file that somebody names.

    Args:
        argument: To name in messages.
        given: What was given.

    Raises:
        ExperimentError: It is no path.
    """
    if not isinstance(given, str | Path):
        raise ExperimentError(f"{argument} is {written(given)}; give a path.")
    return Path(given)


SQLITE = b"SQLite format 3\0"
"""What every database of SQLite begins with."""


def replace_file(path: Path, content: bytes) -> None:
    """Writes a file, whole or not at all.

    Another file of a new name is written beside it and renamed. It has the mode and
    the owner of the file that it replaces; a symbolic link stays one, and its target
    is replaced.

    Args:
        path: Of the file, which need not be there.
        content: All of it.

    Raises:
        StorageError: It cannot be written, or may not be: it is read-only, no file, or
            a database, which may be what keeps an experiment.
    """
    try:
        target = Path(os.path.realpath(path))
        if not target.parent.is_dir():
            raise StorageError(
                f"Cannot write {path}: there is no folder {target.parent}; make it "
                "first."
            )
        # Nobody can have planted anything there.
        part = target.with_name(f".{target.name}.{secrets.token_hex(16)}.part")
        before = _status(target)
        mode = 0o666 if before is None else stat.S_IMODE(before.st_mode)
        try:
            _write_new(part, content, mode, before)
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
        _keep_names(target.parent)
    # A name that cannot be one is a ValueError.
    except (OSError, ValueError) as error:
        raise StorageError(f"Cannot write {path}: {error}") from error


def _status(target: Path) -> os.stat_result | None:
    """Status of a file that may be replaced; None if there is none."""
    try:
        found = target.stat()
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "It is no file", str(target))
    # An administrator is asked for the mode too: what is read-only was meant to stay.
    if not (found.st_mode & 0o222 and os.access(target, os.W_OK)):
        raise PermissionError(errno.EACCES, "It is read-only", str(target))
    with target.open("rb") as file:
        if file.read(len(SQLITE)) == SQLITE:
            raise FileExistsError(
                errno.EEXIST, "It is a database; name another file", str(target)
            )
    return found


def _write_new(
    part: Path, content: bytes, mode: int, before: os.stat_result | None
) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(part, flags, mode), "wb") as file:
        if before is not None:
            if hasattr(os, "chown"):
                # Only an administrator can give files away.
                with suppress(PermissionError):
                    os.chown(part, before.st_uid, before.st_gid)
            part.chmod(mode)
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _keep_names(folder: Path) -> None:
    """Waits until a renamed file has its name after a loss of power, too."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
