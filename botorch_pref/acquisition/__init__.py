"""Acquisition functions of duels: with the best point so far, or of new points."""

from botorch_pref.acquisition.dueling_acquisition import (
    DifferenceAcquisition,
    DuelingAcquisition,
)
from botorch_pref.acquisition.dueling_bald import DuelingBALD
from botorch_pref.acquisition.dueling_eiig import DuelingEIIG
from botorch_pref.acquisition.dueling_eubo import DuelingEUBO
from botorch_pref.acquisition.dueling_exploring_eiig import DuelingExploringEIIG
from botorch_pref.acquisition.dueling_hallucination import DuelingHBEI, DuelingHBUCB
from botorch_pref.acquisition.dueling_kg import DuelingKG
from botorch_pref.acquisition.dueling_muc import DuelingMUC
from botorch_pref.acquisition.dueling_tailed_ei import DuelingTailedEI
from botorch_pref.acquisition.dueling_thompson import DuelingThompson
from botorch_pref.acquisition.dueling_ucb import DuelingUCB
from botorch_pref.acquisition.reference.incumbent import (
    incumbent,
    incumbent_index,
)
from botorch_pref.acquisition.reference.observed_points import (
    champion,
    champion_index,
)
from botorch_pref.acquisition.registration.registry import register_acquisition
from botorch_pref.acquisition.wrappers.chance_constrained import ChanceConstrained
from botorch_pref.acquisition.wrappers.distinct_options import DistinctOptions
from botorch_pref.acquisition.wrappers.feasibility_weighted import FeasibilityWeighted
from botorch_pref.acquisition.wrappers.hallucinated_model import HallucinatedModel

__all__ = [
    "ChanceConstrained",
    "DifferenceAcquisition",
    "DistinctOptions",
    "DuelingAcquisition",
    "DuelingBALD",
    "DuelingEIIG",
    "DuelingEUBO",
    "DuelingExploringEIIG",
    "DuelingHBEI",
    "DuelingHBUCB",
    "DuelingKG",
    "DuelingMUC",
    "DuelingTailedEI",
    "DuelingThompson",
    "DuelingUCB",
    "FeasibilityWeighted",
    "HallucinatedModel",
    "champion",
    "champion_index",
    "incumbent",
    "incumbent_index",
    "register_acquisition",
]
