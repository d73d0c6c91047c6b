"""Scores of answers of all kinds under models that have not seen them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from botorch_pref.errors import BotorchPrefError, UnsupportedFeedbackError
from botorch_pref.evaluation.held_out.predictive_log_probability import (
    predictive_log_probability,
)
from botorch_pref.feedback import Comparisons, Feedback
from botorch_pref.models import PreferenceGP

if TYPE_CHECKING:
    from pandas import DataFrame

DUELS = "duels"
"""The name of comparisons with a winner; others are named as their containers."""


class HeldOutAnswers(NamedTuple):
    """Answers that a model has not seen.

    Attributes:
        model: Fitted without them.
        feedback: The answers.
        datapoints: ``n x d``, what they are about.
    """

    model: PreferenceGP
    feedback: Sequence[Feedback]
    datapoints: Tensor


def answer_scores(folds: Iterable[HeldOutAnswers]) -> DataFrame:
    """Table of scores, a row for each kind of answer.

    Args:
        folds: Parts of the answers, each with a model of the others.

    Returns:
        How many ``answers``, those with counts as often as they count; how many were
        ``scored``, the others having left no answer of their kind to learn from;
        ``log_loss``, the mean negative log probability (of ratings and strengths log
        density) in nats; its ``standard_error``, answers taken as independent; and for
        duels ``accuracy``, the share whose winner was thought the likelier (an even one
        counts half).

    Raises:
        BotorchPrefError: pandas is not installed.
    """
    scores: dict[str, list[Tensor]] = defaultdict(list)
    counts: dict[str, list[Tensor]] = defaultdict(list)
    correct: list[Tensor] = []
    for fold in folds:
        for kind, block in by_kind(fold.feedback):
            scores[kind].append(_scores(block, fold))
            counts[kind].append(block.answer_counts)
            if kind == DUELS:
                correct.append(_correct(block, fold))
    try:
        from pandas import DataFrame
    except ImportError as error:
        raise BotorchPrefError(
            "Scores are a table of pandas: pip install 'botorch-pref[data]'"
        ) from error
    kinds = sorted(scores, key=lambda kind: (kind != DUELS, kind))
    table = DataFrame(
        {k: _row(torch.cat(scores[k]), torch.cat(counts[k])) for k in kinds}
    )
    table = table.T.astype({"answers": int, "scored": int})
    if correct:
        often, right = torch.cat(counts[DUELS]), torch.cat(correct)
        table.loc[DUELS, "accuracy"] = float((often * right).sum() / often.sum())
    return table


def by_kind(feedback: Sequence[Feedback]) -> Iterator[tuple[str, Feedback]]:
    """Answers of one kind, whose fields have a row for each, with its name.

    Args:
        feedback: Without batches.
    """
    for block in feedback:
        if not isinstance(block, Comparisons):
            yield type(block).__name__.lower(), block
            continue
        if block.pairs is not None:
            yield DUELS, Comparisons(block.pairs, pair_counts=block.pair_counts)
        if block.ties is not None:
            yield "ties", Comparisons(None, block.ties, tie_counts=block.tie_counts)


def _scores(block: Feedback, fold: HeldOutAnswers) -> Tensor:
    """Log probabilities, NaN if the model was fitted to no such answer."""
    X = fold.datapoints
    try:
        return predictive_log_probability(block, fold.model, X).detach()
    except UnsupportedFeedbackError:
        return X.new_full((len(block.answer_counts),), math.nan)


def _correct(duels: Feedback, fold: HeldOutAnswers) -> Tensor:
    assert isinstance(duels, Comparisons)
    assert duels.pairs is not None
    won = _scores(duels, fold)
    lost = _scores(Comparisons(duels.pairs.flip(-1)), fold)
    return (1 + (won - lost).sign()) / 2


def _row(scores: Tensor, counts: Tensor) -> dict[str, float]:
    known = ~scores.isnan()
    scored, often = scores[known], counts[known]
    count = int(often.sum())
    mean = float((often * scored).sum()) / count if count else math.nan
    squares = float((often * (scored - mean).square()).sum())
    return {
        "answers": int(counts.sum()),
        "scored": count,
        "log_loss": -mean,
        "standard_error": (squares / (count - 1) / count) ** 0.5
        if count > 1
        else math.nan,
    }
