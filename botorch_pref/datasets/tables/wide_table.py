"""Comparisons from a CSV file with one row a choice."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from pathlib import Path

import torch

from botorch_pref.datasets.comparison_data import ComparisonData
from botorch_pref.datasets.item_table import RATER, TIE, category_features
from botorch_pref.errors import FeedbackError

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
