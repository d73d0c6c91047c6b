"""Contents of an option on display: text, markup, tables of numbers, media."""

from __future__ import annotations

import base64
import io
import math
import mimetypes
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Lock
from typing import Any

from ax.core.parameter import FixedParameter, Parameter, RangeParameter
from ax.core.search_space import SearchSpace

from botorch_pref.ax import Design, Question
from botorch_pref.errors import ExperimentError
from botorch_pref.web.worker import LOGGER


class Markup(str):
    """HTML that is shown as it is; any other text is escaped.

    ``markupsafe.Markup`` and objects with ``_repr_html_`` do as well. Scripts, inline
    styles and anything from other hosts stay without effect on the page.
    """

    __slots__ = ()

    def __html__(self) -> str:
        """The markup, as template engines ask for it."""
        return str(self)


Address = Callable[["Media"], str]
"""Where a browser finds a picture, a sound or a film."""


@dataclass(frozen=True)
class Text:
    """Plain text, which a browser never reads as markup.

    Attributes:
        text: Its lines are kept.
    """

    text: str

    def to_json(self, address: Address) -> dict[str, Any]:
        """The content as the page takes it.

        Args:
            address: Unused.
        """
        return {"type": "text", "text": self.text}


@dataclass(frozen=True)
class Html:
    """Markup that its maker has marked as such.

    Attributes:
        html: Of an element's inside.
    """

    html: str

    def to_json(self, address: Address) -> dict[str, Any]:
        """The content as the page takes it.

        Args:
            address: Unused.
        """
        return {"type": "markup", "html": self.html}


@dataclass(frozen=True)
class Media:
    """A picture, a sound or a film.

    Attributes:
        mime: Its type, for example ``image/png``.
        data: Its bytes, or the file that holds them.
    """

    mime: str
    data: bytes | Path

    @property
    def bytes(self) -> bytes:
        """The bytes, read from the file if they are in one."""
        return self.data.read_bytes() if isinstance(self.data, Path) else self.data

    def to_json(self, address: Address) -> dict[str, Any]:
        """The content as the page takes it.

        Args:
            address: Where a browser finds it.
        """
        return {"type": self.mime.partition("/")[0], "src": address(self)}


@dataclass(frozen=True)
class Row:
    """A parameter of an option in a table.

    Attributes:
        name: Of the parameter.
        value: As it is written.
        unit: Of the value; empty without one.
        differs: Whether the options of the question differ in it.
        place: Where the value lies between the bounds, from 0 to 1; None for what is
            no number.
        rank: 1 where the value is the largest of the question, -1 where it is the
            smallest, else 0.
    """

    name: str
    value: str
    unit: str = ""
    differs: bool = False
    place: float | None = None
    rank: int = 0


@dataclass(frozen=True)
class Table:
    """Parameters of an option, one below the other.

    Attributes:
        rows: In the order of the search space.
    """

    rows: tuple[Row, ...]

    def to_json(self, address: Address) -> dict[str, Any]:
        """The content as the page takes it.

        Args:
            address: Unused.
        """
        return {"type": "table", "rows": [asdict(row) for row in self.rows]}


Content = Text | Html | Media | Table
Contents = tuple[Content, ...]
"""What is shown of one option, from top to bottom."""


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


_UNIT = re.compile(r"(.*\S)\s*(?:\(([^()]+)\)|\[([^\[\]]+)\])")
"""A name that ends in its unit, as in "dose (g)" and "dose [g]"."""

_STEPS = 1000
"""A number is written so finely that its bounds are about so many steps apart."""


class NumberTable:
    """Table of parameters, which options are shown as by default.

    Parameters that are fixed are left out. A name that ends in its unit, as "dose (g)"
    does, gives it; others may be given.

    Args:
        units: By name of the parameter.

    Raises:
        ExperimentError: A unit of no parameter, at the first question.
    """

    def __init__(self, units: Mapping[str, str] | None = None) -> None:
        self.units = dict(units or {})

    def tables(
        self, space: SearchSpace, options: Sequence[Mapping[str, Any]]
    ) -> list[Contents]:
        """The table of each option of a question.

        Args:
            space: Ax's.
            options: Parameters of each, by name.

        Raises:
            ExperimentError: There is a unit of no parameter.
        """
        if unknown := sorted(self.units.keys() - space.parameters.keys()):
            raise ExperimentError(
                f"There are units of {', '.join(unknown)}; the parameters are "
                f"{', '.join(space.parameters)}."
            )
        columns = [
            self._column(parameter, [option[parameter.name] for option in options])
            for parameter in space.parameters.values()
            if not isinstance(parameter, FixedParameter)
        ]
        return [(Table(rows),) for rows in zip(*columns, strict=True)]

    def _column(self, parameter: Parameter, values: Sequence[Any]) -> list[Row]:
        """The rows of one parameter, by option."""
        name, unit = named_unit(parameter.name)
        unit = self.units.get(parameter.name, unit)
        texts = [written(parameter, value) for value in values]
        differs = len(set(texts)) > 1
        ranks = [0] * len(texts)
        if differs and isinstance(parameter, RangeParameter):
            ranks = [(v == max(values)) - (v == min(values)) for v in values]
        return [
            Row(name, text, unit, differs, _place(parameter, value), rank)
            for text, value, rank in zip(texts, values, ranks, strict=True)
        ]


