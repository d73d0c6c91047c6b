"""Smallest differences: when people tell designs apart, and how many there are."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from itertools import product
from types import MappingProxyType
from typing import Any

import torch
from ax.adapter.transforms.one_hot import OH_PARAM_INFIX
from ax.core.parameter import (
    ChoiceParameter,
    Parameter,
    ParameterType,
    RangeParameter,
)
from ax.core.search_space import SearchSpace
from ax.core.types import TParameterization
from torch import Tensor
from torch.nn.functional import one_hot

from botorch_pref.acquisition.exploring_rule import SMALLEST_DIFFERENCE
from botorch_pref.ax.space.constraints import most_shares
from botorch_pref.ax.space.options import Catalogue
from botorch_pref.ax.user_values import argument_error, finite_number
from botorch_pref.errors import ExperimentError

SmallestDifference = float | Mapping[str, float]
"""See `Settings`."""

DEFAULT_SHARE = SMALLEST_DIFFERENCE
"""A hundredth of the range of each parameter."""

_MOST_TRIED = 10_000
"""Designs that are tried against constraints one by one, to count them."""

_FINEST = 1e-9
"""Share of a range in which rounding could make two numbers one."""


def plain_differences(difference: Any) -> float | dict[str, float]:
    """Returns smallest differences that people give, as Python's numbers."""
    if not isinstance(difference, Mapping):
        if (number := finite_number(difference)) is None:
            raise argument_error("smallest_difference", difference, _SHARE)
        return number
    numbers = {}
    for name, value in difference.items():
        if (number := finite_number(value)) is None:
            raise argument_error(
                f"smallest_difference of {name!r}", value, "a finite number"
            )
        numbers[name] = number
    return numbers


_SHARE = "the share of a range, from 0 to below 0.5, or for each parameter a number in "
_SHARE += "its own unit"


def check_smallest_difference(
    space: SearchSpace, smallest_difference: SmallestDifference
) -> None:
    """Checks that a search space can have such smallest differences."""
    if not isinstance(smallest_difference, Mapping):
        if not 0 <= smallest_difference < 0.5:
            raise argument_error("smallest_difference", smallest_difference, _SHARE)
        return
    for name, difference in smallest_difference.items():
        parameter = space.parameters.get(name)
        if not isinstance(parameter, RangeParameter):
            raise ExperimentError(
                f"smallest_difference names {name!r}, which is no number with a range; "
                "choices and numbers in steps that differ can be told apart."
            )
        lower_limit = 1 if parameter.log_scale else 0
        if not (
            difference > lower_limit and _width(parameter, smallest_difference) < 0.5
        ):
            unit = "a factor above 1" if parameter.log_scale else "a positive number"
            raise ExperimentError(
                f"smallest_difference of {name!r} is {difference!r}; give {unit}, "
                "less than half of the range."
            )


def shares(space: SearchSpace, designs: Sequence[TParameterization]) -> Tensor:
    """Returns designs as numbers from 0 to 1, ``N x c``.

    A number is its share of the range on its scale, an ordered value its place. Other
    values have a column each, scaled so that two of them are 1 apart.
    """
    columns: list[Tensor] = []
    for name, parameter in space.tunable_parameters.items():
        values: list[Any] = [design[name] for design in designs]
        if isinstance(parameter, RangeParameter):
            lower, upper = float(parameter.lower), float(parameter.upper)
            number = torch.tensor(values, dtype=torch.float64)
            if parameter.log_scale:
                columns.append((number / lower).log() / math.log(upper / lower))
            else:
                columns.append((number - lower) / (upper - lower))
            continue
        assert isinstance(parameter, ChoiceParameter)
        places = torch.tensor([parameter.values.index(value) for value in values])
        last = len(parameter.values) - 1
        if parameter.is_ordered:
            columns.append(places.double() / last)
        else:
            columns += (one_hot(places, last + 1).double() / 2**0.5).unbind(-1)
    return torch.stack(columns, dim=-1)


def features(
    space: SearchSpace, designs: Sequence[TParameterization], columns: Sequence[str]
) -> Tensor:
    """Returns designs as models take them, ``N x d``, up to rounding.

    They are `shares`, but for choices without order, which are one-hot. Ax's transforms
    would take a second for some thousand designs. The ``columns`` are the names that
    these transforms give the columns.
    """
    names = [*column_widths(space, 0.0)]
    columns_of_designs = shares(space, designs)
    choices = torch.tensor([OH_PARAM_INFIX in name for name in names])
    # A choice that was made has a positive number there.
    columns_of_designs = torch.where(
        choices, (columns_of_designs > 0).double(), columns_of_designs
    )
    return columns_of_designs[:, [names.index(column) for column in columns]]


def in_smallest_differences(
    space: SearchSpace,
    smallest_difference: SmallestDifference,
    designs: Sequence[TParameterization],
) -> Tensor:
    """Returns designs in units of smallest differences, ``N x c``, see `shares`.

    Nobody can tell two apart whose distance is below 1, see `differ`.
    """
    widths = [*column_widths(space, smallest_difference).values()]
    return shares(space, designs) / torch.tensor(widths, dtype=torch.float64)


