"""Held-out choices of one out of a set: of vehicles, and of ways to travel."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from gpytorch.kernels import Kernel, LinearKernel, RBFKernel, ScaleKernel
from gpytorch.priors import GammaPrior, LogNormalPrior
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
    SkewPreferenceGP,
    VariationalPreferenceGP,
)
from botorch_pref.datasets import FeedbackData, load_car, load_travel_mode
from botorch_pref.evaluation import predictive_log_probability
from botorch_pref.feedback import Choices
from botorch_pref.models import PreferenceGP

Table = FeedbackData[Choices]
CAR_PEOPLE, CAR_LEARN, CAR_FOLDS = 450, 100, 3
TRAVEL_LEARN, TRAVEL_FOLDS = 200, 5
WAIT = "wait"


def car_rows() -> list[list[object]]:
    """Choices of one vehicle out of six, of ``CAR_PEOPLE`` people drawn at random."""
    data = load_car()
    drawn = torch.randperm(len(data), generator=Generator().manual_seed(0))
    data = data.subset(drawn[:CAR_PEOPLE])
    predictors = {
        **baselines(),
        "EP": gaussian_process(EPPreferenceGP, CAR_LEARN),
        "EP, one lengthscale": gaussian_process(
            EPPreferenceGP, CAR_LEARN, one_lengthscale
        ),
        "EP, linear kernel": gaussian_process(EPPreferenceGP, CAR_LEARN, linear),
        "Plackett-Luce, Laplace": softmax_process(LaplacePreferenceGP, CAR_LEARN),
        "Plackett-Luce, variational": softmax_process(
            VariationalPreferenceGP, CAR_LEARN
        ),
    }
    return score_rows("Car", data, rater_folds(data, CAR_FOLDS), predictors)


def travel_rows() -> list[list[object]]:
    """Choices of one way to travel out of four.

    Once without the waiting time, which gives the answer away: those of all modes that
    a traveller did not choose have two values a mode, those of chosen ones many.
    """
    data = load_travel_mode()
    folds = rater_folds(data, TRAVEL_FOLDS)
    predictors = {
        **baselines(),
        "EP": gaussian_process(EPPreferenceGP, TRAVEL_LEARN),
        "EP, linear kernel": gaussian_process(EPPreferenceGP, TRAVEL_LEARN, linear),
        "SkewGP": gaussian_process(SkewPreferenceGP, TRAVEL_LEARN),
        "Plackett-Luce, Laplace": softmax_process(LaplacePreferenceGP, TRAVEL_LEARN),
        "Plackett-Luce, variational": softmax_process(
            VariationalPreferenceGP, TRAVEL_LEARN
        ),
    }
    leaky = {name: predictors[name] for name in ("uniform", "logit, Laplace", "EP")}
    return score_rows(
        "TravelMode without wait", without_feature(data, WAIT), folds, predictors
    ) + score_rows("TravelMode", data, folds, leaky)


def baselines() -> dict[str, Predict]:
    """Chance, how often each place in the set is chosen, and multinomial logit."""
    return {
        "uniform": uniform,
        "place in the set": place_frequencies,
        "logit, Laplace": logit("laplace"),
        "logit, variational": logit("variational"),
    }


def without_feature(data: Table, name: str) -> Table:
    """The same answers about items with one feature less.

    Args:
        data: The answers.
        name: Of the feature.
    """
    kept = [i for i, other in enumerate(data.feature_names) if other != name]
    return FeedbackData(
        data.datapoints[:, kept],
        data.feedback,
        tuple(data.feature_names[i] for i in kept),
        data.raters,
    )


def chosen_places(choices: Choices) -> Tensor:
    """Places of the chosen items in their sets."""
    return (choices.sets == choices.chosen.unsqueeze(-1)).long().argmax(-1)


def uniform(train: Table, test: Table) -> Prediction:
    """All items alike."""
    sizes = (test.feedback.sets >= 0).sum(-1).double()
    return Prediction(-sizes.log(), 1 / sizes)


def place_frequencies(train: Table, test: Table) -> Prediction:
    """Frequencies of places in training, each counted once more."""
    num_places = train.feedback.sets.shape[-1]
    counts = 1.0 + chosen_places(train.feedback).bincount(minlength=num_places)
    places = chosen_places(test.feedback)
    log_share = (counts / counts.sum()).double().log()
    return Prediction(log_share[places], (places == counts.argmax()).double())


def logit(inference: str) -> Predict:
    """Multinomial logit with Gaussian weights, whose scale the evidence chooses.

    Args:
        inference: ``"laplace"`` or ``"variational"``.
    """

    def predict(train: Table, test: Table) -> Prediction:
        model, points = fitted_regression(train, test, inference)
        return predicted(model, test.feedback, points)

    return predict


def gaussian_process(
    model_class: type[PreferenceGP],
    num_learn: int,
    kernel: Callable[[int], Kernel] | None = None,
) -> Predict:
    """Predictor by a Gaussian process under Thurstone's noise.

    Args:
        model_class: The engine.
        num_learn: From how many choices hyper-parameters are learned.
        kernel: Makes one for so many features; the default one if None.
    """

    def predict(train: Table, test: Table) -> Prediction:
        options: dict[str, Any] = {}
        if kernel is not None:
            options["covar_module"] = kernel(train.datapoints.shape[-1])
        model = fitted(model_class, train, num_learn, **options)
        return predicted(model, test.feedback, test.datapoints)

    return predict


def one_lengthscale(dim: int) -> Kernel:
    """The default kernel and its priors, but for a lengthscale shared by all features.

    Args:
        dim: Number of features.
    """
    prior = LogNormalPrior(2**0.5 + 0.5 * math.log(dim), 3**0.5)
    base = RBFKernel(lengthscale_prior=prior)
    base.lengthscale = prior.mode
    return ScaleKernel(base, outputscale_prior=GammaPrior(2.0, 0.15))


def linear(dim: int) -> Kernel:
    """Kernel of utilities that are linear in the features, as those of logit are.

    Args:
        dim: Number of features, which does not matter.
    """
    return LinearKernel()


def softmax_process(model_class: type[PreferenceGP], num_learn: int) -> Predict:
    """Predictor by a Gaussian process under softmax noise.

    Args:
        model_class: The engine.
        num_learn: From how many choices hyper-parameters are learned.
    """

    def predict(train: Table, test: Table) -> Prediction:
        likelihood = PlackettLuceLikelihood()
        model = fitted(model_class, train, num_learn, likelihood=likelihood)
        return predicted(model, test.feedback, test.datapoints)

    return predict


@torch.no_grad()
def predicted(model: Any, choices: Choices, datapoints: Tensor) -> Prediction:
    """Prediction of choices; the answer is the item of largest mean utility.

    Args:
        model: Fitted.
        choices: Held out.
        datapoints: What they point into.
    """
    utilities = mean_utilities(model, datapoints)[choices.sets]
    utilities = utilities.masked_fill(choices.sets < 0, -math.inf)
    right = utilities.argmax(-1) == chosen_places(choices)
    log_probability = predictive_log_probability(choices, model, datapoints)
    return Prediction(log_probability, right.double())
