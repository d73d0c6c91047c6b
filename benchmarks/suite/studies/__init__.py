"""All studies, by name: each plays what the library asks beside its own rules."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.suite.cell import LIBRARY
from benchmarks.suite.studies.own import (
    DEFAULTS,
    EIGHT_AND_TWELVE,
    INFERENCE,
    MANY_DIMENSIONS,
    OPTIONS,
    PAIRS,
    PEOPLE,
)
from benchmarks.suite.studies.papers import FIGURE_5, FIGURE_6, FIGURE_8, QEUBO, TAKENO
from benchmarks.suite.studies.tasks import (
    FAUVEL_CHALK,
    PEOPLE_JUDGES,
    PEOPLE_TASKS,
)

STUDIES = {
    study.name: replace(
        study,
        rules=(*study.rules, *LIBRARY),
        without_ties=(*study.without_ties, LIBRARY[1]),
    )
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
