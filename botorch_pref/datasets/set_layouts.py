"""Layouts of rankings, matrices, and sets of more than two items."""

from __future__ import annotations

import re
from collections.abc import Sequence

from botorch_pref.datasets.items import MOST_COUNTED
from botorch_pref.datasets.layout_words import (
    EQUAL,
    FIRST,
    ITEM_WORDS,
    RANK_WORDS,
    SECOND,
    SESSION_WORDS,
    Answers,
    NamedColumns,
    Reading,
    are_numbers,
    cells_of,
    columns_with,
    is_missing,
    numbers_of,
    silent_rows,
    words_of,
)
from botorch_pref.datasets.tables import CsvTable


def best_and_worst(table: CsvTable, named: NamedColumns) -> Reading | None:
    """Sets of items with the best and the worst of each."""
    best, worst = (
        next(
            (
                n
                for n in table.header
                if w in words_of(n)
                and len(words_of(n)) <= 2
                and {*words_of(n)} <= {w, *ITEM_WORDS}
            ),
            None,
        )
        for w in ("best", "worst")
    )
    if best is None or worst is None:
        return None
    options = [
        name
        for name in table.header
        if name not in (best, worst)
        and re.fullmatch(r"[a-z]+ ?\d+", " ".join(words_of(name)))
    ]
    if len(options) < 2:
        return None
    named_in_row = (best, worst, *options)
    # Some files have the whole set in the columns of options, others the rest of it.
    sets = zip(*(cells_of(table, column) for column in named_in_row), strict=True)
    whole = any(top in items for top, _, *items in sets)

    def read(table: CsvTable) -> Answers:
        answers, columns = (
            Answers(),
            [cells_of(table, column) for column in named_in_row],
        )
        for row, (top, bottom, *items) in enumerate(zip(*columns, strict=True)):
            for column, item in ((best, top), (worst, bottom)):
                if whole and item not in items:
                    message = f"{item!r} is none of {', '.join(map(repr, items))}"
                    table.refuse(column, [(row, f"{message}: correct it")])
            middle = [i for i in dict.fromkeys(items) if i and i not in (top, bottom)]
            for other in (*middle, bottom):
                answers.add(row, top, other, choice=f"{row}" if middle else None)
            for other in middle:
                answers.add(row, other, bottom)
        return answers

    description = f"the {best} and {worst} of sets, with {', '.join(options)}"
    silent = silent_rows(table, best, worst, ())
    return Reading(description, named_in_row, read, silent)


def ranks_of_sessions(table: CsvTable, named: NamedColumns) -> Reading | None:
    """A row for each item of a session, with its rank there."""
    order = named.order or next(columns_with(table.header, RANK_WORDS), None)
    item = named.first or next(
        (
            n
            for n in columns_with(table.header, ITEM_WORDS)
            if n != order and "id" not in words_of(n)[:-1]
        ),
        None,
    )
    sessions = [
        n for n in columns_with(table.header, SESSION_WORDS) if n not in (order, item)
    ]
    sessions = [*dict.fromkeys([*sessions, *([named.rater] if named.rater else [])])]
    if order is None or item is None or not sessions:
        return None
    if not named.order and not are_numbers(table, order):
        return None

    def read(table: CsvTable) -> Answers:
        keys = [*zip(*(cells_of(table, column) for column in sessions), strict=True)]
        ranks, items = numbers_of(table, order), cells_of(table, item)
        rankings: dict[tuple[str, ...], list[int]] = {}
        for row, key in enumerate(keys):
            rankings.setdefault(key, []).append(row)
        answers = Answers()
        for rows in rankings.values():
            _check_named_once(table, item, rows, items)
            places: dict[float, list[str]] = {}
            for row in rows:
                places.setdefault(ranks[row] or 0.0, []).append(items[row])
            answers.add_ranking(rows[0], [places[rank] for rank in sorted(places)])
        return answers

    cells = zip(cells_of(table, order), cells_of(table, item), strict=True)
    silent = {
        row: "without an item or a rank"
        for row, (rank, name) in enumerate(cells)
        if is_missing(rank) or not name
    }
    description = f"{order} of each {item}, by {', '.join(sessions)}"
    return Reading(description, (order, item, *sessions), read, silent)


def _check_named_once(
    table: CsvTable, column: str, rows: Sequence[int], items: Sequence[str]
) -> None:
    seen: set[str] = set()
    for row in rows:
        if items[row] in seen:
            message = (
                f"{items[row]!r} is there twice in one ranking: remove a row, or name"
            )
            table.refuse(column, [(row, f"{message} what parts rankings by --rater")])
        seen.add(items[row])


