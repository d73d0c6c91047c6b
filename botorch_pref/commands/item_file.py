"""Files of items that `rank` reads."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from botorch_pref.datasets.items import LOSER, WINNER, ItemTable, as_read
from botorch_pref.datasets.tables import CsvTable, Fault, TableFaults, read_together
from botorch_pref.errors import FeedbackError
from botorch_pref.evaluation.scores import data_frame_class

if TYPE_CHECKING:
    from pandas import DataFrame


def read_items(path: Path, answers: DataFrame) -> ItemTable:
    """Reads the features of items, for `rank` to learn utilities from them too.

    The first column names the items, among which are all that the answers name. Other
    columns with a name are features.

    Raises:
        FeedbackError: The file cannot be read; a `TableFaults` has all that is wrong.
    """
    table = CsvTable.read(path)
    if not table.header:
        raise FeedbackError(f"{path} is empty: give it a header, and a row each item")
    names = table.texts(table.header[0])
    columns = [column for column in table.header[1:] if column]
    values = read_together(
        lambda: _check_names(table, names, {*answers[WINNER], *answers[LOSER]}),
        lambda: _check_unnamed(table),
        *(lambda c=c: table.numbers_or_words([c]) for c in columns),
    )
    features = data_frame_class()(index=names)
    # The first two readings were checks.
    for column, cells in zip(columns, values[2:], strict=True):
        features[column] = cells
    items = ItemTable.from_frame(features)
    if not items.feature_names:
        raise FeedbackError(
            f"{path} has no feature in which items differ: add one, or drop --items"
        )
    return items


def _check_names(table: CsvTable, names: list[str], named: Iterable[str]) -> None:
    """Checks that each item has one row, and each that an answer names has one."""
    faults, rows = [], dict[str, int]()
    for row, name in enumerate(names):
        if rows.setdefault(name, row) != row:
            complaint = f"{name!r} is there twice: remove one line"
            faults.append(Fault(table.lines[row], table.header[0], complaint))
    for name in {*named} - rows.keys():
        like = [n for n in rows if as_read(n) == as_read(name)]
        instead = f", or write {like[0]!a} for {name!a}" if like else ""
        complaint = f"lacks the item {name!r}, which an answer names: add it{instead}"
        faults.append(Fault(0, "", complaint))
    if faults:
        raise TableFaults(table.path, faults)


def _check_unnamed(table: CsvTable) -> None:
    """Checks that columns without a name are empty."""
    faults = [
        Fault(
            0,
            "",
            f"has cells in column {place + 1}, which has no name: name it, or empty it",
        )
        for place, column in enumerate(table.header)
        if not column
        and any("".join(row[place : place + 1]).strip() for row in table.rows)
    ]
    if faults:
        raise TableFaults(table.path, faults)
