"""Names that the command line gives to models and acquisition functions."""

from __future__ import annotations

from botorch.fit import fit_gpytorch_mll
from torch import Tensor

from botorch_pref.acquisition import DuelingEIIG, DuelingThompson, DuelingUCB
from botorch_pref.models import (
    EPPreferenceGP,
    LaplacePreferenceGP,
    PreferenceGP,
    PreferenceMarginalLogLikelihood,
    SkewPreferenceGP,
)
from botorch_pref.simulation.duel_loop import Fit
from botorch_pref.simulation.proposals import MakeAcquisition

MODELS: dict[str, type[PreferenceGP]] = {
    "ep": EPPreferenceGP,
    "skew": SkewPreferenceGP,
    "laplace": LaplacePreferenceGP,
}

ACQUISITIONS: dict[str, MakeAcquisition] = {
    "ucb": DuelingUCB,
    "thompson": DuelingThompson,
    "eiig": DuelingEIIG,
}


def make_fit(name: str) -> Fit:
    """Makes the function that fits a model of a name to points and comparisons."""
    model_class = MODELS[name]

    def fit(datapoints: Tensor, comparisons: Tensor) -> PreferenceGP:
        model = model_class(datapoints, comparisons)
        fit_gpytorch_mll(PreferenceMarginalLogLikelihood(model.likelihood, model))
        return model

    return fit
