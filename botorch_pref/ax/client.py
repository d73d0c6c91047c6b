"""Ax's client of an experiment with preferences."""

from __future__ import annotations

from typing import cast

from ax.api.client import Client
from ax.api.types import TOutcome, TParameterization
from ax.exceptions.core import UnsupportedError

from botorch_pref.ax.answer_kinds import OBJECTIVE
from botorch_pref.ax.best_designs import best_of_experiment
from botorch_pref.ax.settings import Settings


class PreferenceClient(Client):
    """Ax's client, which finds the best of the options that were compared.

    Args:
        settings: Of the experiment.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self._settings = settings

    def get_best_parameterization(
        self, use_model_predictions: bool = True
    ) -> tuple[TParameterization, TOutcome, int, str]:
        """Finds the option judged so far with the largest posterior mean.

        Ax's own method takes trials of a single arm, and numbers that were observed.

        Args:
            use_model_predictions: Without them there is no best option: answers say
                what is better than what.

        Returns:
            The parameters; the posterior mean and variance of the utility, by the name
            of the metric; the latest trial that shows the option; and its arm's name.

        Raises:
            ExperimentError: No answer compares options yet.
            UnsupportedError: The model's predictions are not to be used.
        """
        if not use_model_predictions:
            raise UnsupportedError(
                "Answers compare options, and none has a number of its own; leave out "
                "use_model_predictions=False."
            )
        arm, mean, variance = best_of_experiment(self._experiment, self._settings)
        index = max(
            index
            for index, trial in self._experiment.trials.items()
            if arm.name in trial.arms_by_name
        )
        best = cast("TParameterization", dict(arm.parameters))
        return best, {OBJECTIVE: (mean, variance)}, index, arm.name
