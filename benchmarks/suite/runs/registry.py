"""Models and acquisition functions of a loop of duels, by name."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from gpytorch.constraints import GreaterThan
from gpytorch.priors import LogNormalPrior
from torch import Tensor

from botorch_pref.acquisition import DistinctOptions, incumbent
from botorch_pref.acquisition.registration import (
    RegisteredAcquisition,
    registered_acquisitions,
)
from botorch_pref.evaluation.scores import fit_by_evidence
from botorch_pref.feedback import Comparisons
from botorch_pref.likelihoods import PairwiseProbitLikelihood
from botorch_pref.likelihoods.protocol import in_spreads
from botorch_pref.models import (
    DuelKernel,
    EPPreferenceGP,
    LaplacePreferenceGP,
    PreferenceGP,
    SkewPreferenceGP,
)
from botorch_pref.models.answer_likelihoods import registered_models
from botorch_pref.simulation.duel_loop import Fit, MakeAcquisition

LOOP_DRAWS = 256
"""Draws of SkewGP in a loop of duels: choosing the next one needs no more."""

IMPROVEMENT_WEIGHT = 0.2
"""The `k` of EIIG: less loses precision at the end, more stays at wrong humps more
often (`docs/logbook/claims.md`)."""

NOISE = 1e-3
"""Of the likelihood where the judge never errs: EP learns it from here on."""

_NOISE_SPREAD, _LEAST_NOISE = 5.0, 1e-8

HUMAN_NOISE = 1.0
"""Of the likelihood where she errs: the library's own, beside which the output scale is
learned."""

MODELS: dict[str, type[PreferenceGP]] = {
    entry.name: entry.cls
    for entry in registered_models()
    if entry.name is not None and issubclass(entry.cls, PreferenceGP)
}
"""Models of a judge, by name."""


def _ways(entry: RegisteredAcquisition) -> dict[str, MakeAcquisition]:
    """The ways to make an acquisition function, by name."""
    options: dict[str, Any] = {"k": IMPROVEMENT_WEIGHT} if entry.name == "eiig" else {}
    make: Callable[..., AcquisitionFunction] = partial(entry.cls, **options)
    reference = entry.reference
    if reference is None:
        return {entry.name: make, f"{entry.name}-pair": lambda model, _: make(model)}
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


def exact_likelihood(
    tie_threshold: float | None = None, batch_shape: Sequence[int] = ()
) -> PairwiseProbitLikelihood:
    """The likelihood of a judge who never errs, with noise that the evidence learns.

    Each answer about a difference that the model takes for noise, and that agrees with
    the others, lowers the noise. So questions become as fine as what is left to gain.
    A fixed noise would call them coins, and `DistinctOptions` would not let them be
    asked. The prior is flat over many powers of ten; below 1e-8 of noise, beside an
    output scale of about ten, EP would need hundreds of sweeps. Where there are ties,
    their threshold begins at ``tie_threshold``.
    """
    mode = math.log(NOISE) + _NOISE_SPREAD**2
    likelihood = PairwiseProbitLikelihood(
        torch.full(tuple(batch_shape), NOISE, dtype=torch.double),
        tie_threshold,
        noise_prior=LogNormalPrior(mode, _NOISE_SPREAD),
    )
    # Else a fit spends half of its evaluations on the last digits of the noise.
    likelihood.register_constraint(
        "raw_noise", GreaterThan(_LEAST_NOISE, **in_spreads(_NOISE_SPREAD))
    )
    likelihood.noise = NOISE
    return likelihood


def make_fit(name: str, *, errs: bool = False) -> Fit:
    """The function that fits one of `MODELS` to a judge who errs at times, or never."""
    model_class = MODELS[name]
    if model_class is EPPreferenceGP and not errs:
        return fit_with_noise(model_class, None)
    # Laplace's method is far from exact where answers leave little room: with little
    # noise its rules ask the same question again and again (`docs/logbook/claims.md`).
    little_noise = not errs and model_class is not LaplacePreferenceGP
    return fit_with_noise(model_class, NOISE if little_noise else HUMAN_NOISE)


def fit_with_noise(model_class: type[PreferenceGP], noise: float | None) -> Fit:
    """The function that fits a model whose likelihood has this noise per item.

    It is learned where it is None, and so is a tie threshold where there are ties.
    """
    make: Callable[..., PreferenceGP] = model_class
    if model_class is SkewPreferenceGP:
        make = partial(SkewPreferenceGP, num_draws=LOOP_DRAWS)

    def fit(datapoints: Tensor, comparisons: Comparisons) -> PreferenceGP:
        begin = NOISE if noise is None else noise
        threshold = None if comparisons.ties is None else 0.5 * begin**0.5
        if noise is None:
            likelihood = exact_likelihood(threshold)
        else:
            likelihood = PairwiseProbitLikelihood(noise, threshold)
        kernel = DuelKernel(datapoints.shape[-1])
        model = make(
            datapoints, comparisons, likelihood=likelihood, covar_module=kernel
        )
        fit_by_evidence(model)
        return model

    return fit
