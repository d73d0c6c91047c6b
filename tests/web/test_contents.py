"""What is shown for what a user's function returns."""

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import matplotlib.figure
import pytest
from PIL import Image

from botorch_pref.errors import ExperimentError
from botorch_pref.web import Markup
from botorch_pref.web.rendering import Media, contents_of
from botorch_pref.web.widget import data_address


def png(width: int = 2) -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (width, 1), (10, 20, 30)).save(stream, "png")
    return stream.getvalue()


def size(media: Any) -> tuple[int, int]:
    data = media.data if isinstance(media.data, bytes) else media.data.read_bytes()
    with Image.open(io.BytesIO(data)) as image:
        return image.size


def test_text_stays_text_and_marked_markup_markup() -> None:
    text = "<b>not bold</b>"
    marked = {"type": "markup", "html": text}
    assert contents_of(text) == ({"type": "text", "text": text},)
    assert contents_of(Markup(text)) == (marked,)
    assert contents_of(SimpleNamespace(_repr_html_=lambda: text)) == (marked,)
    # Joining a text to marked markup marks nothing.
    joined = {"type": "text", "text": f"<i>{text}"}
    assert contents_of(Markup("<i>") + text) == (joined,)


BYTES = [
    (png(), "image/png"),
    (b"\xff\xd8\xff\xe0rest", "image/jpeg"),
    (b"GIF89a", "image/gif"),
    (b"RIFF....WEBPVP8", "image/webp"),
    (b"RIFF....WAVEfmt", "audio/wav"),
    (b"ID3\x04", "audio/mpeg"),
    (b"OggS", "audio/ogg"),
    (b"fLaC", "audio/flac"),
    (b"....ftypisom", "video/mp4"),
    (b"\x1aE\xdf\xa3", "video/webm"),
    (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "image/svg+xml"),
    (b"<?xml version='1.0'?><svg/>", "image/svg+xml"),
]


def test_bytes_are_known_by_how_they_begin() -> None:
    for data, mime in BYTES:
        (found,) = contents_of(data)
        assert found == Media(mime, data)
        assert data_address(0, 0, 0, found).startswith(f"data:{mime};base64,")


def test_pictures_and_figures_are_drawn(tmp_path: Path) -> None:
    (picture,) = contents_of(Image.new("RGB", (7, 5)))
    assert size(picture) == (7, 5)
    figure = matplotlib.figure.Figure(figsize=(2, 1))
    figure.subplots().plot([0, 1])
    (drawn,) = contents_of(figure)
    width, height = size(drawn)
    assert width > 1.5 * height
    path = tmp_path / "picture.png"
    path.write_bytes(png(3))
    (kept,) = contents_of(path)
    assert size(kept) == (3, 1)


def test_a_list_is_shown_from_top_to_bottom() -> None:
    found = contents_of(["above", (png(), "below")])
    assert [type(content) for content in found] == [dict, Media, dict]


def test_what_cannot_be_shown_says_so() -> None:
    for value, said in [
        (b"what is this", "no known type"),
        (Path("tea.txt"), "by its suffix"),
        (Path("absent.png"), "no such file"),
        (None, "NoneType"),
        (3.5, "float"),
        ({"leaf": 2}, "dict"),
    ]:
        with pytest.raises(ExperimentError, match=said):
            contents_of(value)
