"""Preferential optimisation of known functions with a simulated judge."""

from botorch_pref.simulation.duel_loop import (
    ChosenDuels,
    Duel,
    LoggedDuel,
    Proposal,
    Propose,
    RunSettings,
    run_duels,
)
from botorch_pref.simulation.judges import Judge, ProbitJudge
from botorch_pref.simulation.problems import Problem, make_problem

__all__ = [
    "ChosenDuels",
    "Duel",
    "Judge",
    "LoggedDuel",
    "ProbitJudge",
    "Problem",
    "Proposal",
    "Propose",
    "RunSettings",
    "make_problem",
    "run_duels",
]
