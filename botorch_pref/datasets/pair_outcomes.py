"""Columns that say who won of two items a row: winners, truths, counts, scores."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache

from botorch_pref.datasets.items import MOST_COUNTED, WINNER
from botorch_pref.datasets.layout_words import (
    ABSTAINED_WORDS,
    BAD_WORDS,
    BOTH_BAD,
    COUNT_WORDS,
    EQUAL,
    EQUAL_WORDS,
    FIRST,
    ITEM_WORDS,
    OUTCOME_WORDS,
    SCORE_WORDS,
    SECOND,
    SIDES,
    SILENT,
    TEXT_WORDS,
    WIN_WORDS,
    NamedColumns,
    columns_with,
    names_items,
    numbered_columns,
    side_columns,
    silent_rows,
    words_of,
)
from botorch_pref.datasets.tables import (
    MISSING,
    TRUTHS,
    CsvTable,
    is_missing,
    number_of,
)
from botorch_pref.errors import FeedbackError


@dataclass(frozen=True)
class Pair:
    """The columns of two items, and their words."""

    first: str
    second: str
    side: tuple[str, str] = FIRST, SECOND

    def names(self, place: int) -> set[str]:
        """Returns what a cell may call the item at a ``place``, 0 or 1, in lower case.

        These are its column and its side, and a and first, or b and second. Sides in
        `_SHORT` have the word there instead: beside home, "a" is away.
        """
        column, word = (self.first, self.second)[place], self.side[place]
        names = {column.casefold(), word, " ".join(words_of(column))}
        if self.side in _SHORT:
            return names | {_SHORT[self.side][place]}
        return names | {"ab"[place], ("first", "second")[place]}


_SHORT = {
    ("home", "away"): ("h", "a"),
    ("home", "visitor"): ("h", "v"),
    ("r", "b"): ("red", "blue"),
    ("red", "blue"): ("r", "b"),
}
"""Words for sides of which one may be called as the other side of other pairs."""


Outcomes = list[list[tuple[str, int]]]
"""Outcomes of the two items of each row, and how often."""


@dataclass(frozen=True)
class Outcome:
    """A statement of who won: in words, its columns, and the outcomes of a table.

    Without a cell in one of the columns, a row says nothing if ``needs_all``. Rows may
    be ``silent`` for another reason.
    """

    description: str
    columns: tuple[str, ...]
    read: Callable[[CsvTable], Outcomes]
    needs_all: bool = False
    silent: dict[int, str] = field(default_factory=dict)


def _once(outcomes: Iterable[str]) -> Outcomes:
    return [[(outcome, 1)] if outcome != SILENT else [] for outcome in outcomes]


def _one_hot(table: CsvTable, named: NamedColumns, pair: Pair) -> Outcome | None:
    """Finds a column of truths for each outcome, such as ``winner_model_a``.

    None leaves it to the next of `OUTCOMES`.
    """
    by_words = {words_of(n): n for n in table.header if n}
    for word in ("winner", "win", "won", "is"):
        columns = [
            by_words.get((word, *words_of(column)), by_words.get((word, side)))
            for column, side in zip((pair.first, pair.second), pair.side, strict=True)
        ]
        if None in columns or not _are_truths(table, str(columns[0])):
            continue
        tie = by_words.get((word, "tie"), by_words.get((word, "draw")))
        used = [str(column) for column in columns] + ([tie] if tie else [])

        def read(table: CsvTable, used: Sequence[str] = used) -> Outcomes:
            """Reads the one true outcome of each row, and refuses rows with two."""
            marks = [*zip(*(table.truths(column) for column in used), strict=True)]
            wrong = [row for row, true in enumerate(marks) if sum(true) > 1]
            message = "two outcomes are true: correct one"
            table.refuse(used[0], ((row, message) for row in wrong))
            results = (FIRST, SECOND, EQUAL)
            return _once(results[t.index(True)] if any(t) else SILENT for t in marks)

        marks = zip(*(table.cells(column) for column in used), strict=True)
        # Cells that are neither true nor false are not silent: `read` refuses them.
        silent = {
            row: "without a true outcome"
            for row, cells in enumerate(marks)
            if not any(TRUTHS.get(cell.lower(), True) for cell in cells)
        }
        description = f"the true one of {', '.join(used)}"
        return Outcome(description, tuple(used), read, silent=silent)
    return None


def _are_truths(table: CsvTable, column: str) -> bool:
    return {cell.lower() for cell in table.cells(column)} <= TRUTHS.keys()


def _win_counts(table: CsvTable, named: NamedColumns, pair: Pair) -> Outcome | None:
    """Finds columns of how often either won, such as ``home.wins, away.wins``.

    None leaves it to the next of `OUTCOMES`.
    """
    # Beside a winner, fighters have the fights that they won before.
    if named.winner or WINNER in map(str.casefold, table.header):
        return None
    for words, first, second, _ in side_columns(table.header, (pair.side,)):
        if not words or not {*words} <= WIN_WORDS:
            continue

        def read(table: CsvTable, first: str = first, second: str = second) -> Outcomes:
            """Reads how often either item of a row won: up to two outcomes."""
            columns = (first, second)
            counts = [table.integers(c, 0, MOST_COUNTED, empty=0) for c in columns]
            return [
                [(winner, n) for winner, n in ((FIRST, a), (SECOND, b)) if n]
                for a, b in zip(*counts, strict=True)
            ]

        description = f"{first} and {second} counting their wins"
        return Outcome(description, (first, second), read)
    return None


def winner_column(table: CsvTable, named: NamedColumns, pair: Pair) -> Outcome | None:
    """Finds the column that says who won, and what its cells mean.

    They name the winner or its side, or have a number for it. Columns that several
    people filled in, as ``winner1`` to ``winner3``, are read together. None leaves it
    to the next of `OUTCOMES`.
    """
    columns = (
        [named.winner] if named.winner else columns_with(table.header, OUTCOME_WORDS)
    )
    for column in columns:
        if column in (pair.first, pair.second):
            continue
        cells, items = _winner_cells(table, column, pair)
        codes = _codes(column, pair, {cell.casefold() for cell in cells})
        silent = silent_rows(table, pair.first, pair.second, (column,))
        rows = [row for row in range(len(cells)) if row not in silent]
        readings = [[code(cells[r], *items[r]) for r in rows] for _, code in codes]
        fewest_gaps = min(reading.count(None) for reading in readings)
        # Words such as "label" name columns of other things, too, unless cells fit. A
        # column that is meant for certain is read, and its wrong cells are refused.
        certain = named.winner or column.casefold() == WINNER
        certain = certain or named.first_won in cells
        if 2 * fewest_gaps > len(rows) and not certain:
            continue
        if named.first_won is not None:
            codes, place = [_code_of_first(named.first_won, table, column)], 0
        else:
            place = _likeliest(table, column, rows, readings)
        description, code = codes[place]
        alike = _columns_alike(table, column, code, pair)

        def read(
            table: CsvTable, columns: Sequence[str] = alike, code: Code = code
        ) -> Outcomes:
            """Reads an outcome of each row from each column; gaps say nothing."""
            outcomes: Outcomes = [[] for _ in table.rows]
            for column in columns:
                for row, outcome in enumerate(_outcomes(table, column, code, pair)):
                    outcomes[row] += [(outcome, 1)] if outcome else []
            return outcomes

        return Outcome(description.format(", ".join(alike)), alike, read)
    return None


def are_codes(table: CsvTable, column: str) -> bool:
    """Tells whether a column has nothing but 1 and 0: for whom 1 is they do not say."""
    cells = [cell for cell in table.cells(column) if not is_missing(cell)]
    return bool(cells) and {number_of(cell) for cell in cells} <= {0.0, 1.0}


def _outcomes(table: CsvTable, column: str, code: Code, pair: Pair) -> list[str]:
    """Reads the outcome of each row in a column; refuses cells without a meaning."""
    cells, items = _winner_cells(table, column, pair)
    outcomes = [code(c, *i) for c, i in zip(cells, items, strict=True)]
    wrong = [row for row, outcome in enumerate(outcomes) if outcome is None]
    # What 1 and 0 mean is a question of the column, not of each cell.
    wrong = wrong[:1] if are_codes(table, column) else wrong
    table.refuse(column, ((row, _no_outcome(cells[row], pair)) for row in wrong))
    return [outcome or SILENT for outcome in outcomes]


def _columns_alike(
    table: CsvTable, column: str, code: Code, pair: Pair
) -> tuple[str, ...]:
    """Returns columns of the winners of several people, as ``winner1`` to ``winner3``.

    It is the column alone where there are no such columns, or one of them is coded
    otherwise.
    """
    families = numbered_columns(table.header).values()
    family = next(([*f.values()] for f in families if column in f.values()), [])
    # Two columns whose numbers are the sides of the items may be about one item each.
    num_needed = 2 if _subject_of_truths(column, pair) is None else 3
    for name in family:
        cells, items = _winner_cells(table, name, pair)
        outcomes = [code(c, *i) for c, i in zip(cells, items, strict=True)]
        if 2 * outcomes.count(None) > len(outcomes):
            return (column,)
    return tuple(family) if len(family) >= num_needed else (column,)


def _code_of_first(value: str, table: CsvTable, column: str) -> tuple[str, Code]:
    """Finds what the cells of a column mean if one value is for the first item.

    Args:
        value: The cell where the first item won, as a user says by --first-won.
        table: The rows.
        column: The column that says who won.

    Returns:
        Words with ``{}`` for the column, and the code.
    """
    cells = dict.fromkeys(cell.casefold() for cell in table.cells(column))
    labels = [cell for cell in cells if _NO_WINNER.get(cell) != SILENT]
    numbers = {cell: number_of(cell) for cell in labels}
    number = number_of(value)
    if number is not None and None not in numbers.values():
        # What may stand for the second item: beside 1 the first of three that is there.
        opposite = {1.0: (2.0, -1.0, 0.0)}.get(number, (1.0,))
        second = next((n for n in opposite if n in numbers.values()), None)
        # Numbers beside those of the two items are ties, as 0 is beside 1 and -1.
        meanings = dict.fromkeys(labels, EQUAL)
        meanings |= {c: FIRST for c, n in numbers.items() if n == number}
        meanings |= {c: SECOND for c, n in numbers.items() if n == second}
    else:
        names = {*labels} - {value.casefold(), *_NO_WINNER}
        meanings = _NO_WINNER | dict.fromkeys(names if len(names) == 1 else (), SECOND)
        meanings |= {value.casefold(): FIRST}
    if not meanings.keys() & {*labels} or FIRST not in map(meanings.get, labels):
        raise FeedbackError(
            f"{table.path} has no {value!r} in the column {column}: give --first-won a "
            f"value of {', '.join(map(repr, [*cells][:5]))}"
        )
    says = {FIRST: "the first", SECOND: "the second", EQUAL: "a tie"}
    parts = [
        f"{c} is {says[m]}" for c, m in meanings.items() if c in labels if m in says
    ]

    def code(cell: str, first: str, second: str) -> str | None:
        text = cell.casefold()
        return meanings.get(text, SILENT if _NO_WINNER.get(text) == SILENT else None)

    return f"{{}}, where {', '.join(parts[:4])}", code


def _likeliest(
    table: CsvTable,
    column: str,
    rows: Sequence[int],
    readings: Sequence[Sequence[str | None]],
) -> int:
    """Chooses the way of `_codes` by which a column says who won; returns its place.

    Args:
        table: The rows.
        column: The column.
        rows: The places of rows that are not silent.
        readings: For each way the outcomes of these rows, None where it knows none.

    Raises:
        TableFaults: A name of an item is also a side or number, of the other item.
    """
    gaps = [reading.count(None) for reading in readings]
    candidates = [place for place, n in enumerate(gaps) if not n and place != _BY_NAME]
    if not candidates:
        # Only names may know all cells: the way with the fewest gaps, whichever it is.
        return gaps.index(min(gaps))
    # A 1 in is_2_better could be a side or a truth: the truth is meant, and comes last.
    first, last = candidates[0], candidates[-1]
    side = first if readings[first] == readings[last] else last
    disputed = [
        row
        for row, name, outcome in zip(
            rows, readings[_BY_NAME], readings[side], strict=True
        )
        if name not in (None, outcome)
    ]
    if not disputed:
        return side
    if (is_name := names_items(column)) is None:
        cell = table.cells(column)[disputed[0]]
        advice = (
            f"{cell!r} is the name of an item of the row, and may be the side or the "
            f"number of the other one: rename the column to {column}_name if it has "
            f"names of items, or to {column}_side"
        )
        table.refuse(column, [(disputed[0], advice)])
    return _BY_NAME if is_name else side


def _winner_cells(
    table: CsvTable, column: str, pair: Pair
) -> tuple[list[str], list[tuple[str, str]]]:
    """Returns cells that say who won, and the two items of each row."""
    sides = zip(table.cells(pair.first), table.cells(pair.second), strict=True)
    return table.cells(column), [*sides]


_BY_NAME = 1
"""The place of names of items in the ways of `_codes`."""

Code = Callable[[str, str, str], "str | None"]


def _codes(column: str, pair: Pair, cells: set[str]) -> list[tuple[str, Code]]:
    """Returns ways to say who won, each with words that have ``{}`` for the column.

    Their order counts: sides are first, names of items at `_BY_NAME`, and truths last.

    Args:
        column: Its name may say for whom 1 or a truth is.
        pair: The columns of the items.
        cells: The different ones of the column, in lower case.
    """

    def by(meanings: dict[str, str]) -> Code:
        """Makes a code of cells by their meanings, whatever the case."""

        # A million rows have a handful of different cells.
        @cache
        def meaning(cell: str) -> str | None:
            """Looks the outcome up that a cell says; None where it says none."""
            text = cell.casefold()
            # "[[A]]" is A, and -1 is not 1.
            if re.search("[a-z]", text) and text not in meanings | _NO_WINNER:
                text = " ".join(words_of(text))
            return meanings.get(text, _NO_WINNER.get(text))

        return lambda cell, first, second: meaning(cell)

    def by_name(cell: str, first: str, second: str) -> str | None:
        if cell in (first, second):
            return FIRST if cell == first else SECOND
        return _NO_WINNER.get(cell.casefold())

    sides = dict.fromkeys(pair.names(0), FIRST) | dict.fromkeys(pair.names(1), SECOND)
    if pair.side[0] == "home":
        sides["d"] = EQUAL
    codes = [
        ("the side that won in {}", by(_RELATIONS | _labels_of_sides(cells) | sides)),
        ("the winner named in {}", by_name),
    ]
    numbers = {cell: number_of(cell) for cell in cells - {*_NO_WINNER}}
    tie = ", 0 a tie" if 0.0 in numbers.values() else ""
    for description, meanings in _numbers_for(column, pair):
        # The last number of these meanings tells them from others: it has to be there.
        needed, values = [*meanings][-1], {*numbers.values()}
        if needed in values and values <= meanings.keys():
            code = by({c: meanings[n] for c, n in numbers.items() if n is not None})
            codes.append((description.replace("; tie", tie), code))
            break
    if (side := _subject_of_truths(column, pair)) is not None:
        truths = dict.fromkeys(("true", "yes", "t", *_WON), side)
        truths |= dict.fromkeys(("false", "no", "f", *_LOST), _OTHER[side])
        codes.append((f"{{}} saying whether the {side} won", by(truths)))
    return codes


_RELATIONS = {"a>>b": FIRST, "a>b": FIRST, "b>a": SECOND, "b>>a": SECOND, "a=b": EQUAL}
"""Cells of judges who compare the answers A and B."""


def _labels_of_sides(cells: set[str]) -> dict[str, str]:
    """Returns the meanings of two labels that differ by a side, as ``Response A``.

    They are empty where the cells of a column are anything else.
    """
    labels = sorted(cells - {*_NO_WINNER})
    if len(labels) != 2:
        return {}
    for first, second in (labels, labels[::-1]):
        (*stem, a), (*stem_of_second, b) = words_of(first), words_of(second)
        if stem and stem == stem_of_second and (a, b) in SIDES:
            return {first: FIRST, second: SECOND}
    return {}


_WON, _LOST = ("win", "won", "victory", "w"), ("loss", "lost", "lose", "defeat", "l")
"""Words for a result of one of the two."""

_OTHER = {FIRST: SECOND, SECOND: FIRST}


def _subject_of_truths(column: str, pair: Pair) -> str | None:
    """Returns which item a column of truths is about by its name: ``is_A_selected``.

    None where the name does not say it.
    """
    words = {*words_of(column)}
    for ordinal, side in zip((FIRST, SECOND), pair.side, strict=True):
        if words & {side, ordinal}:
            return ordinal
    return None


def _numbers_for(column: str, pair: Pair) -> list[tuple[str, dict[float, str]]]:
    """Lists what a column's numbers may mean, the likeliest first, with words for it.

    0 and 1 alone could be either way round, and have a meaning only where the name of
    the column says which item they are about.
    """
    truths = []
    if (side := _subject_of_truths(column, pair)) is not None:
        # Twice: `_codes` wants the last number among the cells, and either will do.
        meanings = {1.0: side, 0.0: _OTHER[side]}
        description = f"1 in {{}} where the {side} won"
        truths = [
            (description, meanings),
            (description, {0.0: _OTHER[side], 1.0: side}),
        ]
    signs = {1.0: FIRST, 0.0: EQUAL, -1.0: SECOND}
    places = {1.0: FIRST, 0.0: EQUAL, 1.5: EQUAL, 2.0: SECOND}
    return [
        *truths,
        ("1 or -1 in {} for the first or second; tie", signs),
        ("1 or 2 in {} for the first or second; tie", places),
    ]


_NO_WINNER = {
    **dict.fromkeys(MISSING, SILENT),
    **dict.fromkeys(EQUAL_WORDS, EQUAL),
    **dict.fromkeys(BAD_WORDS, BOTH_BAD),
    **dict.fromkeys(ABSTAINED_WORDS, SILENT),
}

STRENGTHS = (
    "; how strongly one is preferred, from 0 to 1, is an answer of another kind: "
    "botorch_pref.Strengths in Python"
)


def _no_outcome(cell: str, pair: Pair) -> str:
    """Writes what is wrong with a cell that says no outcome, and what to do."""
    number = number_of(cell)
    if number is not None and 0 < number < 1:
        advice = STRENGTHS
    elif number in (0, 1):
        advice = (
            f"; name the column is_{pair.first}_better if 1 is for {pair.first}, or "
        )
        advice += f"say which is for {pair.first} by --first-won of rank"
    else:
        advice = ""
    either = f"{pair.first}, {pair.second}, the name of either"
    return f"{cell!r} is none of {either}, tie and tie (bothbad): correct it{advice}"


def _scores(table: CsvTable, named: NamedColumns, pair: Pair) -> Outcome | None:
    """Finds the scores of both items, in two columns or in one such as 2-1.

    The higher score wins. None leaves it to the next of `OUTCOMES`.
    """
    for words, first, second, _ in side_columns(table.header, (pair.side,)):
        are_scores = {*words} & {*SCORE_WORDS} and {*words} <= _OF_SCORES
        if are_scores and table.is_numeric(first):
            columns = (first, second)

            def read(table: CsvTable, columns: Sequence[str] = columns) -> Outcomes:
                scores = (table.numbers(column) for column in columns)
                return _once(_of_scores(a, b) for a, b in zip(*scores, strict=True))

            description = f"the higher of {first} and {second} winning"
            return Outcome(description, columns, read, needs_all=True)
    for column in columns_with(table.header, SCORE_WORDS):
        cells = [cell for cell in table.cells(column) if not is_missing(cell)]
        if 2 * sum(bool(_SCORE.fullmatch(cell)) for cell in cells) > len(cells):
            break
    else:
        return None

    def read_score(table: CsvTable) -> Outcomes:
        """Reads scores such as 2-1; empty cells say nothing."""
        cells = table.cells(column)
        parts = [_SCORE.fullmatch(cell) for cell in cells]
        message = "is no score such as 2-1: correct it, or empty it"
        wrong = (
            (row, f"{cells[row]!r} {message}")
            for row, part in enumerate(parts)
            if part is None and not is_missing(cells[row])
        )
        table.refuse(column, wrong)
        return _once(
            _of_scores(*map(_points, part.groups())) if part else SILENT
            for part in parts
        )

    return Outcome(f"the higher score of {column} winning", (column,), read_score)


_OF_SCORES = {*SCORE_WORDS, *ITEM_WORDS, *TEXT_WORDS}
_OF_SCORES |= {"final", "total", "full", "time", "match", "game", "mean", "average"}
"""Words of columns of scores; not "half" or "difference", which are others."""

_SCORE = re.compile(r"(\d+|1/2|½)\s*[-:\u2013]\s*(\d+|1/2|½)")
"""Scores as 2-1; chess has halves."""


def _points(text: str) -> float:
    return 0.5 if text in ("1/2", "½") else float(text)


def _of_scores(first: float | None, second: float | None) -> str:
    if first is None or second is None:
        return SILENT
    return EQUAL if first == second else (FIRST if first > second else SECOND)


def _row_counts(table: CsvTable, named: NamedColumns, pair: Pair) -> Outcome | None:
    """Finds counts of how often the first item beat the second: a melted matrix.

    Pairs stand there in both orders; without any such pair, or a count, it is None.
    """
    if named.winner or not (columns := [*columns_with(table.header, COUNT_WORDS)]):
        return None
    column = named.count or columns[0]
    pairs = {*zip(table.cells(pair.first), table.cells(pair.second), strict=True)}
    if not any(a != b and (b, a) in pairs for a, b in pairs):
        return None

    def read(table: CsvTable) -> Outcomes:
        counts = table.integers(column, 0, MOST_COUNTED, empty=0)
        return [[(FIRST, count)] if count else [] for count in counts]

    return Outcome(f"{column} counting wins of {pair.first}", (column,), read)


Find = Callable[[CsvTable, NamedColumns, Pair], Outcome | None]

OUTCOMES: tuple[Find, ...] = (
    *(_one_hot, _win_counts, winner_column, _scores, _row_counts),
)
"""Ways to say who won, in the order in which they are tried."""
