"""Held-out choices between key pairs, learned with a slider and without it."""

from __future__ import annotations

import math

import torch
from choice_scores import fit_bradley_terry
from held_out_scores import Predict, Prediction, fitted, rater_folds, score_rows
from published_answers import load_bigrams
from torch import Tensor
from torch.nn.functional import logsigmoid

from botorch_pref import EPPreferenceGP, LaplacePreferenceGP
from botorch_pref.datasets import FeedbackData
from botorch_pref.evaluation import predictive_log_probability
from botorch_pref.feedback import Comparisons, Strengths
from botorch_pref.models import PreferenceGP

FOLDS, LEARN = 5, 500

Table = FeedbackData[Strengths]


def bigram_rows(folder: str) -> list[list[object]]:
    """Scores of choices between two key pairs by people who were not met.

    Args:
        folder: With the file that ``load_bigrams`` reads.
    """
    data = load_bigrams(folder)
    predictors = {
        "coin": coin,
        "Bradley-Terry": linear,
        "Bradley-Terry of items": of_items,
        "EP, comparisons": by_comparisons(EPPreferenceGP),
        "Laplace, strengths": by_strengths(LaplacePreferenceGP),
        "EP, strengths": by_strengths(EPPreferenceGP),
    }
    return score_rows("bigrams, choice", data, rater_folds(data, FOLDS), predictors)


def of_choices(log_probability: Tensor) -> Prediction:
    """Prediction of the choices from log probabilities of the first items."""
    excess = log_probability - math.log(0.5)
    right = torch.where(excess.abs() < 1e-12, 0.5, (excess > 0).double())
    return Prediction(log_probability, right)


def coin(train: Table, test: Table) -> Prediction:
    """Log probability of one half for every answer."""
    return of_choices(torch.full((len(test),), 0.5).double().log())


def linear(train: Table, test: Table) -> Prediction:
    """Bradley-Terry on the features."""
    first, second = train.datapoints[train.feedback.pairs].unbind(-2)
    weights = fit_bradley_terry(first - second)
    first, second = test.datapoints[test.feedback.pairs].unbind(-2)
    return of_choices(logsigmoid((first - second) @ weights))


def of_items(train: Table, test: Table) -> Prediction:
    """Bradley-Terry with a weight for each key pair instead of features."""
    everything = torch.unique(torch.cat([train.datapoints, test.datapoints]), dim=0)

    def one_hot(data: Table) -> Tensor:
        same = (data.datapoints.unsqueeze(1) == everything).all(-1).double()
        first, second = same[data.feedback.pairs].unbind(-2)
        return first - second

    weights = fit_bradley_terry(one_hot(train))
    return of_choices(logsigmoid(one_hot(test) @ weights))


def by_comparisons(model_class: type[PreferenceGP]) -> Predict:
    """A model of which was chosen.

    Args:
        model_class: The engine.
    """

    def predict(train: Table, test: Table) -> Prediction:
        pairs = FeedbackData(
            train.datapoints, Comparisons(train.feedback.pairs), train.feature_names
        )
        model = fitted(model_class, pairs, LEARN)
        answers = Comparisons(test.feedback.pairs)
        with torch.no_grad():
            return of_choices(
                predictive_log_probability(answers, model, test.datapoints)
            )

    return predict


def by_strengths(model_class: type[PreferenceGP]) -> Predict:
    """A model of how strongly; the choice is a strength above a half.

    Args:
        model_class: The engine.
    """

    def predict(train: Table, test: Table) -> Prediction:
        model = fitted(model_class, train, LEARN)
        first, second = test.datapoints[test.feedback.pairs].unbind(-2)
        with torch.no_grad():
            posterior = model.duel_posterior(first.unsqueeze(-2), second.unsqueeze(-2))
            moments = posterior.mean[..., 0, 0], posterior.variance[..., 0, 0]
            above = model.likelihood.preference_probability(*moments)
        return of_choices(above.log())

    return predict
