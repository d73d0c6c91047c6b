"""Raters in the report: how many there are, and how much they have in common."""

from __future__ import annotations

from typing import Any

from ax.core.experiment import Experiment

from botorch_pref.ax.generation.preference_adapter import PreferenceAdapter
from botorch_pref.ax.raters import rater_numbers
from botorch_pref.models import AgreementKernel, GroupUtility


def rater_rows(experiment: Experiment, adapter: PreferenceAdapter) -> dict[str, Any]:
    """Rows of the summary about those who answered.

    Args:
        experiment: Ax's.
        adapter: See `fitted_adapter`.

    Returns:
        The number of ``raters``, if answers have any; and where they share, the
        correlation of the utilities of two of them.
    """
    names = rater_numbers(experiment)
    if not names:
        return {}
    rows: dict[str, Any] = {"raters": len(names)}
    model = adapter.botorch_model
    if isinstance(model, GroupUtility):
        for kernel in model.rater_model.covar_module.modules():
            if isinstance(kernel, AgreementKernel):
                rows["agreement of raters"] = float(kernel.agreement.detach())
    return rows
