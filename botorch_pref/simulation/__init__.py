"""Preferential optimisation of known functions with a simulated judge."""

from botorch_pref.simulation.duel_loop import (
    ChosenDuels,
    Duel,
    Proposal,
    Propose,
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
from botorch_pref.simulation.question_loop import (
    RankedQuestion,
    RunSettings,
    run_questions,
)

__all__ = [
    "ChosenDuels",
    "DriftingJudge",
    "Duel",
    "Judge",
    "LapsingJudge",
    "LogisticJudge",
    "Panel",
    "Parameter",
    "ProbitJudge",
    "Problem",
    "Proposal",
    "Propose",
    "RankedQuestion",
    "RunSettings",
    "SumLimit",
    "make_problem",
    "run_duels",
    "run_questions",
]
