"""Names that the command line gives to models and acquisition functions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.fit import fit_gpytorch_mll
from torch import Tensor

from botorch_pref.acquisition import (
    DuelingBALD,
    DuelingEIIG,
    DuelingEUBO,
    DuelingHBEI,
    DuelingHBUCB,
    DuelingKG,
    DuelingMUC,
    DuelingThompson,
    DuelingUCB,
    champion,
)
from botorch_pref.likelihoods import PairwiseProbitLikelihood
from botorch_pref.models import (
    EPPreferenceGP,
    LaplacePreferenceGP,
    PreferenceGP,
    PreferenceMarginalLogLikelihood,
    SkewPreferenceGP,
)
from botorch_pref.simulation.duel_loop import Fit
from botorch_pref.simulation.proposals import MakeAcquisition

LOOP_DRAWS = 256
"""Draws of SkewGP in a loop of duels: choosing the next one needs no more."""

MODELS: dict[str, type[PreferenceGP]] = {
    "ep": EPPreferenceGP,
    "skew": SkewPreferenceGP,
    "laplace": LaplacePreferenceGP,
}

IMPROVEMENT_WEIGHT = 0.2
"""The `k` of EIIG: less loses precision at the end, more stays at wrong humps more
often; `benchmarks/regret.py` measures it."""

NOISE = 1e-3
"""Of the likelihood: the judge is taken at her word until the output scale, which is
learned, shrinks towards it."""


def _by_itself(make: Callable[[PreferenceGP], AcquisitionFunction]) -> MakeAcquisition:
    """Leaves the opponent to the acquisition function."""
    return lambda model, X_ref: make(model)


ACQUISITIONS: dict[str, MakeAcquisition] = {
    "ucb": DuelingUCB,
    "thompson": DuelingThompson,
    "eiig": partial(DuelingEIIG, k=IMPROVEMENT_WEIGHT),
    "eubo": DuelingEUBO,
    "bald": DuelingBALD,
    "kg": DuelingKG,
    "muc": _by_itself(lambda model: DuelingMUC(model, champion(model))),
    "hbei": DuelingHBEI,
    "hbucb": DuelingHBUCB,
    "eubo-pair": _by_itself(DuelingEUBO),
    "bald-pair": _by_itself(DuelingBALD),
    "kg-pair": _by_itself(DuelingKG),
}
"""Those named ``-pair`` choose both points of a duel."""


def make_fit(name: str) -> Fit:
    """Makes the function that fits a model of a name to points and comparisons."""
    make: Callable[..., PreferenceGP] = MODELS[name]
    if make is SkewPreferenceGP:
        make = partial(SkewPreferenceGP, num_draws=LOOP_DRAWS)

    def fit(datapoints: Tensor, comparisons: Tensor) -> PreferenceGP:
        likelihood = PairwiseProbitLikelihood(noise=NOISE)
        model = make(datapoints, comparisons, likelihood=likelihood)
        fit_gpytorch_mll(PreferenceMarginalLogLikelihood(model.likelihood, model))
        return model

    return fit
