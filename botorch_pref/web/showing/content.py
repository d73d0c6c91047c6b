"""Contents of an option on display: text, markup, tables, media."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

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
