"""All studies, by name."""

from __future__ import annotations

from benchmarks.suite.studies.own import (
    DEFAULTS,
    INFERENCE,
    MANY_DIMENSIONS,
    OPTIONS,
    PAIRS,
    PEOPLE,
)
from benchmarks.suite.studies.papers import FIGURE_5, FIGURE_6, FIGURE_8, QEUBO, TAKENO

STUDIES = {
    study.name: study
    for study in (
        OPTIONS,
        DEFAULTS,
        PAIRS,
        INFERENCE,
        PEOPLE,
        MANY_DIMENSIONS,
        FIGURE_5,
        FIGURE_6,
        FIGURE_8,
        TAKENO,
        *QEUBO,
    )
}
"""All studies, by name."""
