"""Layouts of sets of more than two items, of matrices, and of a column each pair."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import NamedTuple

from botorch_pref.datasets.items import MOST_COUNTED
from botorch_pref.datasets.layout_words import (
    ABSTAINED_WORDS,
    EMPTY,
    EQUAL,
    FIRST,
    ITEM_WORDS,
    OUTCOME_WORDS,
    SECOND,
    Answers,
    NamedColumns,
    Reading,
    columns_with,
    names_items,
    option_columns,
    words_of,
)
from botorch_pref.datasets.tables import (
    MISSING,
    CsvTable,
    Fault,
    TableFaults,
    is_missing,
    number_of,
)


def best_and_worst(table: CsvTable, named: NamedColumns) -> Reading | None:
    """Recognises columns of a set of items, and of the best and the worst of them.

    These name items, or say their places among the columns of the set. None leaves the
    table to the next layout.
    """
    best, worst = (_end_column(table.header, end) for end in ("best", "worst"))
    if best is None or worst is None:
        return None
    options = [
        name
        for name in table.header
        if name not in (best, worst)
        and re.fullmatch(r"[a-z]+ ?\d+", " ".join(words_of(name)))
    ]
    # Lettered columns are those of a set only by their words.
    options = options if len(options) > 1 else option_columns(table.header)
    if len(options) < 2:
        return None
    named_in_row = (best, worst, *options)
    ends = zip(table.cells(best), table.cells(worst), strict=True)
    # Half of an answer is one: the best of a set, or the worst.
    silent = {row: EMPTY for row, end in enumerate(ends) if all(map(is_missing, end))}
    mentions = _mentions(table, (best, worst), options, silent)
    cells = [mention for mention in mentions if not is_missing(mention.item)]
    # Some files have the whole set in the columns of options, others the rest of it.
    includes_best = any(cell.item in cell.options for cell in cells)
    by_place = _are_places(table, cells, may_be_rest=not includes_best)
    named_by_number = any(number_of(i) is not None for c in cells for i in c.options)
    # An item need not be in the rest of its set; but a number beside names in words is
    # a place, which the set must have.
    if includes_best or not named_by_number:
        of_sets = [c for c in cells if includes_best or number_of(c.item) is not None]
        _check_items(table, of_sets, by_place=by_place)

    def read(table: CsvTable) -> Answers:
        """Reads the best and the worst of the items of each row."""
        answers = Answers()
        columns = [table.cells(column) for column in named_in_row]
        for row, (top, bottom, *items) in enumerate(zip(*columns, strict=True)):
            if by_place:
                top, bottom = _at_place(top, items), _at_place(bottom, items)
            top, bottom = ("" if is_missing(end) else end for end in (top, bottom))
            if top == bottom:
                table.refuse(worst, [(row, f"{top!r} is also the best: correct one")])
            _add_ends(answers, row, top, bottom, items)
        return answers

    places = " by their places" if by_place else ""
    description = f"the {best} and {worst} of sets{places}, with {', '.join(options)}"
    return Reading(description, named_in_row, read, silent)


def _end_column(header: Sequence[str], end: str) -> str | None:
    """Returns the column of the best or the worst, such as "Best" or "best item"."""
    for name in header:
        words = words_of(name)
        if end in words and len(words) <= 2 and {*words} <= {end, "place", *ITEM_WORDS}:
            return name
    return None


def _add_ends(
    answers: Answers, row: int, best: str, worst: str, items: Sequence[str]
) -> None:
    """Adds that the best beat all others of a set, and each of the others the worst.

    Either end is empty where the answer lacks it. The best is one choice from the set;
    of the worst each other item makes a duel, as there are no choices of the worst.
    """
    middle = [i for i in dict.fromkeys(items) if i and i not in (best, worst)]
    beaten = [*middle, *([worst] if worst else [])] if best else []
    for loser in beaten:
        name = f"{row}" if len(beaten) > 1 else None
        answers.add(row, best, loser, choice=name)
    for winner in middle if worst else []:
        answers.add(row, winner, worst)


def choice_of_set(table: CsvTable, named: NamedColumns) -> Reading | None:
    """Recognises columns of three or more items, and one of which of them was chosen.

    None leaves the table to the next layout.
    """
    options = option_columns(table.header)
    if not options or named.first or named.second or named.order or not table.rows:
        return None
    best = _end_column(table.header, "best")
    choices = [*columns_with(table.header, OUTCOME_WORDS), *([best] if best else [])]
    for choice in [named.winner] if named.winner else choices:
        silent = dict[int, str]()
        columns = (table.cells(column) for column in (choice, *options))
        for row, (cell, *items) in enumerate(zip(*columns, strict=True)):
            if cell not in items and cell.casefold() in MISSING | ABSTAINED_WORDS:
                silent[row] = EMPTY
            elif len({*items} - {""}) < 2:
                silent[row] = "of less than two items"
        cells = _mentions(table, (choice,), options, silent)
        fitting = max(
            sum(cell.item in cell.options for cell in cells),
            sum(bool(_at_place(cell.item, cell.options)) for cell in cells),
        )
        # Where half of the cells fit, the others are mistakes, which are refused.
        if choice not in options and 2 * fitting >= len(cells) > 0:
            break
    else:
        return None
    lettered = words_of(options[0])[-1] == "a"
    by_place = _are_places(table, cells, lettered=lettered)
    _check_items(table, cells, by_place=by_place)

    def read(table: CsvTable) -> Answers:
        """Reads the choice of each row, which beats the other options."""
        answers = Answers()
        columns = [table.cells(column) for column in (choice, *options)]
        for row, (item, *items) in enumerate(zip(*columns, strict=True)):
            winner = _at_place(item, items) if by_place else item
            beaten = [i for i in dict.fromkeys(items) if i and i != winner]
            name = f"{row}" if len(beaten) > 1 else None
            for loser in beaten:
                answers.add(row, winner, loser, choice=name)
        return answers

    naming = "by its place" if by_place else "by name"
    description = f"the choice in {choice}, {naming}, from {', '.join(options)}"
    return Reading(description, (*options, choice), read, silent)


class _Mention(NamedTuple):
    """A cell that says which item of a set is meant, and the cells of the set."""

    row: int
    column: str
    item: str
    options: list[str]


def _mentions(
    table: CsvTable,
    columns: Sequence[str],
    options: Sequence[str],
    silent: Collection[int],
) -> list[_Mention]:
    """Lists the cells that say which item is meant, but for those of silent rows."""
    sets = [*zip(*(table.cells(column) for column in options), strict=True)]
    return [
        _Mention(row, column, cell, [*sets[row]])
        for column in columns
        for row, cell in enumerate(table.cells(column))
        if row not in silent
    ]


def _at_place(cell: str, items: Sequence[str]) -> str:
    """Returns the item at a place, 1 or A for the first; empty if there is none."""
    number = number_of(cell)
    if number is None and re.fullmatch("[A-Za-z]", cell):
        number = ord(cell.upper()) - ord("A") + 1
    if number is None or number not in range(1, len(items) + 1):
        return ""
    return items[int(number) - 1]


def _are_places(
    table: CsvTable,
    cells: Sequence[_Mention],
    *,
    may_be_rest: bool = False,
    lettered: bool = False,
) -> bool:
    """Tells whether cells say places of items, not names.

    Args:
        table: The rows.
        cells: That say which item is meant.
        may_be_rest: Whether the columns of options may lack the items that are meant.
        lettered: Whether the columns of options have letters, not numbers.

    Raises:
        TableFaults: They may be either, and that makes a difference.
    """
    # Places are all numbers or all letters: of a and 3, a is a name.
    if len({_kind(cell.item) for cell in cells}) != 1:
        return False
    if not all(_at_place(cell.item, cell.options) for cell in cells):
        return False
    fit = all(cell.item in cell.options for cell in cells)
    if may_be_rest:
        # Items of the same kind, as numbers or letters, could be the rest of the set.
        kinds = {_kind(item) for cell in cells for item in cell.options}
        disputed = [cell for cell in cells if _kind(cell.item) in kinds]
    else:
        disputed = [
            cell
            for cell in cells
            if cell.item in cell.options
            and cell.item != _at_place(cell.item, cell.options)
            # Of numbered columns, letters that are names in every row are no places.
            and (lettered or not fit or number_of(cell.item) is not None)
        ]
    if not disputed:
        return not fit
    if (is_name := names_items(disputed[0].column)) is None:
        _, column, item, _ = disputed[0]
        advice = (
            f"{item!r} may be the name of an item or a place: rename the column to "
            f"{column}_name if it has names of items, or to {column}_place"
        )
        table.refuse(column, [(disputed[0].row, advice)])
    return not is_name


def _check_items(table: CsvTable, cells: Sequence[_Mention], *, by_place: bool) -> None:
    """Checks that cells name items of their sets, or all say places in these.

    Raises:
        TableFaults: All cells that do not.
    """
    wrong = [cell for cell in cells if cell.item not in cell.options]
    # Where nothing is a name, the file is meant to have places.
    if by_place or len(wrong) == len(cells):
        wrong = [c for c in wrong if not _at_place(c.item, c.options)]
    faults = [
        Fault(
            table.lines[cell.row],
            cell.column,
            f"{cell.item!r} is none of {', '.join(map(repr, cell.options))}, nor the "
            "place of one: correct it",
        )
        for cell in wrong
    ]
    if faults:
        raise TableFaults(table.path, faults)


def _kind(cell: str) -> str:
    """Tells whether a cell is a number, a letter or a word."""
    if number_of(cell) is not None:
        return "number"
    return "letter" if re.fullmatch("[A-Za-z]", cell) else "word"


def square_matrix(table: CsvTable, named: NamedColumns) -> Reading | None:
    """Recognises a square of counts: how often the item of a row beat a column's.

    None leaves the table to the next layout.
    """
    names = table.header[1:]
    if named.first or len(names) < 2 or len(table.rows) != len(names) or "" in names:
        return None
    rows = [row[0].strip() for row in table.rows]
    if {*rows} != {*names} or len({*names}) < len(names):
        return None

    def read(table: CsvTable) -> Answers:
        """Reads how often the item of a row beat that of each column."""
        answers = Answers()
        # Such as NA or - where an item meets itself.
        cells = [["" if is_missing(c) else c for c in row] for row in table.rows]
        table = replace(table, rows=cells)
        for column in names:
            counts = table.integers(column, 0, MOST_COUNTED, empty=0)
            for row, count in enumerate(counts):
                if count and rows[row] != column:
                    answers.add(row, rows[row], column, count=count)
        return answers

    description = (
        "a square of counts: how often the item of a row won against a column's"
    )
    return Reading(description, tuple(table.header), read)


def wide_pairs(table: CsvTable, named: NamedColumns) -> Reading | None:
    """Recognises a column for each pair of items, such as ``A:B``, of 1, 0 or -1.

    The second item may as well be 2, or 0 if there are no ties. None leaves the table
    to the next layout.
    """
    for mark in (":", " vs ", "_vs_", ".", ">", "-", "_"):
        parts = {n: n.split(mark) for n in table.header if n.count(mark) == 1}
        pairs = {n: (a.strip(), b.strip()) for n, (a, b) in parts.items()}
        pairs = {n: ab for n, ab in pairs.items() if all(ab) and ab[0] != ab[1]}
        items = {item for pair in pairs.values() for item in pair}
        # Three items or more, of which each two have a column: other marks are chance.
        if len(items) < 3 or len({frozenset(p) for p in pairs.values()}) * 2 != len(
            items
        ) * (len(items) - 1):
            continue
        codes: dict[str, list[float | None]] = {n: table.numbers(n) for n in pairs}
        values = {v for column in codes.values() for v in column if v is not None}
        if values <= {1.0, 0.0, -1.0}:
            second = -1.0
        elif values <= {1.0, 2.0, 0.0}:
            second = 2.0
        else:
            return None
        if second not in values:
            # Then 0 is no tie.
            second = 0.0

        def read(
            table: CsvTable,
            pairs: dict[str, tuple[str, str]] = pairs,
            second: float = second,
        ) -> Answers:
            """Reads columns of outcomes, each of one pair of items."""
            answers = Answers()
            for name, pair in pairs.items():
                for row, value in enumerate(table.numbers(name)):
                    if value is not None:
                        lost = SECOND if value == second else EQUAL
                        answers.add(row, *pair, outcome=FIRST if value == 1.0 else lost)
            return answers

        tie = "" if second == 0.0 else ", 0 a tie"
        description = f"a column for each pair of {len(items)} items: 1 the first won"
        return Reading(f"{description}, {second:g} the second{tie}", tuple(pairs), read)
    return None
