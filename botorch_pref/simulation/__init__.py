"""Preferential optimisation of known functions with a simulated judge."""

from botorch_pref.simulation.duel_loop import (
    ChosenDuels,
    Duel,
    Proposal,
    Propose,
    RecordedDuels,
    run_duels,
)
from botorch_pref.simulation.judges import Judge, ProbitJudge
from botorch_pref.simulation.problems import Problem, make_problem
from botorch_pref.simulation.run_log import (
    LoggedDuel,
    RunSettings,
    largest_difference,
    read_log,
)

__all__ = [
    "ChosenDuels",
    "Duel",
    "Judge",
    "LoggedDuel",
    "ProbitJudge",
    "Problem",
    "Proposal",
    "Propose",
    "RecordedDuels",
    "RunSettings",
    "largest_difference",
    "make_problem",
    "read_log",
    "run_duels",
]
