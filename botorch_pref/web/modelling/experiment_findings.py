"""Findings from the answers, for who runs the experiment."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

from ax.core.experiment import Experiment
from pandas import DataFrame

from botorch_pref.ax.asking_elsewhere import unpacked_state
from botorch_pref.ax.projection import standing_answers
from botorch_pref.ax.reporting.report import preference_report, preferred
from botorch_pref.ax.settings import Settings


def findings_of(state: bytes) -> dict[str, Any]:
    """Findings from the state of an experiment, see `experiment_findings`.

    Args:
        state: See `packed_state`.
    """
    return experiment_findings(*unpacked_state(state))


def experiment_findings(experiment: Experiment, settings: Settings) -> dict[str, Any]:
    """Findings of an experiment as JSON.

    Args:
        experiment: Ax's, with one answer at least.
        settings: Of the experiment.

    Returns:
        ``summary``, names and values; ``options``, the rows of the report's table;
        ``parameters``, the names of its columns that are parameters; and ``duels``,
        how often which option was said to be better than which, by name.

    Raises:
        ExperimentError: There is no answer yet.
    """
    report = preference_report(experiment, settings)
    space = experiment.search_space
    return {
        "summary": [
            [str(name), _plain(value)]
            for name, value in report.summary["value"].items()
        ],
        "options": _rows(report.options),
        "parameters": [name for name in space.parameters if name in report.options],
        "duels": duels(experiment),
    }


def _rows(table: DataFrame) -> list[dict[str, Any]]:
    return [
        {"name": str(name)} | {str(k): _plain(v) for k, v in row.items()}
        for name, row in table.to_dict(orient="index").items()
    ]


def _plain(value: Any) -> Any:
    """A value as JSON has it; None for what is no number."""
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, str | int | bool | None) else str(value)


def duels(experiment: Experiment) -> list[dict[str, Any]]:
    """The comparison graph of the answers that stand.

    Args:
        experiment: Ax's.

    Returns:
        For each pair of options that was decided its ``better`` and ``worse``, and for
        each that was not its ``tied`` pair, by name; and how often (``times``).
    """
    decided: Counter[tuple[str, str]] = Counter()
    equal: Counter[tuple[str, str]] = Counter()
    for names, answer in standing_answers(experiment):
        won, tied = preferred(answer, len(names))
        decided.update((names[better], names[worse]) for better, worse in won)
        equal.update((names[first], names[second]) for first, second in tied)
    return [
        *({"better": b, "worse": w, "times": n} for (b, w), n in decided.items()),
        *({"tied": [*pair], "times": n} for pair, n in equal.items()),
    ]
