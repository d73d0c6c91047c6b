"""Models by name: what learns from the answers."""

from __future__ import annotations

from collections.abc import Callable

import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models.model import Model
from gpytorch.constraints import GreaterThan
from gpytorch.kernels import MaternKernel, RBFKernel, ScaleKernel
from gpytorch.priors import GammaPrior
from torch import Tensor

from benchmarks.suite.runs.kernels import stationary_kernel
from benchmarks.suite.runs.registry import NOISE, fit_with_noise, make_fit
from benchmarks.suite.runs.rivals import fit_pairwise_gp
from botorch_pref.feedback import Comparisons, Validity
from botorch_pref.likelihoods import PairwiseProbitLikelihood
from botorch_pref.models import (
    EPPreferenceGP,
    LaplacePreferenceGP,
    PreferenceGP,
    PreferenceMarginalLogLikelihood,
    SkewPreferenceGP,
)
from botorch_pref.simulation.duel_loop import Fit


def fit_rival_prior(datapoints: Tensor, comparisons: Comparisons) -> Model:
    """EP with the prior of optuna-dashboard: Matern-3/2, scale 1, learned noise."""
    dim = datapoints.shape[-1]
    kernel = MaternKernel(
        nu=1.5,
        ard_num_dims=dim,
        lengthscale_prior=GammaPrior(5.0, 10.0),
        lengthscale_constraint=GreaterThan(1e-4),
    )
    threshold = None if comparisons.ties is None else 0.1
    # Its Gamma(5, 50) is of the noise of a difference, twice that of an item.
    likelihood = PairwiseProbitLikelihood(
        0.05, threshold, noise_prior=GammaPrior(5.0, 100.0)
    )
    model = EPPreferenceGP(
        datapoints, comparisons, covar_module=kernel, likelihood=likelihood
    )
    fit_gpytorch_mll(PreferenceMarginalLogLikelihood(model.likelihood, model))
    return model


def known_fit(model_class: type[PreferenceGP]) -> Fit:
    """A model that keeps the hyper-parameters of Benavoli et al. (2021, section 4).

    A lengthscale of 0.35 on [-2.6, 2.6], and a kernel variance of 1 / 0.02 beside unit
    noise of a difference, with which the skewness that they print comes out.

    Args:
        model_class: The engine.
    """

    def fit(datapoints: Tensor, comparisons: Comparisons) -> Model:
        kernel = ScaleKernel(RBFKernel()).to(datapoints)
        kernel.outputscale = 1 / 0.02
        kernel.base_kernel.lengthscale = 0.35 / 5.2
        likelihood = PairwiseProbitLikelihood(noise=0.5)
        return model_class(
            datapoints, comparisons, covar_module=kernel, likelihood=likelihood
        ).eval()

    return fit


FitTrials = Callable[[Tensor, Comparisons, Validity], Model]
"""Fits a model that also hears which points are valid."""


def with_validity(fit: FitTrials, valid: Callable[[Tensor], Tensor]) -> Fit:
    """The function that fits a model to answers, ties among them, and to labels.

    A duel with a point that is not valid could not be answered, and is no tie.

    Args:
        fit: Fits the model.
        valid: Which of `n x d` points are valid.
    """

    def fit_valid(datapoints: Tensor, comparisons: Comparisons) -> Model | None:
        works = valid(datapoints)
        pairs, ties = (
            None
            if rows is None or not (kept := works[rows].all(-1)).any()
            else rows[kept]
            for rows in (comparisons.pairs, comparisons.ties)
        )
        if pairs is None and ties is None:
            return None
        labels = Validity(torch.arange(len(datapoints)), works)
        return fit(datapoints, Comparisons(pairs, ties), labels)

    return fit_valid


def mixed_fit(model_class: type[PreferenceGP]) -> FitTrials:
    """One utility, valid above zero (Benavoli et al. 2021, section 3.2).

    Kernel and noise of comparisons are those of the models that hear of a penalty.

    Args:
        model_class: The engine.
    """

    def fit(datapoints: Tensor, comparisons: Comparisons, validity: Validity) -> Model:
        model = model_class(
            datapoints,
            comparisons,
            feedback=[validity],
            likelihood={Comparisons: PairwiseProbitLikelihood(NOISE)},
            covar_module=stationary_kernel(datapoints.shape[-1]),
        )
        fit_gpytorch_mll(PreferenceMarginalLogLikelihood(model.likelihood, model))
        return model

    return fit


def fit_apart(
    datapoints: Tensor, comparisons: Comparisons, validity: Validity
) -> Model:
    """A utility of what was compared, and validity with a model of its own."""
    blocks = (comparisons.pairs, comparisons.ties)
    seen = torch.cat([block for block in blocks if block is not None]).unique()
    place = torch.full((len(datapoints),), -1)
    place[seen] = torch.arange(len(seen))
    compared = comparisons.map_tensors(lambda block: place[block])
    model = make_fit("ep")(datapoints[seen], compared)
    feasibility = EPPreferenceGP(datapoints, feedback=[validity])
    fit_gpytorch_mll(
        PreferenceMarginalLogLikelihood(feasibility.likelihood, feasibility)
    )
    model.feasibility_model = feasibility
    return model


TRIALS: dict[str, FitTrials] = {
    "ep-mixed": mixed_fit(EPPreferenceGP),
    "skew-mixed": mixed_fit(SkewPreferenceGP),
    "ep-apart": fit_apart,
}
"""Models that hear which trials are valid, by name; others hear of a penalty."""


def fit_default_prior(datapoints: Tensor, comparisons: Comparisons) -> Model:
    """EP with the kernel and the likelihood that models have where none are named."""
    model = EPPreferenceGP(datapoints, comparisons)
    fit_gpytorch_mll(PreferenceMarginalLogLikelihood(model.likelihood, model))
    return model


LEARNING = ("ep", "laplace", "skew")

MODELS: dict[str, Fit] = {
    "ep-known": known_fit(EPPreferenceGP),
    "laplace-known": known_fit(LaplacePreferenceGP),
    "laplace-little-noise": fit_with_noise(LaplacePreferenceGP, NOISE),
    "skew-known": known_fit(SkewPreferenceGP),
    "ep-default-prior": fit_default_prior,
    "ep-rival-prior": fit_rival_prior,
    "pairwise-gp": fit_pairwise_gp,
}
"""Models by name, beside those of `LEARNING`, which are as the command line makes them:
with the noise of a judge who never errs, or of one who does. ``-known`` ones do not
learn their hyper-parameters; ``laplace-little-noise`` has the noise that the command
line gives the others for a judge who never errs."""


def make_model(name: str, errs: bool) -> Fit | FitTrials:
    """The function that fits the model of a name.

    Args:
        name: One of `LEARNING`, `MODELS` or `TRIALS`.
        errs: Whether the judge errs.
    """
    if name in LEARNING:
        return make_fit(name, errs=errs)
    return (MODELS | TRIALS)[name]
