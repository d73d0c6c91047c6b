"""Layouts of evaluations of language models: a row a question, columns a target.

LangWatch's exports have them. The columns of a target begin with its name: its outputs,
``_duration_ms`` and ``_trace_id``, and of each evaluator ``_NAME_score`` and
``_NAME_passed``. A judge who compares targets has ``NAME_winner``, ``NAME_candidates``,
which are parted by commas, and ``NAME_reasoning``.
"""

from __future__ import annotations

from collections import defaultdict

from botorch_pref.datasets.layout_words import (
    EMPTY,
    EQUAL,
    Answers,
    NamedColumns,
    Ratings,
    Reading,
)
from botorch_pref.datasets.tables import CsvTable, is_missing, number_of
from botorch_pref.errors import FeedbackError

NO_VERDICTS = {"no_verdict", "unresolved"}
"""Cells in place of a winner where a judge named none of the candidates."""

PASSED = {"true": 1.0, "false": 0.0}
"""Ratings of an evaluator who has no scores."""


def compared_targets(table: CsvTable, named: NamedColumns) -> Reading | None:
    """Recognises a judge's winners among the candidates of each row.

    None leaves the table to the next layout.
    """
    pairs = {
        name: name.removesuffix("winner") + "candidates"
        for name in table.header
        if name.endswith("_winner") and named.winner in (None, name)
    }
    pairs = {name: sets for name, sets in pairs.items() if sets in table.header}
    if not pairs or named.first or named.second or named.order:
        return None
    winner, candidates = pairs.popitem()
    if pairs:
        raise FeedbackError(
            f"{table.path} has winners in {', '.join([*pairs, winner])}; name one "
            "of these columns by --winner."
        )
    silent, unknown = dict[int, str](), list[tuple[int, str]]()
    for row, (name, items) in enumerate(_verdicts(table, winner, candidates)):
        if is_missing(name) or name in NO_VERDICTS:
            silent[row] = EMPTY
        elif name == "tie" and len(items) != 2:
            silent[row] = "with a tie of more than two items"
        elif name != "tie" and name not in items:
            unknown.append((row, f"{name!r} is none of {', '.join(items)}"))
    table.refuse(winner, unknown)

    def read(table: CsvTable) -> Answers:
        """Reads verdicts: the winner beats all others, or two are equal.

        Silent rows are not in the table any more.
        """
        answers = Answers()
        for row, (name, items) in enumerate(_verdicts(table, winner, candidates)):
            if name == "tie":
                answers.add(row, *items, outcome=EQUAL)
                continue
            beaten = [item for item in items if item != name]
            choice = f"{row}" if len(beaten) > 1 else None
            for loser in beaten:
                answers.add(row, name, loser, choice=choice)
        return answers

    description = f"the choice in {winner}, by name, from those in {candidates}"
    return Reading(description, (winner, candidates), read, silent)


def _verdicts(
    table: CsvTable, winner: str, candidates: str
) -> list[tuple[str, list[str]]]:
    """Lists the cell of the winner and the candidates of each row."""
    cells = zip(table.cells(winner), table.cells(candidates), strict=True)
    return [(name, items.split(", ")) for name, items in cells]


def rated_targets(table: CsvTable, named: NamedColumns) -> Reading | None:
    """Recognises an evaluator's scores of all targets, which are the items.

    Where a column has the question of each row, it counts as a rater, for some are
    harder. Of several evaluators, ``named.rating`` chooses one by the name of any
    column of its scores. None leaves the table to the next layout.
    """
    by_evaluator = _scores(table)
    if named.rating is not None:
        by_evaluator = {
            evaluator: columns
            for evaluator, columns in by_evaluator.items()
            if named.rating in columns.values()
        }
    if not by_evaluator or named.winner or named.second or named.order:
        return None
    evaluator, columns = by_evaluator.popitem()
    if by_evaluator:
        example = next(iter(columns.values()))
        raise FeedbackError(
            f"{table.path} has scores by {', '.join([*by_evaluator, evaluator])}; name "
            f"a column of one of them by --rating, such as {example}."
        )
    questions = named.rater or ("index" if "index" in table.header else None)

    def read(table: CsvTable) -> Ratings:
        """Reads the score of each target in each row, as far as there is one."""
        ratings = Ratings([], [], [] if questions else None, [])
        raters = table.cells(questions) if questions else [""] * len(table.rows)
        for target, column in columns.items():
            for row, value in enumerate(_values(table, column)):
                if value is not None:
                    ratings.add(row, target, raters[row], value)
        return ratings

    values = zip(*(_values(table, column) for column in columns.values()), strict=True)
    silent = {
        row: "without an item or a rating"
        for row, scores in enumerate(values)
        if all(score is None for score in scores)
    }
    question_clause = f", by {questions}" if questions else ""
    description = f"scores by {evaluator} of {', '.join(columns)}{question_clause}"
    key = (questions,) if questions else ()
    return Reading(description, (*key, *columns.values()), read, silent)


def _scores(table: CsvTable) -> dict[str, dict[str, str]]:
    """Finds columns of scores by evaluators of targets.

    Returns:
        For each evaluator of two or more targets, by name, the column of each target.
    """
    header = set(table.header)
    targets = [
        name.removesuffix("_trace_id")
        for name in table.header
        if name.endswith("_trace_id")
        and name.removesuffix("_trace_id") + "_duration_ms" in header
    ]
    scores: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for name in table.header:
        stem = name.removesuffix("_score")
        # The name of a target may begin with that of another one.
        target = max(
            (t for t in targets if name.startswith(f"{t}_")), key=len, default=""
        )
        if target and stem != name and f"{stem}_passed" in header:
            scores[stem.removeprefix(f"{target}_")][target] = name
    return {name: columns for name, columns in scores.items() if len(columns) > 1}


def _values(table: CsvTable, column: str) -> list[float | None]:
    """Lists the scores of a column; if it has none, 1 or 0 for passed or not."""
    scores = [number_of(cell) for cell in table.cells(column)]
    if any(score is not None for score in scores):
        return scores
    # `_scores` has seen that there is such a column beside that of the score.
    passed = column.removesuffix("score") + "passed"
    return [PASSED.get(cell) for cell in table.cells(passed)]
