"""Layouts of rankings: rows of one, a row of places or ranks, a column of ranks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from botorch_pref.datasets.layout_words import (
    ITEM_WORDS,
    LIKING_WORDS,
    RANK_WORDS,
    SCORE_WORDS,
    SESSION_WORDS,
    TEXT_WORDS,
    UNPLACED_WORDS,
    Answers,
    NamedColumns,
    Reading,
    columns_with,
    numbered_columns,
    words_of,
)
from botorch_pref.datasets.tables import CsvTable, is_missing

Rankings = Iterator[tuple[Sequence[int], list[list[str]]]]
"""Rows of a table, and the ranking that they are: items by places, best first."""


def _reading(
    table: CsvTable,
    description: str,
    columns: Sequence[str],
    rankings: Callable[[CsvTable], Rankings],
) -> Reading:
    """Makes the reading of a layout from what yields the rankings of a table.

    Rows are silent that are in no ranking, for want of an item or a rank, or in none
    that compares items.
    """
    silent = dict.fromkeys(range(len(table.rows)), "without an item or a rank")
    compared = set[int]()
    for rows, places in rankings(table):
        if reason := _silence(places):
            silent |= dict.fromkeys(rows, reason)
        else:
            compared |= {*rows}
    silent = {row: reason for row, reason in silent.items() if row not in compared}

    def read(table: CsvTable) -> Answers:
        """Reads the rankings of a table; its silent rows are out already."""
        answers = Answers()
        for rows, places in rankings(table):
            # The rater of a ranking, and its other columns, are those of its first row.
            answers.add_ranking(rows[0], places)
        return answers

    return Reading(description, tuple(columns), read, silent)


def _silence(places: Sequence[Sequence[str]]) -> str:
    """Says why a ranking compares nothing; empty if it compares items."""
    num_items = sum(map(len, places))
    if num_items < 2:
        return "of less than two items"
    is_one_place = len(places) == 1 and num_items > 2
    return "in which all items share a place" if is_one_place else ""


def _places(
    table: CsvTable, column: str, row: int, ranked: Sequence[tuple[float, str]]
) -> list[list[str]]:
    """Returns items by their ranks, least first; refuses an item that is there twice.

    Args:
        table: The rows.
        column: The column that names items, for errors.
        row: A row of the ranking, for errors.
        ranked: The rank of each item, and its name.
    """
    places: dict[float, list[str]] = {}
    names: set[str] = set()
    for rank, name in ranked:
        if name in names:
            message = f"{name!r} is there twice in one ranking: remove a row, or name"
            table.refuse(column, [(row, f"{message} what parts rankings by --rater")])
        names.add(name)
        places.setdefault(rank, []).append(name)
    return [places[rank] for rank in sorted(places)]


def ranks_of_sessions(table: CsvTable, named: NamedColumns) -> Reading | None:
    """Recognises a row for each item of a session, with its rank there.

    None leaves the table to the next layout.
    """
    order = named.order or _rank_column(table)
    families = (f.values() for f in numbered_columns(table.header).values())
    # Columns such as judge1 and judge2 are about a judge each, and name no session.
    numbered = {name for family in families for name in family if len(family) > 1}
    sessions = [
        n
        for n in columns_with(table.header, SESSION_WORDS)
        if n not in {order, named.first, *numbered}
    ]
    sessions = [*dict.fromkeys([*sessions, *([named.rater] if named.rater else [])])]
    items = [named.first] if named.first else _item_columns(table, (order, *sessions))
    if order is None or not items or not sessions:
        return None
    if not _placed(table, order).is_numeric(order):
        return None
    keys = [*zip(*map(table.cells, sessions), strict=True)]
    # Of drivers and their teams, drivers are ranked: no session names one twice.
    pairs = {item: {*zip(keys, table.cells(item), strict=True)} for item in items}
    item = next((i for i in items if len(pairs[i]) == len(keys)), items[0])

    def rankings(table: CsvTable) -> Rankings:
        """Yields the ranking of each session, of its rows with an item and a rank."""
        names, rows_of = table.cells(item), dict[tuple[str, ...], list[int]]()
        numbers = enumerate(_placed(table, order).numbers(order))
        ranks = {row: n for row, n in numbers if names[row] and n is not None}
        for row, key in enumerate(zip(*map(table.cells, sessions), strict=True)):
            if row in ranks:
                rows_of.setdefault(key, []).append(row)
        for rows in rows_of.values():
            ranked = [(ranks[row], names[row]) for row in rows]
            yield rows, _places(table, item, rows[-1], ranked)

    description = f"{order} of each {item}, by {', '.join(sessions)}"
    return _reading(table, description, (order, item, *sessions), rankings)


def _rank_column(table: CsvTable) -> str | None:
    """Finds the column of ranks; None without one.

    A position or place beside ratings is that in which a sample was served, no rank.
    """
    order = next(columns_with(table.header, RANK_WORDS), None)
    if order is None or {*words_of(order)} & {"rank", "ranking"}:
        return order
    ratings = columns_with(table.header, LIKING_WORDS)
    return None if any(map(table.is_numeric, ratings)) else order


def _item_columns(table: CsvTable, used: Sequence[str | None]) -> list[str]:
    """Returns columns that may name items, the likeliest first.

    Names with an ``id`` that is not their last word, as ``id_of_run``, are left out.
    """
    return [
        n
        for n in dict.fromkeys(columns_with(table.header, ITEM_WORDS))
        if n not in used and "id" not in words_of(n)[:-1]
    ]


def _placed(table: CsvTable, column: str) -> CsvTable:
    """Empties the cells of a column that say that no place was won, such as DNF."""
    cells = table.cells(column)
    return table.with_column(
        column, ["" if cell.casefold() in UNPLACED_WORDS else cell for cell in cells]
    )


def ranks_of_judges(table: CsvTable, named: NamedColumns) -> Reading | None:
    """Recognises a column of ranks for each of three or more judges, a row each item.

    None leaves the table to the next layout.
    """
    if named != NamedColumns(first=named.first, rater=named.rater):
        return None
    words = {n: {*words_of(n)} for n in table.header if n and n != named.first}
    numeric = [n for n in words if table.is_numeric(n) and not words[n] & _NUMBERING]
    judges = [n for n in numeric if words[n] & {*SESSION_WORDS}] or numeric
    texts = [n for n in words if n not in numeric]
    sessions = [*dict.fromkeys(columns_with(texts, SESSION_WORDS))]
    sessions = [named.rater] if named.rater else sessions
    items = [named.first] if named.first else _item_columns(table, (*sessions, *judges))
    items = items or [n for n in texts if n not in sessions]
    if len(judges) < 3 or not items:
        return None

    def session_rows(table: CsvTable) -> list[list[int]]:
        """Returns the rows of each session; all of them where no column names one."""
        keys = [" ".join(key) for key in zip(*map(table.cells, sessions), strict=True)]
        rows_of: dict[str, list[int]] = {}
        for row in range(len(table.rows)):
            rows_of.setdefault(keys[row] if keys else "", []).append(row)
        return [*rows_of.values()]

    def rankings(table: CsvTable) -> Rankings:
        """Yields the ranking by each judge of the items of each session."""
        names, columns = table.cells(items[0]), [table.numbers(j) for j in judges]
        for rows in session_rows(table):
            for ranks in columns:
                ranked = sorted((rank, row) for row in rows if (rank := ranks[row]))
                yield [row for _, row in ranked], [[names[row]] for _, row in ranked]

    # A session has three or more different items; the ranks of a judge are 1, 2, ...
    names, columns = table.cells(items[0]), [table.numbers(j) for j in judges]
    for rows in session_rows(table):
        of_judges = ([r for row in rows if (r := ranks[row])] for ranks in columns)
        if len({names[row] for row in rows}) < max(len(rows), 3) or not all(
            map(_are_ranks, of_judges)
        ):
            return None
    session_clause = f", by {', '.join(sessions)}" if sessions else ""
    about = f"ranks of each {items[0]}{session_clause}, a column for each judge"
    description = f"{about} ({', '.join(judges)})"
    return _reading(table, description, (items[0], *judges, *sessions), rankings)


_NUMBERING = {"id", "no", "nr", "number", "index", "year", "rownames"}
"""Words of columns that count something, and rank nothing."""


def _are_ranks(numbers: Sequence[float]) -> bool:
    """Tells whether numbers are the places from 1 on, each once."""
    return sorted(numbers) == [float(i) for i in range(1, len(numbers) + 1)]


def wide_rankings(table: CsvTable, named: NamedColumns) -> Reading | None:
    """Recognises a ranking in each row: items in order of columns, or ranks of items.

    None leaves the table to the next layout.
    """
    columns = _place_columns(table.header, named.order)
    if len(columns) >= 3 and not all(map(table.is_numeric, columns)):
        return _items_in_order(table, columns)
    items = [
        n
        for n in table.header
        if n and not {*words_of(n)} & {*SESSION_WORDS, "id"} and table.is_numeric(n)
    ]
    items = items[1:] if items and _counts_rows(table, items[0]) else items
    if named.order or named.first or not 3 <= len(items) <= _MOST_COLUMNS:
        return None
    rows = [*zip(*map(table.numbers, items), strict=True)]
    ranks = [[r for r in row if r is not None] for row in rows]
    places = {*range(1, len(items) + 1)}
    # Of many people some give two items one rank; ratings are hardly ever ranks. So all
    # rows have to be strict, or three quarters of them, if that makes six or more.
    num_strict, num_rows = sum(map(_are_ranks, ranks)), len(ranks)
    are_most = num_strict >= max(6, 0.75 * num_rows)
    if not (are_most or num_strict == num_rows) or any({*r} - places for r in ranks):
        return None

    def rankings(table: CsvTable) -> Rankings:
        for row, numbers in enumerate(zip(*map(table.numbers, items), strict=True)):
            ranked = [(r, n) for r, n in zip(numbers, items, strict=True) if r]
            yield [row], _places(table, items[0], row, ranked)

    return _reading(table, f"a rank for each of {', '.join(items)}", items, rankings)


def _counts_rows(table: CsvTable, column: str) -> bool:
    """Tells whether a column numbers the rows, up to more than a rank could be."""
    numbers = table.numbers(column)
    first = numbers[0] or 0.0
    counted = [first + row for row in range(len(numbers))]
    return numbers == counted and counted[-1] >= len(table.header)


_MOST_COLUMNS = 200
"""Items that have a column each."""


def _items_in_order(table: CsvTable, columns: Sequence[str]) -> Reading:
    """Makes the reading of rows whose items are in the order of columns, best first."""

    def rankings(table: CsvTable) -> Rankings:
        for row, cells in enumerate(zip(*map(table.cells, columns), strict=True)):
            ranked = [*enumerate(cell for cell in cells if not is_missing(cell))]
            yield [row], _places(table, columns[0], row, ranked)

    description = f"{', '.join(columns)}, the best first"
    return _reading(table, description, columns, rankings)


def _place_columns(header: Sequence[str], order: str | None) -> list[str]:
    """Finds columns of the first, the second and so on; empty without three of them.

    A user may name one of them: ``order``, from which the others differ by a number.
    """
    patterns = [
        r"(?:rank|place|choice|position|pos|preference) ?(\d+)",
        r"(\d+) ?(?:st|nd|rd|th)(?: choice| place)?",
    ]
    if order is not None:
        patterns = [re.sub(r"\d+", r"(\\d+)", re.escape(" ".join(words_of(order))))]
    for pattern in patterns:
        numbered: dict[int, str] = {}
        for name in header:
            if match := re.fullmatch(pattern, " ".join(words_of(name))):
                # Behind "1st" there may be "1st (%)".
                numbered.setdefault(int(match[1]), name)
        if [*sorted(numbered)] == [*range(1, len(numbered) + 1)] and len(numbered) > 2:
            return [numbered[i] for i in sorted(numbered)]
    return []


def scored_sets(table: CsvTable, named: NamedColumns) -> Reading | None:
    """Recognises three or more numbered columns of items, and those of their ranks.

    Instead of ranks they may have scores, of which large ones are good. None leaves the
    table to the next layout.
    """
    if named != NamedColumns(rater=named.rater):
        return None
    words, of_items = {*ITEM_WORDS, *TEXT_WORDS}, (*ITEM_WORDS, *TEXT_WORDS)
    families = numbered_columns(table.header)
    sets = [f for f in families if {*f} - {"#"} <= words and len(families[f]) > 2]
    values = [
        (f, bool({*f} & {*RANK_WORDS}))
        for f in families
        if {*f} & {*RANK_WORDS, *SCORE_WORDS}
        and all(map(table.is_numeric, families[f].values()))
    ]
    # The likeliest words for items first.
    for family in sorted(sets, key=lambda f: max(map((*of_items, "#").index, f))):
        items = families[family]
        for value, are_ranks in values:
            if families[value].keys() == items.keys() and value != family:
                columns = [families[value][n] for n in items]
                return _sets(table, [*items.values()], columns, are_ranks)
    return None


def _sets(
    table: CsvTable, items: Sequence[str], values: Sequence[str], are_ranks: bool
) -> Reading:
    """Makes the reading of rows with a set of items, and a rank or score of each.

    Args:
        table: The rows.
        items: Columns of the items.
        values: Columns of their ranks or scores, in the same order.
        are_ranks: Whether small values are good.
    """
    sign = 1.0 if are_ranks else -1.0

    def rankings(table: CsvTable) -> Rankings:
        """Yields the ranking of each row, by ranks or by scores, large ones first."""
        sets = zip(*map(table.cells, items), strict=True)
        numbers = zip(*map(table.numbers, values), strict=True)
        for row, (names, marks) in enumerate(zip(sets, numbers, strict=True)):
            ranked = [
                (sign * mark, name)
                for name, mark in zip(names, marks, strict=True)
                if mark is not None and not is_missing(name)
            ]
            yield [row], _places(table, items[0], row, ranked)

    order = "the least" if are_ranks else "the largest"
    description = f"sets of {', '.join(items)}, {order} of {', '.join(values)} first"
    return _reading(table, description, (*items, *values), rankings)
