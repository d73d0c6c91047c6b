"""Models and acquisition functions of a loop of duels, by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.fit import fit_gpytorch_mll
from torch import Tensor

from botorch_pref.acquisition import DistinctOptions, incumbent
from botorch_pref.acquisition.registration import (
    RegisteredAcquisition,
    registered_acquisitions,
)
from botorch_pref.feedback import Comparisons
from botorch_pref.likelihoods import PairwiseProbitLikelihood
from botorch_pref.models import (
    DuelKernel,
    LaplacePreferenceGP,
    PreferenceGP,
    PreferenceMarginalLogLikelihood,
    SkewPreferenceGP,
)
from botorch_pref.models.answers import registered_models
from botorch_pref.simulation.duel_loop import Fit, MakeAcquisition

LOOP_DRAWS = 256
"""Draws of SkewGP in a loop of duels: choosing the next one needs no more."""

IMPROVEMENT_WEIGHT = 0.2
"""The `k` of EIIG: less loses precision at the end, more stays at wrong humps more
often (`docs/benchmarks.md`)."""

NOISE = 1e-3
"""Of the likelihood where the judge never errs: she is taken at her word until the
output scale, which is learned, shrinks towards it."""

HUMAN_NOISE = 1.0
"""Of the likelihood where she errs: the library's own, beside which the output scale is
learned."""

MODELS: dict[str, type[PreferenceGP]] = {
    entry.name: entry.model_class
    for entry in registered_models()
    if entry.name is not None and issubclass(entry.model_class, PreferenceGP)
}
"""Models of a judge, by name."""


def _ways(entry: RegisteredAcquisition) -> dict[str, MakeAcquisition]:
    """The ways to make an acquisition function, by name."""
    options: dict[str, Any] = {"k": IMPROVEMENT_WEIGHT} if entry.name == "eiig" else {}
    make: Callable[..., AcquisitionFunction] = partial(
        entry.acquisition_class, **options
    )
    reference = entry.reference
    if reference is None:
        return {
            entry.name: make,
            f"{entry.name}-pair": lambda model, X_ref: make(model),
        }
    if reference is incumbent:
        return {entry.name: make}
    return {entry.name: lambda model, X_ref: make(model, reference(model))}


ACQUISITIONS: dict[str, MakeAcquisition] = {
    name: make
    for entry in registered_acquisitions()
    for name, make in _ways(entry).items()
}
"""Those named ``-pair`` choose both points of a duel."""


def distinct(make: MakeAcquisition) -> MakeAcquisition:
    """The same acquisition function, kept from options that nobody could tell apart."""
    return lambda model, X_ref: DistinctOptions(make(model, X_ref))


def make_fit(name: str, *, errs: bool = False) -> Fit:
    """The function that fits one of `MODELS` to a judge who errs at times, or never."""
    model_class = MODELS[name]
    # Laplace's method is far from exact where answers leave little room: with little
    # noise its rules ask the same question again and again (`docs/benchmarks.md`).
    little_noise = not errs and model_class is not LaplacePreferenceGP
    return fit_with_noise(model_class, NOISE if little_noise else HUMAN_NOISE)


def fit_with_noise(model_class: type[PreferenceGP], noise: float) -> Fit:
    """The function that fits a model whose likelihood has this noise per item.

    A tie threshold is learned where there are ties.
    """
    make: Callable[..., PreferenceGP] = model_class
    if model_class is SkewPreferenceGP:
        make = partial(SkewPreferenceGP, num_draws=LOOP_DRAWS)

    def fit(datapoints: Tensor, comparisons: Comparisons) -> PreferenceGP:
        threshold = None if comparisons.ties is None else 0.5 * noise**0.5
        likelihood = PairwiseProbitLikelihood(noise, threshold)
        kernel = DuelKernel(datapoints.shape[-1])
        model = make(
            datapoints, comparisons, likelihood=likelihood, covar_module=kernel
        )
        fit_gpytorch_mll(PreferenceMarginalLogLikelihood(model.likelihood, model))
        return model

    return fit
