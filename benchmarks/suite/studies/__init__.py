"""All studies, by name: each plays what the library asks beside its own rules."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.suite.cell import LIBRARY, WITHOUT_RIVALS
from benchmarks.suite.studies.claim import Claim
from benchmarks.suite.studies.own import (
    DEFAULTS,
    EIGHT_AND_TWELVE,
    INFERENCE,
    MANY_DIMENSIONS,
    OPTIONS,
    PAIRS,
    PEOPLE,
    RELEVANT_PAIR,
)
from benchmarks.suite.studies.papers import FIGURE_5, FIGURE_6, FIGURE_8, QEUBO, TAKENO
from benchmarks.suite.studies.rules import DUELS, FOUR, LIBRARY_BESIDE_PEERS
from benchmarks.suite.studies.study import Study
from benchmarks.suite.studies.tasks import (
    FAUVEL_CHALK,
    PEOPLE_JUDGES,
    PEOPLE_TASKS,
)

CHECKS = Claim(
    "Two new points alone are better than with checks of the answers.",
    RELEVANT_PAIR,
    DUELS,
)


RIVALS = Claim(
    "What the library asks, four to rank, is better than without unbeaten options that "
    "are shown again.",
    FOUR,
    WITHOUT_RIVALS,
)


def beside_library(study: Study) -> Study:
    """A study with what the library asks among its rules, and what is claimed of it.

    Of studies that share their runs `OPTIONS` has these claims.
    """
    rules = (*study.rules, *LIBRARY, WITHOUT_RIVALS)
    has_claims = study not in (DEFAULTS, INFERENCE)
    claims = [c for c in LIBRARY_BESIDE_PEERS if has_claims and c.worse in rules]
    if has_claims:
        claims.append(RIVALS)
    if CHECKS.better in rules:
        claims.append(CHECKS)
    return replace(
        study,
        rules=rules,
        without_ties=(*study.without_ties, DUELS),
        claims=(*study.claims, *claims),
    )


STUDIES = {
    study.name: beside_library(study)
    for study in (
        OPTIONS,
        DEFAULTS,
        PAIRS,
        INFERENCE,
        PEOPLE,
        PEOPLE_TASKS,
        PEOPLE_JUDGES,
        EIGHT_AND_TWELVE,
        MANY_DIMENSIONS,
        FIGURE_5,
        FIGURE_6,
        FIGURE_8,
        TAKENO,
        *QEUBO,
        FAUVEL_CHALK,
    )
}
"""All studies, by name."""
