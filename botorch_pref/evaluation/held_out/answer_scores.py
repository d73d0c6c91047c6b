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
        How many ``answers``; how many were ``scored``, the others having left no answer
        of their kind to learn from; ``log_loss``, the mean negative log probability (of
        ratings and strengths log density) in nats; its ``standard_error``, answers
        taken as independent; and for duels ``accuracy``, the share whose winner was
        thought the likelier (an even one counts half).

    Raises:
        BotorchPrefError: pandas is not installed.
    """
    scores: dict[str, list[Tensor]] = defaultdict(list)
    correct: list[Tensor] = []
    for fold in folds:
        for kind, block in by_kind(fold.feedback):
            scores[kind].append(_scores(block, fold))
            if kind == DUELS:
                correct.append(_correct(block, fold))
    try:
        from pandas import DataFrame
    except ImportError as error:
        raise BotorchPrefError(
            "Scores are a table of pandas: pip install 'botorch-pref[data]'"
        ) from error
    kinds = sorted(scores, key=lambda kind: (kind != DUELS, kind))
    table = DataFrame({kind: _row(torch.cat(scores[kind])) for kind in kinds})
    table = table.T.astype({"answers": int, "scored": int})
    if correct:
        table.loc[DUELS, "accuracy"] = float(torch.cat(correct).mean())
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
            yield DUELS, Comparisons(block.pairs)
        if block.ties is not None:
            yield "ties", Comparisons(None, block.ties)


def _scores(block: Feedback, fold: HeldOutAnswers) -> Tensor:
    """Log probabilities, NaN if the model was fitted to no such answer."""
    X = fold.datapoints
    try:
        return predictive_log_probability(block, fold.model, X).detach()
    except UnsupportedFeedbackError:
        return X.new_full((len(getattr(block, block.index_fields[0])),), math.nan)


def _correct(duels: Feedback, fold: HeldOutAnswers) -> Tensor:
    assert isinstance(duels, Comparisons)
    assert duels.pairs is not None
    won = _scores(duels, fold)
    lost = _scores(Comparisons(duels.pairs.flip(-1)), fold)
    return (1 + (won - lost).sign()) / 2


def _row(scores: Tensor) -> dict[str, float]:
    scored = scores[~scores.isnan()]
    count = len(scored)
    return {
        "answers": len(scores),
        "scored": count,
        "log_loss": -float(scored.mean()),
        "standard_error": float(scored.std()) / count**0.5 if count > 1 else math.nan,
    }
