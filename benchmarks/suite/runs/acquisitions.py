"""Acquisition functions by name: what asks."""

from __future__ import annotations

from functools import partial

from botorch.models.model import Model
from torch import Tensor

from benchmarks.suite.runs.registry import ACQUISITIONS as REGISTERED
from benchmarks.suite.runs.registry import distinct
from benchmarks.suite.runs.rivals import qeubo
from botorch_pref.acquisition import (
    ChanceConstrained,
    DuelingEIIG,
    DuelingEUBO,
    FeasibilityWeighted,
    HallucinatedModel,
    champion,
)
from botorch_pref.models import PreferenceGP
from botorch_pref.simulation.duel_loop import MakeAcquisition


def best_under_the_draw(model: PreferenceGP, X_ref: Tensor) -> DuelingEUBO:
    """A believer's expected improvement over the best point of the draw itself."""
    believed = HallucinatedModel(model)
    return DuelingEUBO(believed, champion(believed))


def weighted(model: Model, X_ref: Tensor) -> FeasibilityWeighted:
    """Information of the default, weighted by the probability of a valid trial."""
    return FeasibilityWeighted(
        REGISTERED["eiig"](model, X_ref), model.feasibility_model
    )


def constrained(model: Model, X_ref: Tensor) -> ChanceConstrained:
    """The same, among points that are valid with probability 0.9."""
    return ChanceConstrained(REGISTERED["eiig"](model, X_ref), model.feasibility_model)


OURS: dict[str, MakeAcquisition] = {
    **REGISTERED,
    "eiig-0.1": partial(DuelingEIIG, k=0.1),
    "eiig-weighted": weighted,
    "eiig-constrained": constrained,
    "hbei-own-best": best_under_the_draw,
}

ACQUISITIONS: dict[str, MakeAcquisition] = {
    **{name: distinct(make) for name, make in OURS.items()},
    "qeubo": qeubo,
}
"""Those of the command line, and more, with its smallest difference; BoTorch's as it
is."""