def wide_rankings(table: CsvTable, named: NamedColumns) -> Reading | None:
    """Rankings in a row each: items in the order of columns, or ranks of items."""
    places = _place_columns(table.header)
    if len(places) >= 3 and not all(are_numbers(table, column) for column in places):
        return _items_in_order(table, places)
    items = [n for n in table.header if n and are_numbers(table, n)]
    if not 3 <= len(items) <= _MOST_COLUMNS:
        return None
    wanted = [float(i) for i in range(1, len(items) + 1)]
    ranks = zip(*(numbers_of(table, column) for column in items), strict=True)
    if not all(sorted(r for r in row if r is not None) == wanted for row in ranks):
        return None

    def read(table: CsvTable) -> Answers:
        answers, columns = Answers(), [numbers_of(table, column) for column in items]
        for row, numbers in enumerate(zip(*columns, strict=True)):
            order = sorted(range(len(items)), key=lambda i: numbers[i] or 0.0)
            answers.add_ranking(row, [[items[i]] for i in order])
        return answers

    return Reading(f"a rank for each of {', '.join(items)}", tuple(items), read)


_MOST_COLUMNS = 200
"""Items that have a column each."""


def _items_in_order(table: CsvTable, places: Sequence[str]) -> Reading:
    """Rankings whose items are in the order of columns, the best first."""

    def read(table: CsvTable) -> Answers:
        answers, columns = Answers(), [cells_of(table, column) for column in places]
        for row, cells in enumerate(zip(*columns, strict=True)):
            order = [item for item in cells if not is_missing(item)]
            if len({*order}) < len(order):
                message = "an item is there twice in one ranking: correct the row"
                table.refuse(places[0], [(row, message)])
            answers.add_ranking(row, [[item] for item in order])
        return answers

    cells = zip(*(cells_of(table, column) for column in places), strict=True)
    silent = {
        row: "of less than two items"
        for row, items in enumerate(cells)
        if sum(not is_missing(item) for item in items) < 2
    }
    return Reading(f"{', '.join(places)}, the best first", tuple(places), read, silent)


def _place_columns(header: Sequence[str]) -> list[str]:
    """Columns of the first, the second and so on."""
    for pattern in (
        r"(?:rank|place|choice|position|pos|preference) ?(\d+)",
        r"(\d+) ?(?:st|nd|rd|th)(?: choice| place)?",
    ):
        numbered = {}
        for name in header:
            if found := re.fullmatch(pattern, " ".join(words_of(name))):
                numbered[int(found[1])] = name
        if [*sorted(numbered)] == [*range(1, len(numbered) + 1)] and len(numbered) > 2:
            return [numbered[i] for i in sorted(numbered)]
    return []


def square_matrix(table: CsvTable, named: NamedColumns) -> Reading | None:
    """Counts of wins of the item of a row over that of a column."""
    names = table.header[1:]
    if len(names) < 2 or len(table.rows) != len(names) or "" in names:
        return None
    rows = [row[0].strip() for row in table.rows]
    if {*rows} != {*names} or len({*names}) < len(names):
        return None

    def read(table: CsvTable) -> Answers:
        answers = Answers()
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
    """A column for each pair of items, such as ``A:B``, with 1, 0 or -1 in each row."""
    for mark in (":", " vs ", "_vs_", ".", ">", "-", "_"):
        parts = {n: n.split(mark) for n in table.header if n.count(mark) == 1}
        pairs = {n: (a.strip(), b.strip()) for n, (a, b) in parts.items()}
        pairs = {n: ab for n, ab in pairs.items() if all(ab) and ab[0] != ab[1]}
        items = {item for pair in pairs.values() for item in pair}
        if len(items) < 3 or len({frozenset(p) for p in pairs.values()}) * 2 != len(
            items
        ) * (len(items) - 1):
            continue
        codes: dict[str, list[float | None]] = {n: numbers_of(table, n) for n in pairs}
        values = {v for column in codes.values() for v in column if v is not None}
        if values <= {1.0, 0.0, -1.0}:
            second = -1.0
        elif values <= {1.0, 2.0, 0.0}:
            second = 2.0
        else:
            return None
        if second not in values:
            second = 0.0

        def read(
            table: CsvTable,
            pairs: dict[str, tuple[str, str]] = pairs,
            second: float = second,
        ) -> Answers:
            answers = Answers()
            for name, pair in pairs.items():
                for row, value in enumerate(numbers_of(table, name)):
                    if value is not None:
                        lost = SECOND if value == second else EQUAL
                        answers.add(row, *pair, outcome=FIRST if value == 1.0 else lost)
            return answers

        tie = "" if second == 0.0 else ", 0 a tie"
        description = f"a column for each pair of {len(items)} items: 1 the first won"
        return Reading(f"{description}, {second:g} the second{tie}", tuple(pairs), read)
    return None
