"""Layouts with two items a row, and what says who won."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from botorch_pref.datasets.items import MOST_COUNTED, WINNER
from botorch_pref.datasets.layout_words import (
    ABSTAINED_WORDS,
    BAD_WORDS,
    BOTH_BAD,
    COUNT_WORDS,
    DECIDED,
    EQUAL,
    EQUAL_WORDS,
    FIRST,
    MISSING,
    OUTCOME_WORDS,
    SCORE_WORDS,
    SECOND,
    SIDES,
    SILENT,
    WIN_WORDS,
    Answers,
    NamedColumns,
    Reading,
    are_numbers,
    cells_of,
    columns_with,
    is_missing,
    item_columns,
    names_items,
    numbers_of,
    option_columns,
    side_columns,
    silent_rows,
    words_of,
)
from botorch_pref.datasets.tables import TRUTHS, CsvTable, number_of
from botorch_pref.errors import FeedbackError


@dataclass(frozen=True)
class _Pair:
    """The columns of two items, and their words."""

    first: str
    second: str
    side: tuple[str, str] = FIRST, SECOND

    def names(self, place: int) -> set[str]:
        """Returns what a cell may call one of the two: its column, or its side."""
        column, word = (self.first, self.second)[place], self.side[place]
        names = {column.casefold(), word, " ".join(words_of(column))}
        if self.side[0] == "home":
            return names | {"ha"[place]}
        return names | {"ab"[place], ("first", "second")[place]}


def winner_and_loser(table: CsvTable, named: NamedColumns) -> Reading | None:
    """Returns a column of winners and one of losers, and perhaps one of ties."""
    if named.first or named.second or named.winner or named.order:
        return None
    columns = item_columns(table, DECIDED)
    if columns is None:
        return None
    winner, loser, _ = columns
    tie = named.tie or next((n for n in table.header if n.casefold() == "tie"), None)

    def read(table: CsvTable) -> Answers:
        sides = cells_of(table, winner), cells_of(table, loser)
        tied = table.truths(tie) if tie else [False] * len(table.rows)
        answers = Answers()
        for row, (a, b, is_tie) in enumerate(zip(*sides, tied, strict=True)):
            answers.add(row, a, b, outcome=EQUAL if is_tie else FIRST)
        return answers

    description = f"{winner} against {loser}, {winner} being the better one"
    columns_read = (winner, loser, *([tie] if tie else []))
    silent = silent_rows(table, winner, loser, ())
    return Reading(description, columns_read, read, silent, sides=DECIDED)


def two_items(table: CsvTable, named: NamedColumns) -> Reading | None:
    """Returns two columns of items, and what says which of them won."""
    if named.order or (named.first and not named.second and not named.winner):
        return None
    pair = _pair(table, named)
    if pair is None:
        return None
    for layout in (_one_hot, _win_counts, _winner_column, _scores, _row_counts):
        if (outcome := layout(table, named, pair)) is not None:
            break
    else:
        return None
    options = option_columns(table.header)
    if {pair.first, pair.second} <= {*options} and not named.first:
        raise FeedbackError(
            f"{table.path} has items in {', '.join(options)}, and no column names the "
            "winner of all: add one, such as choice, or name two by --first and "
            "--second"
        )
    if named.tie:
        raise FeedbackError(
            f"{table.path} says in {', '.join(outcome.columns)} which answers are "
            "ties: leave out --tie"
        )

    def read(table: CsvTable) -> Answers:
        answers = Answers()
        results = outcome.read(table)
        sides = cells_of(table, pair.first), cells_of(table, pair.second)
        for row, (a, b, outcomes) in enumerate(zip(*sides, results, strict=True)):
            for winner, count in outcomes:
                answers.add(row, a, b, outcome=winner, count=count)
        return answers

    return Reading(
        f"{pair.first} against {pair.second}, {outcome.description}",
        (pair.first, pair.second, *outcome.columns),
        read,
        outcome.silent
        | silent_rows(
            table,
            pair.first,
            pair.second,
            outcome.columns,
            needs_all=outcome.needs_all,
        ),
        sides=(pair.side, *SIDES),
    )


def _pair(table: CsvTable, named: NamedColumns) -> _Pair | None:
    if named.first and named.second:
        words = [words_of(column) for column in (named.first, named.second)]
        differing = [[w for w in words[i] if w not in words[1 - i]] for i in (0, 1)]
        side = (differing[0] or [FIRST])[0], (differing[1] or [SECOND])[0]
        return _Pair(named.first, named.second, side)
    columns = item_columns(table, SIDES)
    if columns is None:
        candidates = (
            [
                (a, b, s)
                for _, a, b, s in side_columns(table.header, SIDES)
                if not are_numbers(table, a)
            ]
            if table.rows
            else []
        )
        if len(candidates) != 1:
            return None
        columns = candidates[0]
    return _Pair(*columns)


Outcomes = list[list[tuple[str, int]]]
"""Outcomes of the two items of each row, and how often."""


@dataclass(frozen=True)
class _Outcome:
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


def _one_hot(table: CsvTable, named: NamedColumns, pair: _Pair) -> _Outcome | None:
    """Finds a column of truths for each outcome, such as ``winner_model_a``."""
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
            marks = [*zip(*(table.truths(column) for column in used), strict=True)]
            wrong = [row for row, true in enumerate(marks) if sum(true) > 1]
            message = "two outcomes are true: correct one"
            table.refuse(used[0], ((row, message) for row in wrong))
            results = (FIRST, SECOND, EQUAL)
            return _once(results[t.index(True)] if any(t) else SILENT for t in marks)

        marks = zip(*(cells_of(table, column) for column in used), strict=True)
        silent = {
            row: "without a true outcome"
            for row, cells in enumerate(marks)
            if not any(TRUTHS.get(cell.lower(), True) for cell in cells)
        }
        description = f"the true one of {', '.join(used)}"
        return _Outcome(description, tuple(used), read, silent=silent)
    return None


def _are_truths(table: CsvTable, column: str) -> bool:
    return {cell.lower() for cell in cells_of(table, column)} <= TRUTHS.keys()


def _win_counts(table: CsvTable, named: NamedColumns, pair: _Pair) -> _Outcome | None:
    """Finds columns of how often either won, such as ``home.wins, away.wins``."""
    if named.winner:
        return None
    for words, first, second, _ in side_columns(table.header, (pair.side,)):
        if not {*words} & WIN_WORDS or {first, second} & {pair.first, pair.second}:
            continue

        def read(table: CsvTable, first: str = first, second: str = second) -> Outcomes:
            columns = (first, second)
            counts = [table.integers(c, 0, MOST_COUNTED, empty=0) for c in columns]
            return [
                [(winner, n) for winner, n in ((FIRST, a), (SECOND, b)) if n]
                for a, b in zip(*counts, strict=True)
            ]

        description = f"{first} and {second} counting their wins"
        return _Outcome(description, (first, second), read)
    return None


def _winner_column(
    table: CsvTable, named: NamedColumns, pair: _Pair
) -> _Outcome | None:
    """Returns a column that names the winner, its side, or a number for it."""
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
        certain = named.winner or column.casefold() == WINNER
        if 2 * fewest_gaps > len(rows) and not certain:
            continue
        description, code = codes[_likeliest(table, column, rows, readings)]

        def read(table: CsvTable, column: str = column, code: Code = code) -> Outcomes:
            cells, items = _winner_cells(table, column, pair)
            outcomes = [code(c, *i) for c, i in zip(cells, items, strict=True)]
            wrong = (row for row, outcome in enumerate(outcomes) if outcome is None)
            table.refuse(
                column, ((row, _no_outcome(cells[row], pair)) for row in wrong)
            )
            return _once(outcome or SILENT for outcome in outcomes)

        return _Outcome(description.format(column), (column,), read)
    return None


def _likeliest(
    table: CsvTable,
    column: str,
    rows: Sequence[int],
    readings: Sequence[Sequence[str | None]],
) -> int:
    """Chooses the way of `_codes` by which a column says who won.

    Raises:
        TableFaults: A name of an item is also a side or number, of the other item.
    """
    gaps = [reading.count(None) for reading in readings]
    candidates = [place for place, n in enumerate(gaps) if not n and place != _BY_NAME]
    if not candidates:
        return gaps.index(min(gaps))
    # Where all cells are 1 in is_2_better, the truth comes last, and is meant.
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
        cell = cells_of(table, column)[disputed[0]]
        advice = (
            f"{cell!r} is the name of an item of the row, and may be the side or the "
            f"number of the other one: rename the column to {column}_name if it has "
            f"names of items, or to {column}_side"
        )
        table.refuse(column, [(disputed[0], advice)])
    return _BY_NAME if is_name else side


def _winner_cells(
    table: CsvTable, column: str, pair: _Pair
) -> tuple[list[str], list[tuple[str, str]]]:
    """Returns cells that say who won, and the items of each."""
    sides = zip(cells_of(table, pair.first), cells_of(table, pair.second), strict=True)
    return cells_of(table, column), [*sides]


_BY_NAME = 1
"""The place of names of items in the ways of `_codes`."""

Code = Callable[[str, str, str], "str | None"]


def _codes(column: str, pair: _Pair, cells: set[str]) -> list[tuple[str, Code]]:
    """Returns ways to say who won, each with words for it."""

    def by(meanings: dict[str, str]) -> Code:
        def outcome(cell: str, first: str, second: str) -> str | None:
            text = cell.casefold()
            return meanings.get(text, _NO_WINNER.get(text))

        return outcome

    def by_name(cell: str, first: str, second: str) -> str | None:
        if cell in (first, second):
            return FIRST if cell == first else SECOND
        return _NO_WINNER.get(cell.casefold())

    sides = dict.fromkeys(pair.names(0), FIRST) | dict.fromkeys(pair.names(1), SECOND)
    if pair.side[0] == "home":
        sides["d"] = EQUAL
    codes = [
        ("the side that won in {}", by(sides)),
        ("the winner named in {}", by_name),
    ]
    numbers = {cell: number_of(cell) for cell in cells - {*_NO_WINNER}}
    for description, meanings in _numbers_for(column, pair):
        # The last one is of no other way.
        needed, values = [*meanings][-1], {*numbers.values()}
        if needed in values and values <= meanings.keys():
            code = by({c: meanings[n] for c, n in numbers.items() if n is not None})
            codes.append((description, code))
            break
    if (side := _subject_of_truths(column, pair)) is not None:
        truths = dict.fromkeys(("true", "yes", "t", *_WON), side)
        truths |= dict.fromkeys(("false", "no", "f", *_LOST), _OTHER[side])
        codes.append((f"{{}} saying whether the {side} won", by(truths)))
    return codes


_WON, _LOST = ("win", "won", "victory", "w"), ("loss", "lost", "lose", "defeat", "l")
"""Words for a result of one of the two."""

_OTHER = {FIRST: SECOND, SECOND: FIRST}


def _subject_of_truths(column: str, pair: _Pair) -> str | None:
    """Returns which of the two a column of truths is about, as ``is_A_selected``."""
    words = {*words_of(column)}
    for ordinal, side in zip((FIRST, SECOND), pair.side, strict=True):
        if words & {side, ordinal}:
            return ordinal
    return None


def _numbers_for(column: str, pair: _Pair) -> list[tuple[str, dict[float, str]]]:
    """Lists meanings of a column's numbers; 0 and 1 alone could be either way round."""
    truths = []
    if (side := _subject_of_truths(column, pair)) is not None:
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
        ("1 or -1 in {} for the first or second", signs),
        ("1 or 2 in {} for the first or second", places),
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


