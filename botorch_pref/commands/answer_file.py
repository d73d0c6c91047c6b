"""Files of answers and of items that `rank` reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from botorch_pref.commands.boards import BOTH_BAD
from botorch_pref.datasets.items import (
    COUNT,
    HOME,
    LOSER,
    MOST_COUNTED,
    RATER,
    TIE,
    WINNER,
    ItemTable,
    as_read,
)
from botorch_pref.datasets.tables import (
    CsvTable,
    Fault,
    TableFaults,
    number_of,
    read_together,
)
from botorch_pref.errors import FeedbackError
from botorch_pref.evaluation.scores import data_frame_class

if TYPE_CHECKING:
    from pandas import DataFrame

SIDES = {"model_a": "model_b", "home": "away"}
"""Columns of tables that say in ``winner`` which of two columns won: of arenas, of
leagues."""

TIES = {"tie", "draw"}
BAD = {"tie (bothbad)", "tie(bothbad)", "bothbad", "both_bad", "both bad"}
"""What such tables write where neither won, and where both answers were bad."""

_STRENGTHS = (
    "; how strongly one is preferred, from 0 to 1, is an answer of another kind: "
    "botorch_pref.Strengths in Python"
)


@dataclass(frozen=True)
class AnswerFile:
    """Answers of a file, see `read_answers`.

    Attributes:
        answers: The different ones in the order of their texts: the columns ``winner``,
            ``loser``, ``tie`` and ``count``; ``rater``, ``home`` and ``both_bad`` where
            the file says so.
        unread: Columns of the file that say nothing here.
        notes: Sentences on rows that say nothing.
    """

    answers: DataFrame
    unread: list[str]
    notes: list[str]


@dataclass(frozen=True)
class _Layout:
    """Columns that say who met and who won.

    ``sides`` are those of the two items, where ``winner`` says which of them won; None
    where the columns ``winner`` and ``loser`` have the items.
    """

    sides: tuple[str, str] | None

    @classmethod
    def of(cls, table: CsvTable, tie: str | None) -> _Layout:
        """Returns the layout of a table, by its header."""
        first = next((name for name in SIDES if name in table.header), None)
        names = {name.casefold() for name in table.header}
        if first is None and not names & {WINNER, LOSER}:
            layouts = (f"{a}, {b} and {WINNER}" for a, b in SIDES.items())
            raise FeedbackError(
                f"{table.path} has no columns that say who won: {WINNER} and {LOSER}; "
                f"or {'; or '.join(layouts)}, which names one of the two columns. "
                f"Rename columns; the header is {', '.join(table.header) or 'empty'}"
            )
        # A table of winners and losers may say in a column "home" who was there.
        if first is None or LOSER in table.header:
            return cls(None)
        if tie is not None:
            raise FeedbackError(
                f"{table.path} has the column {first}, so that {WINNER} says which "
                "answers are ties: leave out --tie"
            )
        return cls((first, SIDES[first]))

    @property
    def items(self) -> tuple[str, str]:
        """The columns of the two items."""
        return self.sides or (WINNER, LOSER)

    @property
    def columns(self) -> list[str]:
        """All columns that an answer needs."""
        return [*self.items, *([] if self.sides is None else [WINNER])]


def read_answers(
    path: Path, *, by: str | None, tie: str | None, home: str | None
) -> AnswerFile:
    """Reads a long table of answers from a CSV file, a row each.

    ``by``, ``tie`` and ``home`` name columns: of raters or categories, of ties (by
    default ``tie`` where there is one), and of who was at home or shown first. Rows in
    which an item meets itself, or that do not say who won, say nothing, and are left
    out.

    Raises:
        FeedbackError: The file cannot be read; a `TableFaults` has all that is wrong.
    """
    table = CsvTable.read(path)
    if home in (WINNER, LOSER) and LOSER in table.header:
        raise FeedbackError(
            f"--home is {home}, which says who won, not who was at home or shown "
            "first: name a column that does, with one of the two items in each cell"
        )
    layout = _Layout.of(table, tie)
    table, notes = _without_silent_rows(table, layout)
    column = TIE if tie is None and TIE in table.header else tie
    readings: list[Callable[[], Any]] = [lambda: _read_pairs(table, layout, column)]
    if COUNT in table.header:
        readings.append(lambda: {COUNT: _read_counts(table)})
    if by is not None:
        readings.append(lambda: {RATER: table.texts(by)})
    if home is not None:
        readings.append(lambda: {HOME: _read_home(table, home, layout)})
    frame = data_frame_class()
    answers = frame(
        {n: c for part in read_together(*readings) for n, c in part.items()}
    )
    counted = answers if COUNT in answers.columns else answers.assign(**{COUNT: 1})
    keys = [name for name in counted.columns if name != COUNT]
    merged = counted.groupby(keys, sort=False, dropna=False)[COUNT].sum().reset_index()
    read = {*layout.columns, COUNT, by, home}
    if layout.sides is None:
        read.add(column)
    unread = dict.fromkeys(name for name in table.header if name and name not in read)
    return AnswerFile(merged.sort_values(keys, ignore_index=True), [*unread], notes)


def _without_silent_rows(
    table: CsvTable, layout: _Layout
) -> tuple[CsvTable, list[str]]:
    """Returns the rows that say something, and sentences on the others."""
    cells = read_together(
        *(lambda c=c: table.texts(c, may_be_empty=True) for c in layout.columns)
    )
    rows: dict[str, list[int]] = {
        "of names of columns": [],
        "in which an item meets itself": [],
        "without an item or a winner": [],
    }
    repeated, itself, empty = rows.values()
    for row, (first, second, *outcome) in enumerate(zip(*cells, strict=True)):
        if (first, second, *outcome) == tuple(layout.columns):
            repeated.append(row)
        elif not (first and second and all(outcome)):
            empty.append(row)
        elif first == second:
            itself.append(row)
    notes = [
        f"Left out: {len(indices):,} row{'s' * (len(indices) > 1)} {reason} "
        f"({_lines(table, indices)})."
        for reason, indices in rows.items()
        if indices
    ]
    silent = {row for indices in rows.values() for row in indices}
    if len(silent) == len(table.rows):
        raise FeedbackError(
            f"{table.path} has no answer. {' '.join(notes)} Give rows in which one of "
            "two different items won."
        )
    return table.without_rows(silent), notes


def _lines(table: CsvTable, rows: list[int]) -> str:
    lines = [str(table.lines[row]) for row in rows[:5]]
    ellipsis = ", ..." if len(rows) > len(lines) else ""
    return f"line{'s' * (len(rows) > 1)} {', '.join(lines)}{ellipsis}"


def _read_pairs(table: CsvTable, layout: _Layout, tie: str | None) -> dict[str, Any]:
    """Winners, losers, whether they are tied, and whether both were called bad."""
    first, second = (table.texts(side) for side in layout.items)
    if layout.sides is None:
        tied = [False] * len(first) if tie is None else table.truths(tie)
        return {WINNER: first, LOSER: second, TIE: tied}
    cells = table.texts(WINNER)
    # Of few different texts.
    meanings = {cell: _outcome(cell, layout.sides) for cell in {*cells}}
    outcomes = [meanings[cell] for cell in cells]
    table.refuse(
        WINNER,
        (
            (
                row,
                _what_is_no_outcome(cells[row], first[row], second[row], layout.sides),
            )
            for row, outcome in enumerate(outcomes)
            if not outcome
        ),
    )
    pairs = [
        (b, a) if outcome == layout.sides[1] else (a, b)
        for a, b, outcome in zip(first, second, outcomes, strict=True)
    ]
    winners, losers = zip(*pairs, strict=True)
    answers: dict[str, Any] = {WINNER: [*winners], LOSER: [*losers]}
    answers[TIE] = [outcome not in layout.sides for outcome in outcomes]
    if BOTH_BAD in meanings.values():
        answers[BOTH_BAD] = [outcome == BOTH_BAD for outcome in outcomes]
    return answers


def _outcome(cell: str, sides: tuple[str, str]) -> str:
    """Returns the side that won, a tie or that both were bad; else an empty text."""
    text = cell.lower()
    if text in BAD:
        return BOTH_BAD
    if text in TIES:
        return TIE
    return text if text in sides else ""


def _what_is_no_outcome(
    cell: str, first: str, second: str, sides: tuple[str, str]
) -> str:
    if cell in (first, second):
        side = sides[cell == second]
        return f"{cell!r} is the name of the winner: write its column, {side}"
    number = number_of(cell)
    share = _STRENGTHS if number is not None and 0 < number < 1 else ""
    complaint = f"{cell!r} is none of {', '.join(sides)}, tie and tie (bothbad)"
    return f"{complaint}: correct the file{share}"


def _read_counts(table: CsvTable) -> list[int]:
    """How often each answer was given; once where a cell is empty."""
    cells = table.texts(COUNT, may_be_empty=True)
    numbers = {cell: number_of(cell.replace(",", ".")) for cell in {*cells}}
    share = {cell for cell, n in numbers.items() if n is not None and 0 < n < 1}
    complaint = "is no number of answers: count whole ones"
    table.refuse(
        COUNT,
        (
            (row, f"{cell!r} {complaint}{_STRENGTHS}")
            for row, cell in enumerate(cells)
            if cell in share
        ),
    )
    counts = table.integers(COUNT, 1, MOST_COUNTED, empty=1)
    if sum(counts) > MOST_COUNTED:
        complaint = f"counts {sum(counts)} answers, and the command ranks by at most "
        fault = Fault(0, "", f"{complaint}{MOST_COUNTED}: give smaller counts")
        raise TableFaults(table.path, [fault])
    return counts


def _read_home(table: CsvTable, column: str, layout: _Layout) -> list[str | None]:
    """Reads who of each answer was at home; None on neutral ground."""
    columns = (column, *layout.items)
    home, *sides = (table.texts(c, may_be_empty=True) for c in columns)
    rows = [*zip(home, *sides, strict=True)]
    table.refuse(
        column,
        (
            (row, f"{name!r} is neither {a!r} nor {b!r}: correct it, or empty it")
            for row, (name, a, b) in enumerate(rows)
            if name and name not in (a, b)
        ),
    )
    return [name or None for name in home]


def read_items(path: Path | None, answers: DataFrame) -> ItemTable:
    """Reads the features of items; without a file, the items that answers name.

    Raises:
        FeedbackError: The file cannot be read; a `TableFaults` has all that is wrong.
    """
    if path is None:
        return ItemTable.from_answers(answers)
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