def named_unit(name: str) -> tuple[str, str]:
    """The name of a parameter without its unit, and the unit.

    Args:
        name: Perhaps with a unit in brackets at its end; underscores stand for blanks.
    """
    found = _UNIT.fullmatch(name)
    if found is None:
        return name.replace("_", " "), ""
    return found[1].replace("_", " "), found[2] or found[3]


def written(parameter: Parameter, value: Any) -> str:
    """A value as fine as its bounds need.

    Args:
        parameter: Ax's.
        value: One of its values.
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, float) or not isinstance(parameter, RangeParameter):
        return str(value)
    apart = parameter.upper - parameter.lower
    if parameter.log_scale:
        # As far as to the next value that is e times as large, about.
        apart = value
    return f"{value:.{_decimals(apart)}f}"


def step(parameter: RangeParameter) -> float:
    """The last decimal of a parameter's values as they are written.

    Args:
        parameter: Ax's, of real numbers.
    """
    apart = parameter.upper - parameter.lower
    if parameter.log_scale:
        apart = parameter.lower
    return float(10.0 ** -_decimals(apart))


def _decimals(apart: float) -> int:
    """Decimals of numbers of which about `_STEPS` lie within a width."""
    return max(0, math.ceil(math.log10(_STEPS / apart)) - 1)


def _place(parameter: Parameter, value: Any) -> float | None:
    if not isinstance(parameter, RangeParameter):
        return None
    lower, upper = parameter.lower, parameter.upper
    if parameter.log_scale:
        lower, upper, value = math.log(lower), math.log(upper), math.log(value)
    return float((value - lower) / (upper - lower))


Show = Callable[[Design], Any]
"""A user's function, from the parameters of an option to what is shown of it; of a
catalogue, the option has the id of its row as ``id``."""

_KEPT = 128
"""Questions whose contents are kept, so that pictures are not drawn twice."""


class Presenter:
    """Contents of options, by a user's function or as a table of numbers.

    One thread calls the function, for one option after the other: nothing else waits
    for it, and it need not be made for several threads.

    Args:
        space: Ax's search space.
        show: See `contents_of` for what it may return; None for a table.

    Raises:
        ExperimentError: ``show`` cannot be called.
    """

    def __init__(self, space: SearchSpace, show: Show | NumberTable | None) -> None:
        if (
            show is not None
            and not isinstance(show, NumberTable)
            and not callable(show)
        ):
            raise ExperimentError(
                f"show is {show!r}; give a function of the parameters of an option."
            )
        self._space = space
        self._show: Show | NumberTable = NumberTable() if show is None else show
        self._kept: OrderedDict[int, Future[list[Contents]]] = OrderedDict()
        self._lock = Lock()
        # Drawing by pyplot, say, is not for several threads.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="show")

    def prepare(self, question: Question) -> Future[list[Contents]]:
        """Contents of each option, in the making.

        Args:
            question: Of the experiment.
        """
        with self._lock:
            found = self._kept.get(question.index)
            if found is None:
                found = self._thread.submit(self._made, question)
                self._kept[question.index] = found
            self._kept.move_to_end(question.index)
            self._forget()
            return found

    def contents(
        self, question: Question, patience: float | None = None
    ) -> list[Contents] | None:
        """Contents of each option of a question.

        Args:
            question: Of the experiment.
            patience: How many seconds to wait for them; None for as long as it takes.

        Returns:
            The contents; None if they are still in the making.

        Raises:
            ExperimentError: The user's function failed, or returned what cannot be
                shown. The next call tries again.
        """
        made = self.prepare(question)
        try:
            return made.result(patience)
        except TimeoutError:
            return None
        except Exception:
            with self._lock:
                if self._kept.get(question.index) is made:
                    del self._kept[question.index]
            raise

    def close(self) -> None:
        """Draws no more."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _forget(self) -> None:
        """Forgets what was not asked for longest, but nothing that is in the making.

        Whoever waits for that would have it drawn anew, over and over.
        """
        made = [index for index, one in self._kept.items() if one.done()]
        for index in made[: max(0, len(self._kept) - _KEPT)]:
            del self._kept[index]

    def _made(self, question: Question) -> list[Contents]:
        if isinstance(self._show, NumberTable):
            return self._show.tables(self._space, question.options)
        made = []
        for option in question.options:
            try:
                made.append(contents_of(self._show(option.copy())))
            # Whatever a user's function raises; what ends a script ends no server.
            except (Exception, SystemExit) as error:
                ours = isinstance(error, ExperimentError)
                reason = f"{error}" if ours else f"{type(error).__name__}: {error}"
                LOGGER.warning("show failed for %s: %s", option, reason)
                raise ExperimentError(
                    "This question cannot be shown. Skip it, and tell whoever runs the "
                    f"experiment the reason: {reason}"
                ) from error
        return made


def data_address(media: Media) -> str:
    """Address that holds the bytes itself.

    Args:
        media: A picture, a sound or a film.
    """
    return f"data:{media.mime};base64,{base64.b64encode(media.bytes).decode()}"
