"""Cross-validation of an experiment's model over Ax's own folds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ax.adapter.cross_validation import _pairwise_kfold_train_test_split
from pandas import DataFrame
from pandas.api.types import is_integer

from botorch_pref.ax.generation.preference_adapter import PreferenceAdapter
from botorch_pref.ax.given_values import written
from botorch_pref.errors import ExperimentError
from botorch_pref.evaluation.held_out.answer_scores import (
    HeldOutAnswers,
    answer_scores,
)


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
        See :func:`.answer_scores`.

    Raises:
        ExperimentError: There are not so many answered questions.
    """
    data = adapter.get_training_data()
    # A question that nothing was said of has no data to be held out.
    answered = set(data.observation_data.index.get_level_values("trial_index"))
    if not is_integer(num_folds) or num_folds not in range(2, len(answered) + 1):
        raise ExperimentError(
            f"num_folds is {written(num_folds)}; there are {len(answered)} answered "
            "questions, give a number from 2 to that."
        )
    folds = _pairwise_kfold_train_test_split(
        num_folds, data.filter_by_trial_index(answered)
    )

    def parts() -> Iterator[HeldOutAnswers]:
        for fold in folds:
            model: Any = adapter.model_of(adapter.dataset_of(fold.training_data))
            held_out = adapter.dataset_of(fold.test_data)
            yield HeldOutAnswers(model, held_out.feedback, held_out.points)

    return answer_scores(parts())
