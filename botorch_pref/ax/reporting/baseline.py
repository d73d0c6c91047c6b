"""Comparison of options with the baseline."""

from __future__ import annotations

from typing import Any

import torch
from ax.core.arm import Arm
from ax.core.types import TParameterization
from pandas import DataFrame

from botorch_pref.ax.generation.preference_adapter import PreferenceAdapter
from botorch_pref.ax.reporting.points import LEVEL, points_of, utility_summary

COLUMNS = ("difference", "least", "most", "preferred")


def differences(
    adapter: PreferenceAdapter, arms: list[Arm], baseline: TParameterization
) -> DataFrame:
    """Differences of options to the baseline.

    Args:
        adapter: See `fitted_adapter`.
        arms: The options.
        baseline: The design to compare with.

    Returns:
        A row for each option, by name: posterior mean of the ``difference`` of its
        utility to that of the baseline, with a 95 % interval from ``least`` to
        ``most``; and the probability of the answer that it is ``preferred``. Zeros and
        1/2 for the baseline itself.
    """
    reference = Arm(parameters=baseline)
    names = [arm.name_or_short_signature for arm in arms]
    table = DataFrame(0.0, index=names, columns=list(COLUMNS))
    table["preferred"] = 0.5
    others = [i for i, arm in enumerate(arms) if arm.signature != reference.signature]
    if not others:
        return table
    model: Any = adapter.botorch_model
    points = points_of(adapter, [arms[i] for i in others])
    against = points_of(adapter, [reference])
    with torch.no_grad():
        mean, lower, upper = utility_summary(model.duel_posterior(points, against))
        preferred = model.duel_probability(points, against, observation_noise=True)
    table.iloc[others] = torch.stack([mean, lower, upper, preferred], dim=-1).numpy()
    return table


def baseline_rows(
    adapter: PreferenceAdapter, best: TParameterization, baseline: TParameterization
) -> dict[str, Any]:
    """Rows of the summary that compare what is recommended with the baseline.

    Args:
        adapter: See `fitted_adapter`.
        best: What is recommended.
        baseline: The design to compare with.
    """
    (row,) = differences(adapter, [Arm(parameters=best)], baseline).itertuples()
    return {
        "its difference to the baseline": float(row.difference),
        f"from, with probability {LEVEL}": float(row.least),
        "to": float(row.most),
        "chance that it is preferred to it": float(row.preferred),
    }
