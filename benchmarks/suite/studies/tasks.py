"""Studies of problems that are like people's tasks, and of the 34 functions."""

from __future__ import annotations

from benchmarks.suite.cell import (
    GLISP,
    UNDERSTANDING,
    UNDERSTANDING_FIRST,
    Rule,
    Setting,
)
from benchmarks.suite.studies.claim import Claim
from benchmarks.suite.studies.own import (
    LAPSES,
    RANKED_FOUR,
    RELEVANCES,
    RELEVANT_PAIR,
    RELEVANT_RANKING,
)
from benchmarks.suite.studies.rules import (
    ADVISED,
    BESIDE_PEERS,
    DUELS,
    EXPLORING,
    PEERS,
)
from benchmarks.suite.studies.study import Study
from botorch_pref.simulation.problems import FAUVEL_CHALK_NAMES, make_problem
from botorch_pref.simulation.tasks import TASK_NAMES

RATES = (0.03, 0.1, 0.25)
"""Deviations of judges as shares of the range of a utility. They misjudge about 6, 16
and 26 % of pairs of random designs."""

JUDGED = ("bump", "choices", "parts")
"""Tasks that every kind of judge answers."""


def deviation(task: str, rate: float) -> float:
    """Deviation of a judge of a task, as a share of the range of its utility.

    Args:
        task: Its name.
        rate: The share.
    """
    problem = make_problem(task)
    assert problem.worst is not None
    return float(f"{rate * (problem.best - problem.worst):.3g}")


BESIDE_GLISP = (
    Claim("Two new points are better than GLISp.", RELEVANT_PAIR, GLISP),
    Claim(
        "To rank four is better than GLISp, question by question.",
        RELEVANT_RANKING,
        GLISP,
    ),
)

UNDERSTOOD = Claim(
    "What the library asks to find the best, duels, finds more than what it asks to "
    "understand.",
    DUELS,
    UNDERSTANDING,
)

UNDERSTOOD_FIRST = Claim(
    "Duels to understand, and then for the best, find more than duels for the best.",
    UNDERSTANDING_FIRST,
    DUELS,
)

OF_PEOPLE = (
    *(RELEVANT_PAIR, RELEVANT_RANKING, EXPLORING, LAPSES.better, ADVISED),
    *(*PEERS, GLISP, UNDERSTANDING, UNDERSTANDING_FIRST),
)

PEOPLE_TASKS = Study(
    "people-tasks",
    "What is found of utilities that are like people's: with parameters that do "
    "nothing, choices, plateaus, thresholds, steps and a constraint?",
    settings=tuple(
        Setting(task, *judge)
        for task in TASK_NAMES
        for judge in (("exact", 0.0), ("probit", deviation(task, RATES[1])))
    ),
    rules=OF_PEOPLE,
    reference=RELEVANT_PAIR,
    num_seeds=50,
    claims=(
        *(*BESIDE_PEERS, *BESIDE_GLISP, *RELEVANCES),
        *(LAPSES, RANKED_FOUR, UNDERSTOOD, UNDERSTOOD_FIRST),
    ),
)

PEOPLE_JUDGES = Study(
    "people-judges",
    "What is found with people who err more or less, look away, throw a coin, change "
    "their mind, favour what is shown first, or are several?",
    settings=tuple(
        Setting(task, *judge)
        for task in JUDGED
        for judge in (
            ("probit", deviation(task, RATES[0])),
            ("probit", deviation(task, RATES[2])),
            ("lapses", 0.2),
            ("coin", 0.0),
            *(
                (kind, deviation(task, RATES[1]))
                for kind in ("drift", "first", "panel")
            ),
        )
    ),
    rules=OF_PEOPLE,
    reference=RELEVANT_PAIR,
    num_seeds=50,
    claims=(*BESIDE_PEERS, *BESIDE_GLISP, *RELEVANCES, LAPSES, RANKED_FOUR),
)

FAUVEL_CHALK = Study(
    "fauvel-chalk",
    "Fauvel and Chalk (2021): are the library's rules ahead on their 34 functions?",
    settings=tuple(Setting(name) for name in FAUVEL_CHALK_NAMES),
    rules=(
        *(EXPLORING, Rule("ep-relevance", "exploring-eiig")),
        *(ADVISED, RELEVANT_RANKING, *PEERS, GLISP),
    ),
    reference=EXPLORING,
    num_seeds=50,
    claims=(
        *BESIDE_PEERS,
        Claim("The exploring rule is better than GLISp.", EXPLORING, GLISP),
        BESIDE_GLISP[1],
        Claim(
            "The exploring rule is better with relevances than with the stationary "
            "kernel.",
            Rule("ep-relevance", "exploring-eiig"),
            EXPLORING,
        ),
        RELEVANCES[1],
        RANKED_FOUR,
    ),
)
