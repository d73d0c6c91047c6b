"""Rules that many studies have, and what is claimed of them."""

from __future__ import annotations

import itertools

from benchmarks.suite.cell import GLISP, LIBRARY, OPTUNA, WITHOUT_RIVALS, Rule
from benchmarks.suite.studies.claim import Claim

CHANCE = Rule("ep", "random")

PEERS = (CHANCE, Rule("pairwise-gp", "qeubo"), OPTUNA)
"""What every table has: chance, BoTorch and optuna-dashboard."""

EXPLORING = Rule("ep", "exploring-eiig")
"""A duel of the incumbent and one challenger: what other duels are compared with."""

ADVISED = Rule("ep", "joint-kg", 4, "order")
"""The question that it asks of a person who can look at four options at once."""

BESIDE_CHANCE = Claim(
    "The exploring rule is better than random challengers.", EXPLORING, CHANCE
)

BESIDE_PEERS = (
    Claim(
        "The exploring rule is better than optuna-dashboard's sampler.",
        EXPLORING,
        OPTUNA,
        leads=True,
    ),
    Claim(
        "The exploring rule is better than `PairwiseGP` with qEUBO.",
        EXPLORING,
        Rule("pairwise-gp", "qeubo"),
        leads=True,
    ),
    BESIDE_CHANCE,
)


FOUR, DUELS = LIBRARY

LIBRARY_BESIDE_PEERS = tuple(
    Claim(
        f"What the library asks, {kind}, is better than {name}.",
        better,
        worse,
        leads=True,
    )
    for kind, better, name, worse in (
        *(
            (kind, ranking, name, worse)
            for kind, ranking in (
                ("four to rank", FOUR),
                (
                    "four to rank without unbeaten options that are shown again",
                    WITHOUT_RIVALS,
                ),
            )
            for name, worse in (
                ("`PairwiseGP` with qEUBO of four", Rule("pairwise-gp", "qeubo", 4)),
                (
                    "optuna-dashboard's four, the worst named",
                    Rule("optuna", "sampler", 4, "worst"),
                ),
                ("as many of its duels", DUELS),
                ("as many duels of optuna-dashboard", OPTUNA),
                ("as many duels of GLISp", GLISP),
            )
        ),
        (
            "duels",
            DUELS,
            "`PairwiseGP` with qEUBO",
            Rule("pairwise-gp", "qeubo"),
        ),
        ("duels", DUELS, "optuna-dashboard's", OPTUNA),
        ("duels", DUELS, "GLISp's", GLISP),
    )
)
"""What people meet who call the library, beside what they would take instead."""


def all_rules(
    models: tuple[str, ...], acquisitions: tuple[str, ...]
) -> tuple[Rule, ...]:
    """Every model with every acquisition function."""
    pairs = itertools.product(models, acquisitions)
    return tuple(Rule(model, name) for model, name in pairs)
