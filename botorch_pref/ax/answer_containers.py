"""Containers of answers for models, from the data of metrics that Ax keeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from botorch_pref.ax.answer_kinds import (
    BEST,
    KINDS,
    RANKING,
    TIE,
    WINNER,
    Answered,
    AnswerKind,
    Groups,
    Values,
    has_shared_places,
)
from botorch_pref.errors import ExperimentError
from botorch_pref.feedback import (
    Choices,
    Comparisons,
    Feedback,
    Rankings,
    rankings_with_ties,
)


def feedback_blocks(
    answers: Mapping[Answered, Mapping[str, Values]],
    num_levels: int | None,
    positions: Mapping[Answered, Mapping[int, float]] | None = None,
    counts: Mapping[Answered, int] = {},
) -> list[Feedback]:
    """Returns answers in containers that models take, one for each class of feedback.

    Args:
        answers: The values of each answer, by metric and datapoint; answers themselves
            by trial and rater.
        num_levels: How many levels the experiment's scale has; None without a scale.
        positions: Where datapoints were on display in each answer, see `position`; None
            where positions do not count.
        counts: How often each answer was given; once where it is not among them.
    """
    blocks: dict[type[Feedback], Feedback] = {}
    groups: dict[str, list[tuple[Answered, Values]]] = {
        kind.metric: [] for kind in KINDS
    }
    for answer, values in answers.items():
        for kind in KINDS:
            if kind.metric in values:
                for metric, row in _told_rows(kind, values[kind.metric]):
                    groups[metric].append((answer, row))
    for kind in KINDS:
        if rows := groups[kind.metric]:
            block = _counted(kind, rows, num_levels, counts)
            if positions is not None:
                covariates = [positions.get(answer, {}) for answer, _ in rows]
                block = with_positions(block, covariates)
            earlier = blocks.get(type(block))
            blocks[type(block)] = earlier.followed_by(block) if earlier else block
    return [*blocks.values()]


def _told_rows(kind: AnswerKind, values: Values) -> list[tuple[str, Values]]:
    """Lists the rows of an answer that models take, each with its metric.

    A tie of all options becomes several ties, see `tied_in_turn`. A ranking with shared
    places becomes the choices, duels and ties that `rankings_with_ties` makes of it.
    """
    if kind is TIE:
        return [(kind.metric, two) for two in tied_in_turn(values)]
    if kind is not RANKING or not has_shared_places(values):
        return [(kind.metric, values)]
    options, ranks = torch.tensor([*values]), torch.tensor([*values.values()])
    rows: list[tuple[str, Values]] = []
    for block in rankings_with_ties(options.unsqueeze(0), ranks.unsqueeze(0)):
        if isinstance(block, Choices):
            # A stage has the chosen option, the others, and -1 as padding.
            stages = [[i for i in row if i >= 0] for row in block.stages().tolist()]
            rows += [(BEST.metric, _first_won(stage)) for stage in stages]
            continue
        assert isinstance(block, Comparisons)
        pairs, ties = block.pairs, block.ties
        decided = [] if pairs is None else pairs.tolist()
        rows += [(WINNER.metric, _first_won(pair)) for pair in decided]
        equal = [] if ties is None else ties.tolist()
        rows += [(TIE.metric, {i: 1.0, j: 1.0}) for i, j in equal]
    return rows


def told_kinds(values: Mapping[str, Values]) -> set[str]:
    """Returns the metrics of an answer as models take it, such as that of ties."""
    kinds = (kind for kind in KINDS if kind.metric in values)
    rows = (row for kind in kinds for row in _told_rows(kind, values[kind.metric]))
    return {metric for metric, _ in rows}


def _first_won(options: Sequence[int]) -> Values:
    return {option: float(option == options[0]) for option in options}


_MOST_REPEATED = 50_000
"""Rows of answers that are told one by one, whatever their counts."""


def _counted(
    kind: AnswerKind,
    rows: Groups,
    num_levels: int | None,
    counts: Mapping[Answered, int],
) -> Feedback:
    """Returns answers of a kind in a container, with how often each was given.

    A container without a field for counts has a row for each time.
    """
    block = kind.feedback(rows, num_levels)
    times = [counts.get(answer, 1) for answer, _ in rows]
    if max(times) == 1:
        return block
    # A container of one kind has one table, whose key is its field for counts or None.
    (count_field,) = block.tables
    if count_field is not None:
        return block._replaced({count_field: torch.tensor(times)})
    if (total := sum(times)) > _MOST_REPEATED:
        raise ExperimentError(
            f"There are {total} answers that say {kind.field}, which models see one by "
            f"one: at most {_MOST_REPEATED}; give them smaller counts."
        )
    counted_rows = zip(rows, times, strict=True)
    repeated = [row for row, often in counted_rows for _ in range(often)]
    return kind.feedback(repeated, num_levels)


def tied_in_turn(values: Values) -> list[Values]:
    """Makes ties of each option with the next, and of the last with the first.

    A person of Thurstone's model judges each option once, and finds all of them within
    a threshold. Such an answer says about as much as this ring, and less than ties of
    all pairs, for each of which she would judge anew (`docs/feedback.md`).
    """
    places = [*values]
    if len(places) <= 2:
        return [values]
    turn = zip(places, [*places[1:], places[0]], strict=True)
    return [{place: values[place] for place in pair} for pair in turn]


def position(rank: int, num_options: int) -> float:
    """Finds the position on display, from 1/2 for the first option to -1/2."""
    return 0.5 - rank / (num_options - 1)


def with_positions(
    block: Feedback, positions: Sequence[Mapping[int, float]]
) -> Feedback:
    """Returns answers that compare, with positions of their options as a covariate.

    Of duels it is the difference of both positions; other answers stay as they are.
    ``positions`` has those of each answer by datapoint; one that is not known is 0.
    """
    if not isinstance(block, Comparisons | Choices | Rankings):
        return block
    # Of the one table of such a block, the first field has the options.
    ((options_field, *_),) = block.tables.values()
    numbered = zip(positions, getattr(block, options_field).tolist(), strict=True)
    rows: list[Any] = [
        [[positions.get(i, 0.0)] for i in options] for positions, options in numbered
    ]
    covariates = torch.tensor(rows, dtype=torch.float64)
    if isinstance(block, Comparisons):
        covariates = covariates[:, 0] - covariates[:, 1]
    return replace(block, covariates=covariates)
