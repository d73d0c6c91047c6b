"""Layouts with two items a row."""

from __future__ import annotations

from botorch_pref.datasets.items import TIE
from botorch_pref.datasets.layout_words import (
    DECIDED,
    EQUAL,
    FIRST,
    OUTCOME_WORDS,
    SECOND,
    SIDES,
    Answers,
    NamedColumns,
    Reading,
    columns_with,
    item_columns,
    option_columns,
    side_columns,
    silent_rows,
    words_of,
)
from botorch_pref.datasets.pair_outcomes import (
    OUTCOMES,
    Outcome,
    Pair,
    are_codes,
    winner_column,
)
from botorch_pref.datasets.tables import CsvTable
from botorch_pref.errors import FeedbackError


def winner_and_loser(table: CsvTable, named: NamedColumns) -> Reading | None:
    """Recognises a column of winners and one of losers, and perhaps one of ties.

    None leaves the table to the next layout.
    """
    if named.first or named.second or named.winner or named.order:
        return None
    columns = item_columns(table, DECIDED)
    if columns is None:
        return None
    winner, loser, _ = columns
    tie = named.tie or next((n for n in table.header if n.casefold() == TIE), None)

    def read(table: CsvTable) -> Answers:
        """Reads an answer from each row; those that say nothing are out already."""
        sides = table.cells(winner), table.cells(loser)
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
    """Recognises two columns of items, and what says which of them won.

    None leaves the table to the next layout.

    Raises:
        FeedbackError: The two are columns of a set of three or more, or the user names
            ties where the outcome says them.
    """
    if named.order or (named.first and not named.second and not named.winner):
        return None
    pair = _pair(table, named)
    if pair is None:
        return None
    outcome = _outcome(table, named, pair)
    if outcome is None:
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
        """Reads the answers of each row; rows that say nothing are out already.

        Items are added as first and second, whichever of them won: controls need to
        know on which side of the row the winner stands.
        """
        answers = Answers()
        results = outcome.read(table)
        sides = table.cells(pair.first), table.cells(pair.second)
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


def _outcome(table: CsvTable, named: NamedColumns, pair: Pair) -> Outcome | None:
    """Finds the columns that say who won of the two items of a row; None without any.

    Raises:
        FeedbackError: A column has 1 and 0, and may say it either way round.
    """
    for find in (winner_column,) if named.first_won else OUTCOMES:
        if (outcome := find(table, named, pair)) is not None:
            return outcome
    columns = (n for n in columns_with(table.header, OUTCOME_WORDS) if table.rows)
    if named.first_won or not (
        codes := [column for column in columns if are_codes(table, column)]
    ):
        return None
    raise FeedbackError(
        f"{table.path} has 1 and 0 in {codes[0]}: name the column "
        f"is_{pair.first}_better, or is_{pair.second}_better, by for whom 1 is, or say "
        f"by --first-won of rank which of them is for {pair.first}"
    )


def _pair(table: CsvTable, named: NamedColumns) -> Pair | None:
    """Finds the two columns of items, and the words by which their names differ.

    None where no two columns, or several pairs of them, may be the items.
    """
    if named.first and named.second:
        words = [words_of(column) for column in (named.first, named.second)]
        differing = [[w for w in words[i] if w not in words[1 - i]] for i in (0, 1)]
        side = (differing[0] or [FIRST])[0], (differing[1] or [SECOND])[0]
        return Pair(named.first, named.second, side)
    columns = item_columns(table, SIDES)
    if columns is None:
        candidates = (
            [
                (a, b, s)
                for _, a, b, s in side_columns(table.header, SIDES)
                if not table.is_numeric(a)
            ]
            if table.rows
            else []
        )
        if len(candidates) != 1:
            return None
        columns = candidates[0]
    return Pair(*columns)
