"""Contents that stand for a value of a user's function."""

from __future__ import annotations

import io
import mimetypes
from pathlib import Path
from typing import Any

from botorch_pref.errors import ExperimentError
from botorch_pref.web.showing.content import Contents, Html, Media, Text

_BEGINNINGS: tuple[tuple[bytes, int, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", 0, "image/png"),
    (b"\xff\xd8\xff", 0, "image/jpeg"),
    (b"GIF8", 0, "image/gif"),
    (b"WEBP", 8, "image/webp"),
    (b"WAVE", 8, "audio/wav"),
    (b"ID3", 0, "audio/mpeg"),
    (b"\xff\xfb", 0, "audio/mpeg"),
    (b"fLaC", 0, "audio/flac"),
    (b"OggS", 0, "audio/ogg"),
    (b"ftyp", 4, "video/mp4"),
    (b"\x1aE\xdf\xa3", 0, "video/webm"),
    (b"<svg", 0, "image/svg+xml"),
    (b"<?xml", 0, "image/svg+xml"),
)
"""How the bytes of each type begin, and from where."""

_SHOWN = ("image", "audio", "video")


def contents_of(value: Any) -> Contents:
    """Contents that stand for a value.

    Args:
        value: A text; bytes of a picture, a sound or a film, or the `pathlib.Path` of
            one; a figure of Matplotlib; a picture of Pillow; what a notebook shows as
            HTML, SVG, PNG or JPEG; marked markup; or a list of these.

    Raises:
        ExperimentError: It is something else, or bytes of an unknown type.
    """
    if isinstance(value, list | tuple):
        return tuple(content for part in value for content in contents_of(part))
    if hasattr(value, "__html__"):
        return (Html(str(value.__html__())),)
    if isinstance(value, str):
        return (Text(value),)
    if isinstance(value, bytes | bytearray):
        return (Media(_type_of(bytes(value)), bytes(value)),)
    if isinstance(value, Path):
        return (_file(value),)
    if hasattr(value, "savefig"):
        return (_figure(value),)
    return (_as_in_a_notebook(value),)


def _type_of(data: bytes) -> str:
    for beginning, start, mime in _BEGINNINGS:
        if data[start : start + len(beginning)] == beginning:
            return mime
    raise ExperimentError(
        f"show returned {len(data)} bytes that begin with {data[:8]!r}, which are no "
        "known type of picture, sound or film; return the pathlib.Path of a file with "
        "the suffix of its type."
    )


def _file(path: Path) -> Media:
    mime = mimetypes.guess_type(path.name)[0] or ""
    if mime.partition("/")[0] not in _SHOWN:
        raise ExperimentError(
            f"show returned the path {str(path)!r}, which by its suffix is no picture, "
            "sound or film."
        )
    if not path.is_file():
        raise ExperimentError(f"show returned the path {str(path)!r}: no such file.")
    return Media(mime, path)


def _figure(figure: Any) -> Media:
    stream = io.BytesIO()
    figure.savefig(stream, format="png", bbox_inches="tight", dpi=160)
    return Media("image/png", stream.getvalue())


def _as_in_a_notebook(value: Any) -> Html | Media:
    for name, mime in (
        ("_repr_png_", "image/png"),
        ("_repr_jpeg_", "image/jpeg"),
        ("_repr_svg_", "image/svg+xml"),
        ("_repr_html_", None),
    ):
        shown = getattr(value, name, lambda: None)()
        if shown is None:
            continue
        if mime is None:
            return Html(str(shown))
        return Media(mime, shown if isinstance(shown, bytes) else shown.encode())
    raise ExperimentError(
        f"show returned {type(value).__name__}, which is neither text, markup, a "
        "picture, a sound nor a film."
    )
