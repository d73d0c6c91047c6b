"""Checks of what a new experiment uses only when it asks."""

from __future__ import annotations

from collections.abc import Iterable
from inspect import signature
from typing import Any

import torch
from ax.core.experiment import Experiment
from botorch.acquisition.input_constructors import get_acqf_input_constructor
from botorch.fit import fit_fully_bayesian_model_nuts
from botorch.utils.transforms import is_fully_bayesian

from botorch_pref.ax.generation.asking import next_options
from botorch_pref.ax.naming.names import class_named, duel_classes, model_classes
from botorch_pref.ax.settings import Settings
from botorch_pref.errors import ExperimentError
from botorch_pref.models import EPPreferenceGP

_FIT = (
    "closure_kwargs",
    "max_attempts",
    "optimizer_kwargs",
    "pick_best_of_all_attempts",
)
"""What can be stored of the arguments of ``fit_gpytorch_mll``, which ignores others."""

_OPTIMIZER = (
    "num_restarts",
    "options",
    "raw_samples",
    "retry_on_optimization_warning",
    "sequential",
    "timeout_sec",
)
"""What can be stored of the arguments of ``optimize_acqf``, and is not ours to give."""


def check_options(settings: Settings) -> None:
    """Checks options that would fail, or do nothing, when the model first chooses.

    Args:
        settings: Of a new experiment, with a model that can be made.

    Raises:
        ExperimentError: An option is none; says of which argument.
    """
    names = _names_of_sampling() if _samples(settings) else _FIT
    _check_names("fit_options", settings.fit_options, names)
    _check_names("optimizer_options", settings.optimizer_options, _OPTIMIZER)
    _check_acquisition(settings)


def check_first_question(experiment: Experiment, settings: Settings) -> None:
    """Checks that the search space has a first question, by choosing it.

    Args:
        experiment: Ax's, new.
        settings: Of the experiment.

    Raises:
        ExperimentError: It has none; the message names the constraints.
    """
    try:
        next_options(experiment, settings, 2)
    except ExperimentError as error:
        constraints = experiment.search_space.parameter_constraints
        among = f" that satisfy {constraints}" if constraints else ""
        raise ExperimentError(
            f"There would be no question to ask: no two designs{among} were found that "
            f"differ by smallest_difference={settings.smallest_difference!r}. Leave "
            "more room between the constraints or the bounds, add values, or give a "
            "smaller smallest_difference."
        ) from error


def _samples(settings: Settings) -> bool:
    model_class: Any = class_named(settings.model, model_classes(), "model")
    return is_fully_bayesian(model_class)


def _names_of_sampling() -> list[str]:
    ours = {"model", "disable_progbar"}
    names = signature(fit_fully_bayesian_model_nuts).parameters
    return [name for name in names if name not in ours]


def _check_names(argument: str, given: Iterable[str], names: Iterable[str]) -> None:
    if unknown := sorted(set(given) - set(names)):
        raise ExperimentError(
            f"{argument} has {', '.join(unknown)}; there are "
            f"{', '.join(sorted(names))}."
        )


def _check_acquisition(settings: Settings) -> None:
    """Makes the acquisition function of a small model, whatever the experiment's is."""
    acquisition_class: Any = class_named(
        settings.acquisition, duel_classes(), "acquisition function"
    )
    points = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    model = EPPreferenceGP(points, torch.tensor([[0, 1]])).eval()
    options = settings.acquisition_options
    try:
        construct = get_acqf_input_constructor(acquisition_class)
        acquisition_class(**construct(model=model, **options))
    except Exception as error:
        # Whatever a class says to what it is given.
        raise ExperimentError(
            f"{settings.acquisition} does not take acquisition_options={options!r}: "
            f"{error}"
        ) from error
