"""Held-out rankings of ten sushi, and how many of their pairs are put right."""

from __future__ import annotations

from typing import Any

import torch
from held_out_scores import (
    Predict,
    Prediction,
    fitted,
    fitted_regression,
    mean_utilities,
    rater_folds,
    score_rows,
)
from torch import Generator, Tensor

from botorch_pref import (
    EPPreferenceGP,
    LaplacePreferenceGP,
    PlackettLuceLikelihood,
    VariationalPreferenceGP,
)
from botorch_pref.datasets import FeedbackData, load_sushi
from botorch_pref.evaluation import predictive_log_probability
from botorch_pref.feedback import Rankings
from botorch_pref.models import PreferenceGP

PEOPLE, LEARN, FOLDS = 300, 50, 3

Table = FeedbackData[Rankings]


def sushi_rows(folder: str) -> list[list[object]]:
    """Rankings of people who were not met, of both sets.

    Args:
        folder: With the files that ``load_sushi`` reads.
    """
    predictors = {
        "uniform": uniform,
        "logit, Laplace": logit("laplace"),
        "logit, variational": logit("variational"),
        "EP, Thurstone": process(EPPreferenceGP),
        "Plackett-Luce, Laplace": process(LaplacePreferenceGP, softmax=True),
        "Plackett-Luce, variational": process(VariationalPreferenceGP, softmax=True),
    }
    rows = []
    for which in ("a", "b"):
        data = load_sushi(folder, which)
        drawn = torch.randperm(len(data), generator=Generator().manual_seed(0))
        data = data.subset(drawn[:PEOPLE])
        folds = rater_folds(data, FOLDS)
        rows += score_rows(f"SUSHI, set {which.upper()}", data, folds, predictors)
    return rows


def uniform(train: Table, test: Table) -> Prediction:
    """All orders alike."""
    lengths = (test.feedback.orders >= 0).sum(-1).double()
    half = torch.full_like(lengths, 0.5)
    return Prediction(-torch.lgamma(lengths + 1), half)


def logit(inference: str) -> Predict:
    """Plackett-Luce on the features, whose scale the evidence chooses.

    Args:
        inference: ``"laplace"`` or ``"variational"``.
    """

    def predict(train: Table, test: Table) -> Prediction:
        model, points = fitted_regression(train, test, inference)
        return predicted(model, test.feedback, points)

    return predict


def process(model_class: type[PreferenceGP], softmax: bool = False) -> Predict:
    """A Gaussian process.

    Args:
        model_class: The engine.
        softmax: Whether noise is Plackett and Luce's, or Thurstone's.
    """

    def predict(train: Table, test: Table) -> Prediction:
        options: dict[str, Any] = {}
        if softmax:
            options["likelihood"] = PlackettLuceLikelihood()
        model = fitted(model_class, train, LEARN, **options)
        return predicted(model, test.feedback, test.datapoints)

    return predict


@torch.no_grad()
def predicted(model: Any, rankings: Rankings, datapoints: Tensor) -> Prediction:
    """Prediction of rankings, and the pairs that mean utilities put right.

    Args:
        model: Fitted.
        rankings: Held out.
        datapoints: What they point into.
    """
    orders = rankings.orders
    utilities = mean_utilities(model, datapoints)[orders]
    gaps = utilities.unsqueeze(-1) - utilities.unsqueeze(-2)
    # Padding comes last, so the lower one of a pair tells whether there is one.
    pairs = torch.ones_like(gaps).triu(1) * (orders >= 0).unsqueeze(-2)
    right = torch.where(gaps == 0, 0.5, (gaps > 0).double())
    share = (right * pairs).sum((-2, -1)) / pairs.sum((-2, -1))
    log_probability = predictive_log_probability(rankings, model, datapoints)
    return Prediction(log_probability, share)
