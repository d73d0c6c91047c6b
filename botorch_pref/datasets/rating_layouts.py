"""Layouts of ratings: a row for each rating, or a column for each item or rater."""

from __future__ import annotations

from collections.abc import Sequence

from botorch_pref.datasets.layout_words import (
    COUNT_WORDS,
    DECIDED,
    ITEM_WORDS,
    PERSON_WORDS,
    RANK_WORDS,
    SESSION_WORDS,
    SIDES,
    NamedColumns,
    Ratings,
    Reading,
    columns_with,
    item_columns,
    words_of,
)
from botorch_pref.datasets.tables import CsvTable, is_missing

RATING_WORDS = (
    *("score", "rating", "stars", "mos", "opinion", "grade", "mark", "likert"),
    *("quality", "points", "liking", "hedonic", "acceptance", "value"),
)
"""Words of columns that rate the item of a row, the likeliest first."""

MOST_RATED = 100
"""The largest rating of a scale whose columns no name tells."""

SUMMARIES = {"mos", "dmos", "ci", "mean", "median", "average", "sd", "std", "total"}
"""Words of columns of numbers that sum up the others, and rate nothing."""

ABOUT_RATERS = {"age", "year", "time", "date", "id", "index", "no", "nr", "zip"}
ABOUT_RATERS |= {"rownames", "votes", *COUNT_WORDS} - {*RATING_WORDS}
ABOUT_RATERS |= {"wins", "losses", "draws", "played"}
"""Words of columns of numbers that rate nothing."""


def long_ratings(table: CsvTable, named: NamedColumns) -> Reading | None:
    """Recognises a row for each rating of an item, and perhaps who rated.

    None leaves the table to the next layout.
    """
    is_about_pairs = item_columns(table, (*SIDES, *DECIDED)) and not named.rating
    if named.winner or named.second or named.order or is_about_pairs:
        return None
    rating = named.rating or next(
        (n for n in columns_with(table.header, RATING_WORDS) if table.is_numeric(n)),
        None,
    )
    item = named.first or next(
        (
            n
            for n in columns_with(table.header, ITEM_WORDS)
            if n != rating and not {*words_of(n)} & {*SESSION_WORDS}
        ),
        None,
    )
    if rating is None or item is None or rating == item:
        return None
    sessions = _sessions(table, named, (rating, item))

    def read(table: CsvTable) -> Ratings:
        """Reads the rating of each row, and refuses one of a rater without a name.

        All columns of ``sessions`` together name a rater.
        """
        keys = zip(*map(table.cells, sessions), strict=True)
        raters = [" ".join(key).strip() for key in keys] if sessions else None
        if raters:
            message = "has no rater: write who rated, or leave the row out"
            nameless = (row for row, name in enumerate(raters) if not name)
            table.refuse(sessions[0], ((row, message) for row in nameless))
        # Rows with gaps are out already: 0 is for the checker of types.
        values = [value or 0.0 for value in table.numbers(rating)]
        rows = [*range(len(values))]
        return Ratings(table.cells(item), values, raters, rows)

    cells = zip(table.cells(rating), table.cells(item), strict=True)
    silent = {
        row: "without an item or a rating"
        for row, (value, name) in enumerate(cells)
        if is_missing(value) or not name
    }
    session_clause = f", by {', '.join(sessions)}" if sessions else ""
    description = f"{rating} of each {item}{session_clause}, larger ones being better"
    return Reading(description, (rating, item, *sessions), read, silent)


def wide_ratings(table: CsvTable, named: NamedColumns) -> Reading | None:
    """Recognises a row for each rater and a column for each item, or the other way.

    None leaves the table to the next layout.
    """
    if named != NamedColumns(rater=named.rater, first=named.first):
        return None
    labels = [n for n in table.header if n and not table.is_numeric(n)]
    items = named.first or next(
        (n for n in columns_with(labels, ITEM_WORDS) if _are_distinct(table, n)), None
    )
    sessions = columns_with(table.header, SESSION_WORDS)
    raters = named.rater or next((n for n in sessions if _are_distinct(table, n)), None)
    key = items or raters
    columns = [n for n in table.header if n and n != key and _rates(table, n)]
    of_people = [n for n in columns if not {*words_of(n)} & SUMMARIES]
    columns = of_people if len(of_people) > 1 else columns
    if key is None or len(columns) < 2 or not _share_a_scale(table, columns):
        return None

    def read(table: CsvTable) -> Ratings:
        """Reads a rating from each cell of the columns that has one."""
        keys, ratings = table.cells(key), Ratings([], [], [], [])
        for column in columns:
            for row, value in enumerate(table.numbers(column)):
                if value is not None:
                    ends = (keys[row], column) if items else (column, keys[row])
                    ratings.add(row, *ends, value)
        return ratings

    column_noun, row_noun = ("rater", "item") if items else ("item", "rater")
    description = (
        f"ratings, a column for each {column_noun} ({', '.join(columns[:3])}"
        f"{', ...' if len(columns) > 3 else ''}) and a row for each {row_noun} "
        f"({key}), larger ones being better"
    )
    return Reading(description, (key, *columns), read)


def _sessions(
    table: CsvTable, named: NamedColumns, used: Sequence[str]
) -> tuple[str, ...]:
    """Finds the columns that together name a rater, or a session that may be strict.

    Args:
        table: The rows.
        named: Whose rater, if there is one, is the only column.
        used: Columns that say something else, that of the items last.
    """
    if named.rater:
        return (named.rater,)
    names = dict.fromkeys(columns_with(table.header, SESSION_WORDS))
    columns = tuple(n for n in names if n not in used and any(table.cells(n)))
    if any({*words_of(name)} & {*PERSON_WORDS} for name in columns):
        return columns
    # Where each item is in one session, strict ones cannot be told from bad items.
    items = table.cells(used[-1])
    pairs = {*zip(items, *map(table.cells, columns), strict=True)}
    return columns if len(pairs) > len({*items}) else ()


def _are_distinct(table: CsvTable, column: str) -> bool:
    cells = table.cells(column)
    return len({*cells}) == len(cells)


def _rates(table: CsvTable, column: str) -> bool:
    """Tells whether a column has numbers, and a name that raters' data do not have."""
    words = {*words_of(column)}
    is_none = words & (ABOUT_RATERS | {*SESSION_WORDS, *RANK_WORDS})
    return not is_none and table.is_numeric(column)


def _share_a_scale(table: CsvTable, columns: Sequence[str]) -> bool:
    """Tells whether columns have ratings of at most 100, as scales of people do."""
    cells = (value for name in columns for value in table.numbers(name))
    return all(value is None or abs(value) <= MOST_RATED for value in cells)
