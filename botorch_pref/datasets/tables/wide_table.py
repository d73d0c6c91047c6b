"""Comparisons from a CSV file with one row a choice."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from pathlib import Path

import torch

from botorch_pref.datasets.comparison_data import ComparisonData
from botorch_pref.errors import FeedbackError

WINNER = "winner_"
LOSER = "loser_"
RATER = "rater"


def load_csv(path: str | Path) -> ComparisonData:
    """Reads a wide table: one row a choice, features of the winner and of the loser.

    The header names the columns. Feature `price` needs both `winner_price` and
    `loser_price`; a column `rater` with any labels says who chose; other columns are
    not read. Example::

        rater,winner_price,winner_time,loser_price,loser_time
        ann,32.0,130,40.0,115
        bob,40.0,115,32.0,150

    Args:
        path: The file, UTF-8, separated by commas.

    Returns:
        The comparisons, features in the order of their `winner_` columns, float64.

    Raises:
        FeedbackError: If columns are missing, a cell is empty, not a number or not
            finite, or a winner equals its loser; the message names line and column.
        OSError: If the file cannot be read.
    """
    path = Path(path)
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.DictReader(file)
        features = _features_of(reader.fieldnames or (), path)
        columns = [prefix + name for prefix in (WINNER, LOSER) for name in features]
        has_raters = RATER in (reader.fieldnames or ())
        values: list[list[float]] = []
        labels: list[str] = []
        for row in reader:
            where = f"{path}, line {reader.line_num}"
            cells = [_number(row[column], where, column) for column in columns]
            if cells[: len(features)] == cells[len(features) :]:
                raise FeedbackError(
                    f"{where}: winner and loser have the same features: remove the "
                    "line or add the feature in which they differ"
                )
            values.append(cells)
            if has_raters:
                labels.append(_label(row[RATER], where))
    if not values:
        raise FeedbackError(f"{path} has a header but no choices: add rows")
    winners, losers = torch.tensor(values, dtype=torch.double).chunk(2, dim=-1)
    raters = _ids(labels) if has_raters else None
    return ComparisonData.from_pairs(winners, losers, tuple(features), raters)


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


def _number(cell: str | None, where: str, column: str) -> float:
    if cell is None or not cell.strip():
        raise FeedbackError(f"{where}, column {column}: empty cell: fill it in")
    try:
        value = float(cell)
    except ValueError:
        raise FeedbackError(
            f"{where}, column {column}: {cell!r} is not a number: code categories as "
            "numbers, one column each"
        ) from None
    if not math.isfinite(value):
        raise FeedbackError(
            f"{where}, column {column}: {cell!r} is not finite: remove the line"
        )
    return value


def _label(cell: str | None, where: str) -> str:
    if cell is None or not cell.strip():
        raise FeedbackError(f"{where}, column {RATER}: empty cell: fill it in")
    return cell.strip()


def _ids(labels: list[str]) -> torch.Tensor:
    ids = {label: number for number, label in enumerate(sorted(set(labels)))}
    return torch.tensor([ids[label] for label in labels])
