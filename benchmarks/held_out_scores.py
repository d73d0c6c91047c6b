"""Held-out scores of answers of any kind, and models fitted as they come."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models.transforms.input import InputStandardize, Normalize
from choice_scores import HeldOut
from report import seconds
from torch import Generator, Tensor

from botorch_pref import PlackettLuceRegression, PreferenceMarginalLogLikelihood
from botorch_pref.datasets import FeedbackData, assign_folds
from botorch_pref.models import PreferenceGP

HEADER = (
    "data",
    "model",
    "log-loss",
    "s.e.",
    "gain",
    "s.e.",
    "accuracy",
    "RMSE",
    "seconds a fold",
)


@dataclass(frozen=True)
class Prediction:
    """Predictions of a model for held-out answers.

    Attributes:
        log_probability: ``m`` log probabilities, or densities, of the answers.
        right: ``m`` shares of the answer that the likeliest prediction has right.
        squared_error: ``m``, of the expected answer, where answers are numbers.
    """

    log_probability: Tensor
    right: Tensor | None = None
    squared_error: Tensor | None = None


Predict = Callable[[FeedbackData[Any], FeedbackData[Any]], Prediction]
"""Maps training answers and held-out ones to what is said of the latter."""


def score_rows(
    title: str,
    data: FeedbackData[Any],
    folds: Tensor,
    predictors: Mapping[str, Predict],
) -> list[list[object]]:
    """Rows of the table: each predictor on every fold.

    Args:
        title: Of the data.
        data: All answers.
        folds: ``m`` long fold numbers.
        predictors: By name; gains are over the first.
    """
    rows: list[list[object]] = []
    reference: HeldOut | None = None
    for name, predict in predictors.items():
        found: list[Prediction] = []
        taken = seconds(lambda p=predict, f=found: f.extend(_folds(data, folds, p)))
        order = torch.cat([(folds == k).nonzero()[:, 0] for k in folds.unique()])
        log_probability = _joined(found, "log_probability")
        held_out = HeldOut(log_probability, _groups(data)[order])
        reference = reference or held_out
        gain = held_out.gain_over(reference)
        loss, error = held_out.log_loss, held_out.gain_over(_certain(held_out))[1]
        right, square = _joined(found, "right"), _joined(found, "squared_error")
        rows.append(
            [
                title,
                name,
                loss,
                error,
                *(gain if held_out is not reference else ("", "")),
                "" if right is None else float(right.mean()),
                "" if square is None else math.sqrt(float(square.mean())),
                taken / len(found),
            ]
        )
        print(*(told(cell) for cell in rows[-1]), flush=True)
    return rows


def told(cell: object) -> str:
    """Four decimals for numbers, aligned; words as they are.

    Args:
        cell: Of a row.
    """
    return f"{cell:8.4f}" if isinstance(cell, float) else str(cell)


def _folds(
    data: FeedbackData[Any], folds: Tensor, predict: Predict
) -> list[Prediction]:
    return [
        predict(data.subset(folds != k), data.subset(folds == k))
        for k in folds.unique()
    ]


def _joined(found: list[Prediction], field: str) -> Any:
    parts = [getattr(prediction, field) for prediction in found]
    return None if parts[0] is None else torch.cat(parts).detach()


def _groups(data: FeedbackData[Any]) -> Tensor:
    if data.raters is None:
        return torch.arange(len(data))
    return torch.unique(data.raters, return_inverse=True)[1]


def _certain(held_out: HeldOut) -> HeldOut:
    return HeldOut(torch.zeros_like(held_out.log_probability), held_out.groups)


def answer_folds(data: FeedbackData[Any], num_folds: int) -> Tensor:
    """Folds of answers, of raters that are met in training too."""
    anonymous = FeedbackData(data.datapoints, data.feedback, data.feature_names)
    return assign_folds(anonymous, num_folds, Generator().manual_seed(0))


def rater_folds(data: FeedbackData[Any], num_folds: int) -> Tensor:
    """Folds of raters."""
    return assign_folds(data, num_folds, Generator().manual_seed(0))


def scaling(datapoints: Tensor) -> Normalize:
    """Maps the range of each feature to the unit interval."""
    low, high = datapoints.amin(0), datapoints.amax(0)
    high = torch.where(high > low, high, low + 1)
    return Normalize(len(low), bounds=torch.stack([low, high]))


def fitted(
    model_class: type[PreferenceGP],
    train: FeedbackData[Any],
    num_learn: int,
    *,
    scale: bool = True,
    **options: Any,
) -> PreferenceGP:
    """A model as it comes, hyper-parameters being learned from a share of the answers.

    Args:
        model_class: The engine.
        train: The answers; the posterior uses them all.
        num_learn: From how many, drawn at random, hyper-parameters are learned.
        scale: Whether features are mapped to the unit interval.
        options: Of the model.
    """
    drawn = torch.randperm(len(train), generator=Generator().manual_seed(1))
    few = train if len(train) <= num_learn else train.subset(drawn[:num_learn])
    transform = scaling(train.datapoints) if scale else None
    model = model_class(
        few.datapoints,
        feedback=[few.feedback],
        input_transform=transform,
        **options,
    )
    fit_gpytorch_mll(PreferenceMarginalLogLikelihood(model.likelihood, model))
    if few is train:
        return model.eval()
    return model_class(
        train.datapoints,
        feedback=[train.feedback],
        input_transform=transform,
        likelihood=model.likelihood,
        mean_module=model.mean_module,
        covar_module=model.covar_module,
    ).eval()


def fitted_regression(
    train: FeedbackData[Any], test: FeedbackData[Any], inference: str
) -> tuple[PlackettLuceRegression, Tensor]:
    """Plackett-Luce on standardised features; the evidence chooses the prior's scale.

    Args:
        train: Choices or rankings.
        test: Held out.
        inference: ``"laplace"`` or ``"variational"``.

    Returns:
        The model, and the held-out points as it takes them: features that are the same
        for all items say nothing and have no standard deviation.
    """
    varies = train.datapoints.std(0) > 0
    model = PlackettLuceRegression(
        train.datapoints[:, varies],
        feedback=[train.feedback],
        inference=inference,
        input_transform=InputStandardize(int(varies.sum())),
    )
    fit_gpytorch_mll(PreferenceMarginalLogLikelihood(model.likelihood, model))
    return model, test.datapoints[:, varies]


@torch.no_grad()
def mean_utilities(model: Any, datapoints: Tensor) -> Tensor:
    """Posterior means at ``n`` points, each by itself.

    Args:
        model: Of utilities.
        datapoints: ``n x d``.
    """
    return model.posterior(datapoints.unsqueeze(-2)).mean[..., 0, 0]
