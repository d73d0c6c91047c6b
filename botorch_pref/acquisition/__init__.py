"""Acquisition functions of duels against the best point so far."""

from botorch_pref.acquisition import input_constructors as input_constructors
from botorch_pref.acquisition.dueling_eiig import DuelingEIIG
from botorch_pref.acquisition.dueling_thompson import DuelingThompson
from botorch_pref.acquisition.dueling_ucb import DuelingUCB
from botorch_pref.acquisition.feasibility_weighted import FeasibilityWeighted
from botorch_pref.acquisition.incumbent import incumbent

__all__ = [
    "DuelingEIIG",
    "DuelingThompson",
    "DuelingUCB",
    "FeasibilityWeighted",
    "incumbent",
]
