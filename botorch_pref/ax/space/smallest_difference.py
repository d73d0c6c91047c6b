"""The smallest differences that somebody could tell, for each parameter."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ax.adapter.transforms.one_hot import OH_PARAM_INFIX
from ax.core.parameter import (
    ChoiceParameter,
    Parameter,
    ParameterType,
    RangeParameter,
)
from ax.core.search_space import SearchSpace
from ax.core.types import TParameterization

from botorch_pref.acquisition.wrappers.distinct_options import SMALLEST_DIFFERENCE
from botorch_pref.ax.given_values import finite_number, written
from botorch_pref.errors import ExperimentError

SmallestDifference = float | Mapping[str, float]

DEFAULT_SHARE = SMALLEST_DIFFERENCE
"""A hundredth of the range of each parameter."""

_FINEST = 1e-9
"""Share of a range in which rounding could make two numbers one."""


def given_difference(given: Any) -> float | dict[str, float]:
    """Smallest differences that people give, as Python's numbers.

    Args:
        given: See `Settings`.

    Raises:
        ExperimentError: Something is no finite number.
    """
    if not isinstance(given, Mapping):
        number = finite_number(given)
        if number is None:
            raise ExperimentError(_NO_SHARE.format(written(given)))
        return number
    numbers = {name: finite_number(difference) for name, difference in given.items()}
    for name, number in numbers.items():
        if number is None:
            raise ExperimentError(
                f"smallest_difference of {name!r} is {written(given[name])}; give a "
                "finite number."
            )
    return {name: number for name, number in numbers.items() if number is not None}


_NO_SHARE = (
    "smallest_difference is {}; give the share of a range, from 0 to below 0.5, or for "
    "each parameter a number in its own unit."
)


def check_smallest_difference(space: SearchSpace, given: SmallestDifference) -> None:
    """Checks that there can be such smallest differences.

    Args:
        space: Ax's.
        given: See `Settings`.

    Raises:
        ExperimentError: It is no share of a range; or a parameter has no range, or
            none of that size.
    """
    if not isinstance(given, Mapping):
        if not 0 <= given < 0.5:
            raise ExperimentError(_NO_SHARE.format(given))
        return
    for name, difference in given.items():
        parameter = space.parameters.get(name)
        if not isinstance(parameter, RangeParameter):
            raise ExperimentError(
                f"smallest_difference names {name!r}, which is no number with a range; "
                "choices that differ can be told apart."
            )
        least = 1 if parameter.log_scale else 0
        if not (difference > least and _width(parameter, given) < 0.5):
            unit = "a factor above 1" if parameter.log_scale else "a positive number"
            raise ExperimentError(
                f"smallest_difference of {name!r} is {difference!r}; give {unit}, "
                "less than half of the range."
            )


def column_widths(
    space: SearchSpace, given: SmallestDifference, columns: list[str]
) -> list[float]:
    """Smallest differences in the units of the model's features.

    Args:
        space: Ax's.
        given: See `Settings`.
        columns: The names of the features, as the transforms of Ax name them.
    """
    widths: dict[str, float] = {}
    for name, parameter in space.tunable_parameters.items():
        width = _finite_width(parameter, given)
        if isinstance(parameter, ChoiceParameter) and not parameter.is_ordered:
            one_hot = range(len(parameter.values))
            widths |= {f"{name}{OH_PARAM_INFIX}{i}": width for i in one_hot}
        else:
            widths[name] = width
    return [widths[column] for column in columns]


def squared_difference(
    space: SearchSpace,
    given: SmallestDifference,
    first: TParameterization,
    second: TParameterization,
) -> float:
    """Squared difference of two designs, in smallest differences.

    Args:
        space: Ax's.
        given: See `Settings`.
        first: The values of its parameters.
        second: Those of another design.

    Returns:
        Less than 1 where nobody could tell them apart.
    """
    return sum(
        (_share(parameter, first[name], second[name]) / _finite_width(parameter, given))
        ** 2
        for name, parameter in space.tunable_parameters.items()
    )


def _share(parameter: Parameter, first: Any, second: Any) -> float:
    """Difference of two values as a share of the parameter's range on its scale."""
    if isinstance(parameter, RangeParameter):
        lower, upper = float(parameter.lower), float(parameter.upper)
        if parameter.log_scale:
            return math.log(first / second) / math.log(upper / lower)
        return (first - second) / (upper - lower)
    assert isinstance(parameter, ChoiceParameter)
    if not parameter.is_ordered:
        return float(first != second)
    places = parameter.values.index(first) - parameter.values.index(second)
    return places / (len(parameter.values) - 1)


def _finite_width(parameter: Parameter, given: SmallestDifference) -> float:
    return max(_width(parameter, given), _FINEST)


def _width(parameter: Parameter, given: SmallestDifference) -> float:
    """Smallest difference as a share of the parameter's range on its scale."""
    if isinstance(parameter, ChoiceParameter):
        steps = len(parameter.values) - 1
        return 1 / steps if parameter.is_ordered else 1.0
    assert isinstance(parameter, RangeParameter)
    lower, upper = float(parameter.lower), float(parameter.upper)
    if isinstance(given, Mapping) and parameter.name in given:
        if parameter.log_scale:
            return math.log(given[parameter.name]) / math.log(upper / lower)
        return given[parameter.name] / (upper - lower)
    share = DEFAULT_SHARE if isinstance(given, Mapping) else given
    whole = parameter.parameter_type is ParameterType.INT
    if whole and not parameter.log_scale:
        return max(1.0, math.floor(share * (upper - lower))) / (upper - lower)
    return share
