"""Acquisition functions of duels: with the best point so far, or of new points."""

from botorch_pref.acquisition.catalogue import informative_pairs
from botorch_pref.acquisition.duels import (
    DifferenceAcquisition,
    DuelingAcquisition,
    champion,
    champion_index,
    incumbent,
    incumbent_index,
)
from botorch_pref.acquisition.exploring_rule import (
    DistinctOptions,
    DuelingEIIG,
    DuelingExploringEIIG,
    DuelingTailedEI,
)
from botorch_pref.acquisition.knowledge_gradient import (
    DuelingJointKG,
    DuelingKG,
    likely_best,
)
from botorch_pref.acquisition.recommendation import Recommendation, recommend
from botorch_pref.acquisition.registration import register_acquisition
from botorch_pref.acquisition.rules import (
    DuelingBALD,
    DuelingEUBO,
    DuelingJointEUBO,
    DuelingMUC,
    DuelingUCB,
)
from botorch_pref.acquisition.thompson import (
    DuelingHBEI,
    DuelingHBUCB,
    DuelingThompson,
    HallucinatedModel,
)
from botorch_pref.acquisition.validity import ChanceConstrained, FeasibilityWeighted

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
    "DuelingJointEUBO",
    "DuelingJointKG",
    "DuelingKG",
    "DuelingMUC",
    "DuelingTailedEI",
    "DuelingThompson",
    "DuelingUCB",
    "FeasibilityWeighted",
    "HallucinatedModel",
    "Recommendation",
    "champion",
    "champion_index",
    "incumbent",
    "incumbent_index",
    "informative_pairs",
    "likely_best",
    "recommend",
    "register_acquisition",
]
