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
from botorch_pref.simulation.judges import (
    DriftingJudge,
    Judge,
    LapsingJudge,
    LogisticJudge,
    Panel,
    ProbitJudge,
)
from botorch_pref.simulation.problem import Parameter, Problem, SumLimit
from botorch_pref.simulation.problems import make_problem

__all__ = [
    "ChosenDuels",
    "DriftingJudge",
    "Duel",
    "Judge",
    "LapsingJudge",
    "LoggedDuel",
    "LogisticJudge",
    "Panel",
    "Parameter",
    "ProbitJudge",
    "Problem",
    "Proposal",
    "Propose",
    "RunSettings",
    "SumLimit",
    "make_problem",
    "run_duels",
]
