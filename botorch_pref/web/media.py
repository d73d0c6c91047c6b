"""Pictures, sounds and films: their types by how they begin, and whether all is there.

A browser shows the part that there is of a picture that was cut off, and says nothing.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Callable
from dataclasses import dataclass
from mmap import ACCESS_READ, mmap
from pathlib import Path

from botorch_pref.errors import ExperimentError


@dataclass(frozen=True)
class Media:
    """A picture, a sound or a film: its type, such as ``image/png``, bytes or file."""

    mime: str
    data: bytes | Path


Bytes = bytes | mmap


def _png_ends(data: Bytes) -> bool:
    # With the checksum of the last chunk, which has nothing in it.
    return data.rfind(b"IEND\xaeB`\x82") > 0


def _jpeg_ends(data: Bytes) -> bool:
    # A thumbnail before the last scan has an end of its own; within a scan none can be.
    return data.find(b"\xff\xd9", max(data.rfind(b"\xff\xda"), 0)) > 0


def _gif_ends(data: Bytes) -> bool:
    return data[-1024:].rstrip(b"\0").endswith(b";")


def _riff_ends(data: Bytes) -> bool:
    """Tells whether a WebP or WAV file is as long as its head says; streams do not say.

    The head, RIFF and this size, takes 8 bytes, which the size leaves out.
    """
    size = int.from_bytes(data[4:8], "little")
    # Some leave out the last byte, which makes the length even.
    return size in (0, 2**32 - 1) or len(data) >= size + 7


def _mp4_ends(data: Bytes) -> bool:
    """Tells whether all boxes of an MP4 are there; one of size 0 goes to the end.

    A size has 4 bytes at the start of the box; where it is 1, the size is in bytes 8
    to 15.
    """
    start = 0
    while start < len(data):
        size = int.from_bytes(data[start : start + 4], "big")
        if size == 1:
            size = int.from_bytes(data[start + 8 : start + 16], "big")
        if size == 0:
            return True
        # A box has 8 bytes at least: a file that says less cannot stop the loop.
        start += max(size, 8)
    return start == len(data)


_KINDS: tuple[tuple[bytes, int, str, Callable[[Bytes], bool] | None], ...] = (
    (b"\x89PNG\r\n\x1a\n", 0, "image/png", _png_ends),
    (b"\xff\xd8\xff", 0, "image/jpeg", _jpeg_ends),
    (b"GIF8", 0, "image/gif", _gif_ends),
    (b"WEBP", 8, "image/webp", _riff_ends),
    (b"WAVE", 8, "audio/wav", _riff_ends),
    (b"ID3", 0, "audio/mpeg", None),
    (b"\xff\xfb", 0, "audio/mpeg", None),
    (b"fLaC", 0, "audio/flac", None),
    (b"OggS", 0, "audio/ogg", None),
    (b"ftyp", 4, "video/mp4", _mp4_ends),
    (b"\x1aE\xdf\xa3", 0, "video/webm", None),
    (b"<svg", 0, "image/svg+xml", None),
    (b"<?xml", 0, "image/svg+xml", None),
)
"""Beginnings of the bytes of each type, with the place of each, and whether they have
their end: of streams nobody can tell, and a browser refuses SVG that has none."""


def media_of_bytes(data: bytes) -> Media:
    """Returns a medium of bytes, by how they begin.

    Raises:
        ExperimentError: They are no known type, or their end is missing.
    """
    mime = _checked_type(data, f"{len(data)} bytes")
    if mime is None:
        raise ExperimentError(
            f"show returned {len(data)} bytes that begin with {data[:8]!r}, which are "
            "no known type of picture, sound or film; return the pathlib.Path of a "
            "file with the suffix of its type."
        )
    return Media(mime, data)


def media_of_file(path: Path) -> Media:
    """Returns a medium in a file, by its suffix, or else by how it begins.

    Raises:
        ExperimentError: It is of no known type, there is no such file, it is empty, or
            its end is missing.
    """
    name = repr(str(path))
    mime = mimetypes.guess_type(path.name)[0] or ""
    if path.is_file():
        with path.open("rb") as file:
            # An empty file cannot be mapped.
            if not file.read(1):
                raise ExperimentError(f"show returned {name}: the file is empty.")
            with mmap(file.fileno(), 0, access=ACCESS_READ) as data:
                begins = _checked_type(data, name)
        if mime.partition("/")[0] not in _MEDIA:
            mime = begins or ""
    if mime.partition("/")[0] not in _MEDIA:
        raise ExperimentError(
            f"show returned the path {name}, which by its suffix is no picture, sound "
            "or film."
        )
    if not path.is_file():
        raise ExperimentError(f"show returned {name}: no such file.")
    return Media(mime, path)


_MEDIA = ("image", "audio", "video")


def _checked_type(data: Bytes, name: str) -> str | None:
    """Returns the MIME type of bytes by how they begin; None where it is not known.

    Refuses bytes whose end is missing, with the ``name`` of what was returned.
    """
    for beginning, start, mime, ends in _KINDS:
        if data[start : start + len(beginning)] == beginning:
            if ends is None or ends(data):
                return mime
            raise ExperimentError(
                f"show returned {name}, whose end is missing; write it anew, and wait "
                "until it is written."
            )
    return None
