"""Preference models as predictors of comparisons of items with features."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models.model import Model
from botorch.models.pairwise_gp import PairwiseGP, PairwiseLaplaceMarginalLogLikelihood
from botorch.models.transforms.input import Normalize
from linear_operator.utils.warnings import NumericalWarning
from torch import Generator, Tensor
from torch.special import log_ndtr

from botorch_pref.datasets import ComparisonData
from botorch_pref.evaluation.held_out.held_out import Predictor
from botorch_pref.models import PreferenceGP, PreferenceMarginalLogLikelihood

MAX_LEARN = 500
"""Comparisons, drawn at random, from which kernel parameters are learned; the posterior
uses all."""


def fit_preference_gp(
    model_class: type[PreferenceGP], train: ComparisonData, generator: Generator
) -> PreferenceGP:
    """Fits a model of this package with its defaults, on features scaled to [0, 1].

    Kernel parameters are learned from at most `MAX_LEARN` comparisons: a Cholesky takes
    the cube of their number and learning needs hundreds. The posterior uses them all.

    Args:
        model_class: The model.
        train: The comparisons.
        generator: Source of the draw of comparisons.

    Returns:
        The model of all comparisons.
    """
    scaling = _scaling(train)
    drawn = torch.randperm(len(train), generator=generator)[:MAX_LEARN]
    few = train if len(train) <= MAX_LEARN else train.subset(drawn)
    model = model_class(few.datapoints, few.feedback, input_transform=scaling)
    fit_gpytorch_mll(PreferenceMarginalLogLikelihood(model.likelihood, model))
    if few is train:
        return model
    # A draw without ties has learned no threshold of ties to take over.
    alike = bool(few.decided.all()) == bool(train.decided.all())
    return model_class(
        train.datapoints,
        train.feedback,
        likelihood=model.likelihood if alike else None,
        covar_module=model.covar_module,
        input_transform=scaling,
    )


def fit_pairwise_gp(train: ComparisonData) -> PairwiseGP:
    """Fits BoTorch's `PairwiseGP` as its tutorial does.

    Args:
        train: The comparisons; it knows no ties and is not told of them.

    Returns:
        The fitted model.
    """
    decided = train.subset(train.decided)
    model = PairwiseGP(
        decided.datapoints, decided.comparisons, input_transform=_scaling(train)
    )
    fit_gpytorch_mll(PairwiseLaplaceMarginalLogLikelihood(model.likelihood, model))
    return model


def _scaling(train: ComparisonData) -> Normalize:
    """Input transform that maps the range of each feature to the unit interval."""
    low, high = train.datapoints.amin(0), train.datapoints.amax(0)
    high = torch.where(high > low, high, low + 1)
    return Normalize(len(low), bounds=torch.stack([low, high]))


def predict_with(fit: Callable[[ComparisonData], Model]) -> Predictor:
    """Predictor of held-out answers, from a function that fits a model.

    A utility difference with posterior mean `m` and variance `s^2` is answered in
    favour of the first with probability `Phi(m / sqrt(s^2 + 2))` under unit noise, if
    it is no tie.

    Args:
        fit: Fits a model; one of ours, or one with a joint Gaussian posterior and
            unit noise per presented item.

    Returns:
        The predictor.
    """

    def predict(train: ComparisonData, first: Tensor, second: Tensor) -> Tensor:
        model = fit(train)
        with torch.no_grad():
            if isinstance(model, PreferenceGP):
                wins, loses = (
                    model.duel_probability(*pair, observation_noise=True)
                    for pair in ((first, second), (second, first))
                )
                # What is left is the probability of a tie.
                return wins.log() - (wins + loses).log()
            return _unit_noise_log_probability(model, first, second)

    return predict


def _unit_noise_log_probability(model: Model, first: Tensor, second: Tensor) -> Tensor:
    with warnings.catch_warnings():
        # PairwiseGP factors the joint covariance of all points, singular where they
        # are alike, and adds 1e-6 to it: nothing beside the unit noise of an answer.
        warnings.simplefilter("ignore", NumericalWarning)
        # Any: BoTorch's base class declares neither mean nor covariance.
        posterior: Any = model.posterior(torch.cat([first, second]))
    mean_first, mean_second = posterior.mean.squeeze(-1).chunk(2)
    covariance = posterior.distribution.covariance_matrix
    var_first, var_second = covariance.diagonal().chunk(2)
    between = covariance.diagonal(offset=len(first))
    variance = var_first + var_second - 2 * between
    return log_ndtr((mean_first - mean_second) / (variance + 2).sqrt())
