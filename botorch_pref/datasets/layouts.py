"""The table of layouts of answers, each recognised by its columns."""

from __future__ import annotations

from collections.abc import Callable

from botorch_pref.datasets.evaluation_layouts import compared_targets, rated_targets
from botorch_pref.datasets.layout_words import NamedColumns, Reading
from botorch_pref.datasets.pair_layouts import two_items, winner_and_loser
from botorch_pref.datasets.ranking_layouts import (
    ranks_of_judges,
    ranks_of_sessions,
    scored_sets,
    wide_rankings,
)
from botorch_pref.datasets.rating_layouts import long_ratings, wide_ratings
from botorch_pref.datasets.set_layouts import (
    best_and_worst,
    choice_of_set,
    square_matrix,
    wide_pairs,
)
from botorch_pref.datasets.tables import CsvTable
from botorch_pref.errors import FeedbackError

Layout = Callable[[CsvTable, NamedColumns], Reading | None]

LAYOUTS: tuple[Layout, ...] = (
    *(compared_targets, rated_targets),
    *(best_and_worst, square_matrix, wide_pairs, winner_and_loser, choice_of_set),
    *(scored_sets, two_items, ranks_of_judges, ranks_of_sessions, wide_rankings),
    *(long_ratings, wide_ratings),
)
"""Layouts in the order in which they are tried: the first that fits reads a table."""


def read_layout(table: CsvTable, named: NamedColumns) -> Reading:
    """Finds the first layout that fits a table, and returns the way to read it.

    Raises:
        FeedbackError: No layout fits.
    """
    layouts = LAYOUTS
    # A user who names these has said which layout it is.
    if named.rating or named.first_won:
        layouts = (rated_targets, long_ratings) if named.rating else (two_items,)
    for layout in layouts:
        if (reading := layout(table, named)) is not None:
            return reading
    raise FeedbackError(
        f"{table.path} has no columns that say who won: winner and loser; or two "
        "columns of items, such as model_a and model_b, and winner, which names one of "
        "them; or more, such as option1, option2, option3, and best; or ranks, or "
        "ratings. Name them, or number them if the first line is an answer, by "
        "--first, --second, --winner, --tie, --count, --rater, --order and "
        f"--rating; the header is {', '.join(table.header) or 'empty'}"
    )