def _no_outcome(cell: str, pair: _Pair) -> str:
    number = number_of(cell)
    if number is not None and 0 < number < 1:
        advice = STRENGTHS
    elif number in (0, 1):
        advice = f"; name the column is_{pair.first}_better if 1 is for {pair.first}"
    else:
        advice = ""
    either = f"{pair.first}, {pair.second}, the name of either"
    return f"{cell!r} is none of {either}, tie and tie (bothbad): correct it{advice}"


def _scores(table: CsvTable, named: NamedColumns, pair: _Pair) -> _Outcome | None:
    """Returns the scores of both, in two columns or in one such as 2-1."""
    for words, first, second, _ in side_columns(table.header, (pair.side,)):
        if {*words} & {*SCORE_WORDS} and are_numbers(table, first):
            columns = (first, second)

            def read(table: CsvTable, columns: Sequence[str] = columns) -> Outcomes:
                scores = (numbers_of(table, column) for column in columns)
                return _once(_of_scores(a, b) for a, b in zip(*scores, strict=True))

            description = f"the higher of {first} and {second} winning"
            return _Outcome(description, columns, read, needs_all=True)
    for column in columns_with(table.header, SCORE_WORDS):
        cells = [cell for cell in cells_of(table, column) if not is_missing(cell)]
        if 2 * sum(bool(_SCORE.fullmatch(cell)) for cell in cells) > len(cells):
            break
    else:
        return None

    def read_score(table: CsvTable) -> Outcomes:
        cells = cells_of(table, column)
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

    return _Outcome(f"the higher score of {column} winning", (column,), read_score)


_SCORE = re.compile(r"(\d+|1/2|½)\s*[-:\u2013]\s*(\d+|1/2|½)")
"""Scores as 2-1; chess has halves."""


def _points(text: str) -> float:
    return 0.5 if text in ("1/2", "½") else float(text)


def _of_scores(first: float | None, second: float | None) -> str:
    if first is None or second is None:
        return SILENT
    return EQUAL if first == second else (FIRST if first > second else SECOND)


def _row_counts(table: CsvTable, named: NamedColumns, pair: _Pair) -> _Outcome | None:
    """Returns a melted matrix: how often the first beat the second, in both orders."""
    if named.winner or not (columns := [*columns_with(table.header, COUNT_WORDS)]):
        return None
    column = named.count or columns[0]
    pairs = {
        *zip(cells_of(table, pair.first), cells_of(table, pair.second), strict=True)
    }
    if not any(a != b and (b, a) in pairs for a, b in pairs):
        return None

    def read(table: CsvTable) -> Outcomes:
        counts = table.integers(column, 0, MOST_COUNTED, empty=0)
        return [[(FIRST, count)] if count else [] for count in counts]

    return _Outcome(f"{column} counting wins of {pair.first}", (column,), read)
