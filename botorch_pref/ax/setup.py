"""Ax's experiment for preferences, made and checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any, get_args

from ax.api.configs import (
    ChoiceParameterConfig,
    DerivedParameterConfig,
    RangeParameterConfig,
)
from ax.api.utils.instantiation.from_config import parameter_from_config
from ax.core.experiment import Experiment
from ax.core.objective import Objective
from ax.core.optimization_config import OptimizationConfig
from ax.core.parameter_constraint import validate_constraint_parameters
from ax.core.search_space import SearchSpace
from ax.utils.common.constants import Keys

from botorch_pref.ax.given import given_integer, is_text, written
from botorch_pref.ax.kinds import OBJECTIVE, new_metrics
from botorch_pref.ax.settings import PROPERTY, Settings
from botorch_pref.ax.space.catalogue import PROPERTY as CATALOGUE
from botorch_pref.ax.space.catalogue import Catalogue
from botorch_pref.ax.space.constraints import (
    LinearConstraint,
    check_coefficients,
    check_config,
    check_feasible,
    fit_ranges,
    linear_text,
)
from botorch_pref.ax.space.options import check_smallest_difference, own_design
from botorch_pref.errors import ExperimentError

ParameterConfig = RangeParameterConfig | ChoiceParameterConfig | DerivedParameterConfig
_CONFIGS = get_args(ParameterConfig)


def new_experiment(
    name: str,
    parameters: Sequence[Any] | None,
    parameter_constraints: Sequence[str],
    num_levels: int | None,
    settings: Settings,
    catalogue: Catalogue | None = None,
) -> Experiment:
    """Ax's experiment without questions, with a metric for each kind of answer.

    Raises:
        ExperimentError: Ax does not take the parameters, no design satisfies the
            constraints, the scale has no levels, there is no name, or the settings do
            not fit the parameters.
    """
    if not is_text(name) or not name:
        raise ExperimentError(f"name is {name!r}; give the experiment a name.")
    parameters = checked_space(parameters, parameter_constraints)
    if num_levels is not None:
        num_levels = given_integer("num_levels", num_levels, 2)
    space = _search_space(parameters, parameter_constraints)
    experiment = Experiment(search_space=space, name=name)
    space = experiment.search_space
    check_coefficients(space)
    check_feasible(space)
    fit_ranges(space)
    check_smallest_difference(space, settings.smallest_difference)
    for metric in new_metrics(num_levels):
        experiment.add_metric(metric)
    signature = experiment.metrics[OBJECTIVE].signature
    objective = Objective(
        expression=OBJECTIVE, metric_name_to_signature={OBJECTIVE: signature}
    )
    experiment.optimization_config = OptimizationConfig(objective)
    experiment._properties[Keys.IMMUTABLE_SEARCH_SPACE_AND_OPT_CONF.value] = True
    if catalogue is not None:
        experiment._properties[CATALOGUE] = catalogue.to_property()
    if settings.baseline is not None:
        design = own_design(experiment, settings.baseline)
        settings = replace(settings, baseline=design)
    experiment._properties[PROPERTY] = asdict(settings)
    return experiment


def checked_space(parameters: Any, parameter_constraints: Any) -> list[ParameterConfig]:
    """Parameters and constraints of the types that Ax takes."""
    listed = isinstance(parameters, Sequence) and len(parameters) > 0
    if not listed or not all(isinstance(p, _CONFIGS) for p in parameters):
        raise ExperimentError(
            f"parameters is {parameters!r}; give a list of "
            f"{', '.join(config.__name__ for config in _CONFIGS)} of ax.api.configs."
        )
    listed = isinstance(parameter_constraints, Sequence)
    if not listed or isinstance(parameter_constraints, str):
        raise ExperimentError(
            f"parameter_constraints is {parameter_constraints!r}; give a list of texts."
        )
    for text in parameter_constraints:
        if not isinstance(text, str):
            raise ExperimentError(
                f"parameter_constraints has {written(text)}; give texts such as "
                "'x + y <= 1'."
            )
    for place, config in enumerate(parameters):
        if not is_text(config.name) or not config.name.strip():
            raise ExperimentError(
                f"parameters has the name {written(config.name)} at {place} (counted "
                "from 0); give the parameter a name."
            )
        check_config(config)
    return [*parameters]


def _search_space(
    configs: list[Any], parameter_constraints: Sequence[str]
) -> SearchSpace:
    """Ax's search space; no text is evaluated but what was written from numbers."""
    names = [str(config.name) for config in configs]
    try:
        configs = [
            replace(config, expression_str=linear_text(config.expression_str, names))
            if isinstance(config, DerivedParameterConfig)
            else config
            for config in configs
        ]
        parameters = [parameter_from_config(config) for config in configs]
        constraints = [
            LinearConstraint.parsed(text, names) for text in parameter_constraints
        ]
        for constraint in constraints:
            validate_constraint_parameters(
                [p for p in parameters if p.name in constraint.constraint_dict]
            )
        return SearchSpace(parameters, [*constraints])
    # Ax, and SymPy that it calls, refuse with errors of all kinds.
    except Exception as error:
        raise ExperimentError(f"Ax does not take this search space: {error}") from error


def check_with_parameters(parameters: object, parameter_constraints: object) -> None:
    """Checks that no constraints are given without the parameters that they are of."""
    if parameters is None and parameter_constraints != ():
        raise ExperimentError(
            f"parameter_constraints is {written(parameter_constraints)} without "
            "parameters; give both, or neither."
        )


def check_same_space(
    experiment: Experiment,
    parameters: Sequence[Any],
    parameter_constraints: Sequence[str],
) -> None:
    """Checks that parameters and constraints are those of an experiment."""
    name = experiment.name
    given = new_experiment(name, parameters, parameter_constraints, None, Settings())
    if given.search_space != experiment.search_space:
        raise ExperimentError(
            f"The search space of {experiment.name!r} is\n{experiment.search_space}\n"
            f"and not\n{given.search_space}\nAnswers about one say nothing of the "
            "other: create another experiment."
        )
