"""The log of a new experiment, of which questions can be asked and answered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from inspect import signature
from typing import Any

import torch
from ax.adapter.transforms.one_hot import OH_PARAM_INFIX
from ax.core.search_space import SearchSpace
from botorch.acquisition.input_constructors import get_acqf_input_constructor
from botorch.fit import fit_fully_bayesian_model_nuts
from botorch.utils.transforms import is_fully_bayesian
from pandas import DataFrame

from botorch_pref.ax.answers import Answer, check_taken
from botorch_pref.ax.events import Definition, now, stored_parameters
from botorch_pref.ax.generation.question_choice import next_options, spread_context
from botorch_pref.ax.log import Log
from botorch_pref.ax.naming import duel_classes, model_classes
from botorch_pref.ax.projection import Projection
from botorch_pref.ax.settings import ParameterConfig, Settings
from botorch_pref.ax.space.constraints import shown_constraint
from botorch_pref.ax.space.differences import can_differ
from botorch_pref.ax.space.options import catalogue_parameters
from botorch_pref.errors import ExperimentError
from botorch_pref.models import EPPreferenceGP


def new_log(
    name: str,
    parameters: Sequence[ParameterConfig] | None,
    parameter_constraints: Sequence[str],
    num_levels: int | None,
    settings: dict[str, Any],
    catalogue: DataFrame | None,
) -> Log:
    """Returns the log of a new experiment, see `PreferenceExperiment.create`."""
    rows = None
    if catalogue is not None:
        if parameters is not None or parameter_constraints:
            raise ExperimentError(
                "The columns of the catalogue are the parameters; leave out parameters "
                "and parameter_constraints, and rows that shall not be shown."
            )
        rows, parameters = catalogue_parameters(catalogue)
        # Every row is a design of its own.
        settings.setdefault("smallest_difference", 0.0)
    chosen = Settings.from_arguments(settings)
    definition = Definition(
        name,
        now(),
        stored_parameters(parameters, parameter_constraints),
        [*parameter_constraints],
        num_levels,
        asdict(chosen),
        None if rows is None else rows.to_property(),
    )
    # With the baseline as a complete design, and all as it will be read from storage.
    settings = asdict(Log(definition).settings)
    log = Log(replace(definition, settings=settings).read_back())
    check_taken(chosen, Answer(winner=0), 2, log.num_levels)
    check_options(chosen)
    check_names(log.space)
    check_first_question(log)
    return log


def check_names(space: SearchSpace) -> None:
    """Checks that no parameter is named as Ax names the options of a choice."""
    for name in space.parameters:
        if OH_PARAM_INFIX in name:
            raise ExperimentError(
                f"The parameter {name!r} has {OH_PARAM_INFIX} in its name, by which Ax "
                "marks the options of a choice; give it another name."
            )


_FIT = [
    "closure_kwargs",
    "max_attempts",
    "optimizer_kwargs",
    "pick_best_of_all_attempts",
]
"""Arguments of ``fit_gpytorch_mll`` that can be stored; it ignores others."""

_OPTIMIZER = [
    "num_restarts",
    "options",
    "raw_samples",
    "retry_on_optimization_warning",
    "timeout_sec",
]
"""Arguments of ``optimize_acqf`` that can be stored, and are not ours to give."""


def check_options(settings: Settings) -> None:
    """Checks options that would fail, or do nothing, when the model first chooses.

    Raises:
        ExperimentError: The fit, the search or the acquisition function takes no such
            option, or no such value.
    """
    model_class: Any = model_classes()[settings.model]
    of_fit = {*_FIT}
    if is_fully_bayesian(model_class):
        allowed = signature(fit_fully_bayesian_model_nuts).parameters.keys()
        of_fit = allowed - {"model", "disable_progbar"}
    for argument, names in (("fit_options", of_fit), ("optimizer_options", _OPTIMIZER)):
        if unknown := sorted(getattr(settings, argument).keys() - set(names)):
            raise ExperimentError(
                f"{argument} has {', '.join(unknown)}; there are "
                f"{', '.join(sorted(names))}."
            )
    if settings.acquisition is None:
        return
    # A small model takes what the experiment's takes.
    points = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    model = EPPreferenceGP(points, torch.tensor([[0, 1]])).eval()
    acquisition_class: Any = duel_classes()[settings.acquisition]
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


def check_first_question(log: Log) -> None:
    """Checks that the search space of a new experiment has a first question."""
    try:
        if log.catalogue is None and not can_differ(
            log.space, log.settings.smallest_difference
        ):
            raise ExperimentError("No two designs differ by that much.")
        next_options(Projection(log), 2, context=spread_context(log))
    except ExperimentError as error:
        constraints = log.space.parameter_constraints
        smallest_difference = log.settings.smallest_difference
        named = ", ".join(map(shown_constraint, constraints))
        among = f" that satisfy {named}" if constraints else ""
        raise ExperimentError(
            f"There would be no question to ask: no two designs{among} were found that "
            f"differ by smallest_difference={smallest_difference!r}. Leave more room "
            "between the constraints or the bounds, add values, or give a smaller "
            "smallest_difference."
        ) from error