def differ(squared: Tensor) -> Tensor:
    """Tells whether squared differences are at least 1, up to rounding."""
    return squared >= 1 - 1e-6


def has_designs(
    space: SearchSpace,
    catalogue: Catalogue | None,
    smallest_difference: SmallestDifference,
    number: int,
    fixed: Collection[str] = (),
) -> bool:
    """Tells whether a space has a ``number`` of designs that a person can tell apart.

    The size of questions depends on it. Designs that differ only in ``fixed``
    parameters, which are the context, count as one; each row of a catalogue counts.

    Constraints are tried on each design where there are up to 10,000; where there are
    more, they are taken to leave enough.
    """
    if catalogue is not None:
        return len(catalogue.rows) >= number
    limits, parameters = space.parameter_constraints, space.tunable_parameters.values()
    distinct, cardinality = 1.0, 1.0
    for parameter in parameters:
        cardinality *= parameter.cardinality()
        if parameter.name in fixed:
            continue
        if isinstance(parameter, ChoiceParameter):
            distinct *= len(parameter.values)
        else:
            # Shares such as a third are not exact.
            steps = 1 / max(_width(parameter, smallest_difference), _FINEST) + 1e-6
            distinct *= min(parameter.cardinality(), math.floor(steps) + 1)
    if distinct < number or not limits or cardinality > _MOST_TRIED:
        return distinct >= number
    tried = product(*map(all_values, parameters))
    designs = (
        dict(zip(space.tunable_parameters, values, strict=True)) for values in tried
    )
    allowed = {
        tuple(value for name, value in design.items() if name not in fixed)
        for design in designs
        if all(limit.check(design) for limit in limits)
    }
    return len(allowed) >= number


def can_differ(
    space: SearchSpace,
    smallest_difference: SmallestDifference,
    context: Mapping[str, Any] = MappingProxyType({}),
) -> bool:
    """Tells whether people may be able to tell two designs in a context apart.

    Two values of a choice can always be told apart. Of numbers alone, people cannot
    where even designs at opposite ends of all ranges that constraints leave differ too
    little: then a new experiment, or a question, is refused.
    """
    varying = space.tunable_parameters.items()
    if any(isinstance(p, ChoiceParameter) and n not in context for n, p in varying):
        return True
    free_shares = most_shares(space, context)
    steps = (
        free_shares.get(name, 1.0) / width
        for name, width in column_widths(space, smallest_difference).items()
        if name in space.range_parameters and name not in context
    )
    # Shares such as a third are not exact.
    return sum(step**2 for step in steps) > 1 - 1e-6


def few_values(parameter: Parameter, limit: float) -> bool:
    """Tells whether a parameter is a choice, or an integer of a few values."""
    choice = isinstance(parameter, ChoiceParameter)
    return choice or bool(parameter.cardinality() <= limit)


def all_values(parameter: Parameter) -> Sequence[Any]:
    """Returns all values of a choice or of a whole number."""
    if isinstance(parameter, ChoiceParameter):
        return parameter.values
    assert isinstance(parameter, RangeParameter)
    return range(int(parameter.lower), int(parameter.upper) + 1)


def column_widths(
    space: SearchSpace, smallest_difference: SmallestDifference
) -> dict[str, float]:
    """Makes smallest differences of the columns of `shares`, by names of features.

    As the columns they are shares of ranges, in the same order; they are never 0, since
    differences of designs are divided by them.
    """
    widths: dict[str, float] = {}
    for name, parameter in space.tunable_parameters.items():
        width = max(_width(parameter, smallest_difference), _FINEST)
        if isinstance(parameter, ChoiceParameter) and not parameter.is_ordered:
            places = range(len(parameter.values))
            widths |= {f"{name}{OH_PARAM_INFIX}{i}": width for i in places}
        else:
            widths[name] = width
    return widths


def _width(parameter: Parameter, smallest_difference: SmallestDifference) -> float:
    """Makes the smallest difference a share of the parameter's range on its scale.

    Different values of a choice can always be told apart. Where the difference is a
    share of all ranges, that of whole numbers on a linear scale is rounded down to a
    whole number, and is at least 1.
    """
    if isinstance(parameter, ChoiceParameter):
        return 1 / (len(parameter.values) - 1) if parameter.is_ordered else 1.0
    assert isinstance(parameter, RangeParameter)
    lower, upper = float(parameter.lower), float(parameter.upper)
    if (
        isinstance(smallest_difference, Mapping)
        and parameter.name in smallest_difference
    ):
        difference = smallest_difference[parameter.name]
        log = parameter.log_scale
        return (
            math.log(difference) / math.log(upper / lower)
            if log
            else difference / (upper - lower)
        )
    share = (
        DEFAULT_SHARE
        if isinstance(smallest_difference, Mapping)
        else smallest_difference
    )
    is_whole = parameter.parameter_type is ParameterType.INT
    if is_whole and not parameter.log_scale:
        return max(1.0, math.floor(share * (upper - lower))) / (upper - lower)
    return share
