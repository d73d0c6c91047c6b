"""Cross-validation of an experiment's model over Ax's own folds."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import torch
from ax.adapter.cross_validation import _pairwise_kfold_train_test_split
from pandas import DataFrame
from pandas.api.types import is_integer
from torch import Tensor

from botorch_pref.ax.generation.preference_adapter import PreferenceAdapter
from botorch_pref.errors import ExperimentError, UnsupportedFeedbackError
from botorch_pref.evaluation import predictive_log_probability
from botorch_pref.feedback import Comparisons, Feedback
from botorch_pref.models.data.feedback_dataset import FeedbackDataset


def cross_validation(adapter: PreferenceAdapter, num_folds: int) -> DataFrame:
    r"""Scores each answer under a model that was fitted without it.

    A fold is of whole questions (Ax's ``_pairwise_kfold_train_test_split``, which
    draws from NumPy's global generator); the hyper-parameters are learned anew without
    it. For the answers :math:`y_1 \dots y_m` of a kind, the log-loss is

    .. math:: -\frac{1}{m} \sum_{i=1}^m \log p(y_i \mid D_{-i}),

    in nats, of densities for strengths and ratings. Guessing costs 0.693 a duel, 1.099
    where ties are possible.

    Args:
        adapter: Fitted.
        num_folds: How many folds, from 2 to the number of answered questions, where
            each is left out by itself.

    Returns:
        A row for each kind of answer: how many ``answers``; how many were ``scored``,
        the others having left no answer of their kind to learn from; ``log_loss``, its
        ``standard_error``, answers taken as independent; and for duels ``accuracy``,
        the share whose winner was thought the likelier (an even one counts half).

    Raises:
        ExperimentError: There are not so many answered questions.
    """
    data = adapter.get_training_data()
    # A question that nothing was said of has no data to be held out.
    answered = set(data.observation_data.index.get_level_values("trial_index"))
    if not is_integer(num_folds) or num_folds not in range(2, len(answered) + 1):
        raise ExperimentError(
            f"num_folds is {num_folds!r}; there are {len(answered)} answered questions,"
            " give a number from 2 to that."
        )
    scores: dict[str, list[Tensor]] = defaultdict(list)
    correct: list[Tensor] = []
    for fold in _pairwise_kfold_train_test_split(
        num_folds, data.filter_by_trial_index(answered)
    ):
        model = adapter.model_of(adapter.dataset_of(fold.training_data))
        held_out = adapter.dataset_of(fold.test_data)
        for kind, block in _by_kind(held_out):
            scores[kind].append(_scores(block, model, held_out.points))
            if kind == DUELS:
                assert isinstance(block, Comparisons)
                correct.append(_correct(block, model, held_out.points))
    table = DataFrame({kind: _row(torch.cat(found)) for kind, found in scores.items()})
    table = table.T.astype({"answers": int, "scored": int})
    if correct:
        table.loc[DUELS, "accuracy"] = float(torch.cat(correct).mean())
    return table


DUELS = "duels"


def _by_kind(held_out: FeedbackDataset) -> Iterator[tuple[str, Feedback]]:
    for block in held_out.feedback:
        if not isinstance(block, Comparisons):
            yield type(block).__name__.lower(), block
            continue
        if block.pairs is not None:
            yield DUELS, Comparisons(block.pairs)
        if block.ties is not None:
            yield "ties", Comparisons(None, block.ties)


def _scores(block: Feedback, model: Any, X: Tensor) -> Tensor:
    """Log probabilities, NaN if the model was fitted to no such answer."""
    try:
        return predictive_log_probability(block, model, X).detach()
    except UnsupportedFeedbackError:
        indices = [getattr(block, name) for name in block.index_fields]
        (given,) = [index for index in indices if index is not None]
        return X.new_full(given.shape[:1], math.nan)


def _correct(duels: Comparisons, model: Any, X: Tensor) -> Tensor:
    assert duels.pairs is not None
    won = _scores(duels, model, X)
    lost = _scores(Comparisons(duels.pairs.flip(-1)), model, X)
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
