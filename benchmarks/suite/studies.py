"""The studies: settings, rules, starts and the rule of reference."""

from __future__ import annotations

from benchmarks.suite.cell import Rule, Setting, Study
from benchmarks.suite.players import OPTUNA

PEERS = (Rule("ep", "random"), Rule("pairwise-gp", "qeubo"), OPTUNA)
"""What every table has: chance, BoTorch and optuna-dashboard."""

_DEFAULT = Rule("skew", "eiig")

DEFAULTS = Study(
    "default",
    "Which rule should ask by default, of people who never err and of those who do?",
    settings=(
        Setting("hartmann6"),
        Setting("sixhumpcamel-narrow"),
        Setting("sixhumpcamel"),
        Setting("hartmann6", "probit", 0.3),
        Setting("sixhumpcamel-narrow", "probit", 0.2),
    ),
    rules=(
        _DEFAULT,
        Rule("ep", "eiig"),
        Rule("ep", "eubo"),
        Rule("ep", "eubo-pair"),
        Rule("ep", "hbei"),
        Rule("ep", "ucb"),
        Rule("ep-human", "eiig"),
        Rule("ep-human", "eubo"),
        Rule("ep-human", "eubo-pair"),
        Rule("ep-human", "hbei"),
        Rule("ep-human", "ucb"),
        Rule("ep-rival-prior", "eubo"),
        Rule("ep-rival-prior", "hbei"),
        *PEERS,
        Rule("ep-human", "random"),
    ),
    reference=_DEFAULT,
)

STUDIES = {study.name: study for study in (DEFAULTS,)}
"""All studies, by name."""
