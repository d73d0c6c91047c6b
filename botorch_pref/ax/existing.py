"""The parts of an experiment of Ax that one brings along: space, arms, comparisons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ax.api.client import Client
from ax.api.configs import (
    ChoiceParameterConfig,
    DerivedParameterConfig,
    RangeParameterConfig,
)
from ax.core.experiment import Experiment
from ax.core.parameter import (
    ChoiceParameter,
    DerivedParameter,
    FixedParameter,
    Parameter,
    ParameterType,
    RangeParameter,
)
from ax.core.search_space import SearchSpace
from ax.core.types import TParameterization
from ax.utils.common.constants import Keys

from botorch_pref.ax.settings import ParameterConfig
from botorch_pref.ax.space.constraints import LinearConstraint
from botorch_pref.ax.user_values import argument_error
from botorch_pref.errors import ExperimentError

_TYPES: dict[ParameterType, Any] = {
    ParameterType.FLOAT: "float",
    ParameterType.INT: "int",
    ParameterType.STRING: "str",
    ParameterType.BOOL: "bool",
}


class Comparison(NamedTuple):
    """Two arms of a trial, of which the first was preferred."""

    winner: TParameterization
    loser: TParameterization


def ax_experiment(source: object) -> Experiment:
    """Returns the experiment of a `Client`, or an `Experiment` itself."""
    if isinstance(source, Client):
        try:
            return source._experiment
        except AssertionError as error:
            raise ExperimentError(
                "The client has no experiment yet; call its configure_experiment."
            ) from error
    if isinstance(source, Experiment):
        return source
    raise argument_error("experiment", source, "Ax's Experiment or Client")


def parameter_configs(space: SearchSpace) -> list[ParameterConfig]:
    """Lists the parameters of a search space as an experiment is created with them."""
    return [_config(parameter) for parameter in space.parameters.values()]


def _config(parameter: Parameter) -> ParameterConfig:
    """Translates a parameter of Ax to what an experiment is created with here.

    A fixed one is a choice of one value.

    Raises:
        ExperimentError: No experiment here has such a parameter.
    """
    name, kind = parameter.name, _TYPES[parameter.parameter_type]
    if parameter.is_hierarchical:
        raise ExperimentError(
            f"The parameter {name!r} has others that depend on it, and comparisons "
            "need the same parameters of all designs; take one branch of the space."
        )
    if isinstance(parameter, RangeParameter):
        if parameter.digits is not None or parameter.logit_scale:
            raise ExperimentError(
                f"The parameter {name!r} has digits or a logit scale, which no "
                "experiment with preferences has; make it one with a step size, or "
                "another scale."
            )
        return RangeParameterConfig(
            name=name,
            bounds=(parameter.lower, parameter.upper),
            parameter_type=kind,
            scaling="log" if parameter.log_scale else None,
        )
    if isinstance(parameter, DerivedParameter):
        return DerivedParameterConfig(
            name=name, expression_str=parameter.expression_str, parameter_type=kind
        )
    if isinstance(parameter, ChoiceParameter):
        values: Any = parameter.values
        ordered = parameter.is_ordered
    elif isinstance(parameter, FixedParameter):
        values, ordered = [parameter.value], None
    else:
        raise ExperimentError(
            f"The parameter {name!r} is a {type(parameter).__name__}, which no "
            "experiment with preferences has; leave it out of the search space."
        )
    return ChoiceParameterConfig(
        name=name, values=[*values], parameter_type=kind, is_ordered=ordered
    )


def constraint_texts(space: SearchSpace) -> list[str]:
    """Returns the constraints of a search space as an experiment is created with them.

    They are texts with all digits.
    """
    return [
        LinearConstraint(limit.constraint_dict, limit.bound)._constraint_str
        for limit in space.parameter_constraints
    ]


def comparisons(experiment: Experiment) -> list[Comparison]:
    """Gives comparisons as Ax's own preference exploration keeps them, by their trials.

    Of the two arms of a trial the metric ``pairwise_pref_query`` is 1 for the preferred
    one, and 0 for the other.

    Raises:
        ExperimentError: A trial has other values than a 0 and a 1 of two arms.
    """
    table = experiment.lookup_data().df
    if table.empty:
        return []
    name = Keys.PAIRWISE_PREFERENCE_QUERY.value
    answered = table[table["metric_name"] == name]
    arms = experiment.arms_by_name
    pairs = []
    for trial, rows in answered.groupby("trial_index"):
        values = rows.sort_values("mean", ascending=False)
        if values["mean"].tolist() != [1.0, 0.0]:
            values_of_arms = dict(zip(rows["arm_name"], rows["mean"], strict=True))
            raise ExperimentError(
                f"Trial {trial} has {values_of_arms} as {name}; it needs a 1 for the "
                "preferred one of two arms and a 0 for the other."
            )
        pairs.append(Comparison(*(arms[arm].parameters for arm in values["arm_name"])))
    return pairs


def uncompared_designs(
    experiment: Experiment, answered: Sequence[Comparison]
) -> list[Mapping[str, Any]]:
    """Lists designs of arms that no comparison is about, to be asked about first."""
    compared = [design for pair in answered for design in pair]
    designs = [arm.parameters for arm in experiment.arms_by_name.values()]
    return [design for design in designs if design not in compared]


def in_groups(
    designs: Sequence[Mapping[str, Any]], size: int
) -> list[Sequence[Mapping[str, Any]]]:
    """Groups designs by a size; the last group may be smaller.

    A last design alone is grouped with the one before it, which is in two groups then;
    of a single design there is no group.
    """
    starts = [*range(0, len(designs), size)]
    groups = [designs[start : start + size] for start in starts]
    if len(groups) > 1 and len(groups[-1]) == 1:
        groups[-1] = [groups[-2][-1], *groups[-1]]
    return [group for group in groups if len(group) > 1]
