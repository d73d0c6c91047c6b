"""Named columns of a CSV file, with errors that name the line."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from botorch_pref.errors import FeedbackError


@dataclass(frozen=True)
class CsvColumns:
    """Some columns of a CSV file.

    Attributes:
        path: The file.
        lines: The line of each row in the file.
        cells: The stripped cells of each column.
    """

    path: Path
    lines: list[int]
    cells: dict[str, list[str]]

    def integers(self, column: str, low: int, high: int | None = None) -> list[int]:
        """A column as integers.

        Args:
            column: Its name.
            low: The smallest value that it may have.
            high: The largest, if there is one.

        Returns:
            One integer a row.

        Raises:
            FeedbackError: A cell is not an integer in the range.
        """
        values = []
        for line, cell in zip(self.lines, self.cells[column], strict=True):
            is_integer = cell.removeprefix("-").isdecimal()
            if (
                not is_integer
                or int(cell) < low
                or (high is not None and int(cell) > high)
            ):
                span = f"from {low}" + ("" if high is None else f" to {high}")
                raise FeedbackError(
                    f"{self.path}, line {line}, column {column}: {cell!r} is not an "
                    f"integer {span}: correct the file"
                )
            values.append(int(cell))
        return values

    def numbers(self, column: str) -> list[float]:
        """A column as numbers.

        Args:
            column: Its name.

        Returns:
            One number a row.

        Raises:
            FeedbackError: A cell is not a number.
        """
        values = []
        for line, cell in zip(self.lines, self.cells[column], strict=True):
            try:
                values.append(float(cell))
            except ValueError:
                raise FeedbackError(
                    f"{self.path}, line {line}, column {column}: {cell!r} is not a "
                    "number: correct the file"
                ) from None
        return values


def read_columns(path: Path, names: Sequence[str]) -> CsvColumns:
    """Reads some columns of a CSV file with a header.

    Args:
        path: The file, UTF-8, separated by commas.
        names: The columns to read; white space around names does not count.

    Returns:
        Their cells.

    Raises:
        FeedbackError: A column is missing, a cell empty, or there are no rows.
        OSError: The file cannot be read.
    """
    lines: list[int] = []
    cells: dict[str, list[str]] = {name: [] for name in names}
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.reader(file)
        header = [name.strip() for name in next(reader, [])]
        for name in names:
            if name not in header:
                raise FeedbackError(f"{path} lacks the column {name}: add it")
        places = {name: header.index(name) for name in names}
        for row in reader:
            lines.append(reader.line_num)
            for name, place in places.items():
                cell = row[place].strip() if place < len(row) else ""
                if not cell:
                    raise FeedbackError(
                        f"{path}, line {reader.line_num}, column {name}: empty cell: "
                        "fill it in"
                    )
                cells[name].append(cell)
    if not lines:
        raise FeedbackError(f"{path} has no rows below its header: add some")
    return CsvColumns(path, lines, cells)
