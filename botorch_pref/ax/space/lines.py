"""Lines of designs in a search space: their ends, and the designs between them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

from ax.core.parameter import (
    ChoiceParameter,
    DerivedParameter,
    Parameter,
    ParameterType,
    RangeParameter,
)
from ax.core.search_space import SearchSpace
from ax.core.types import TParameterization

from botorch_pref.ax.answer_kinds import DECIMALS, checked_position
from botorch_pref.ax.space.options import shares
from botorch_pref.ax.user_values import quoted
from botorch_pref.errors import ExperimentError


@dataclass(frozen=True)
class Line:
    """Designs from one end to another, by a position from 0 to 1.

    Numbers change in even steps on their scales. Those of steps, or of digits that
    nobody reads, are rounded: a line has the designs that there are.

    Attributes:
        space: Of the ends.
        first: The end at position 0.
        last: The end at position 1.

    Raises:
        ExperimentError: The ends have different values of a choice without order, or
            are one design.
    """

    space: SearchSpace
    first: TParameterization
    last: TParameterization

    def __post_init__(self) -> None:
        moving = self.moving
        if not moving:
            raise ExperimentError("Both ends of the line are one design; give two.")
        for name in moving:
            if not can_move(self.space.parameters[name]):
                raise ExperimentError(
                    f"{name} is {quoted(self.first[name])} at one end of the line and "
                    f"{quoted(self.last[name])} at the other, with nothing in "
                    "between; give both ends the same."
                )

    @property
    def moving(self) -> list[str]:
        """The names of the parameters in which the ends differ."""
        names = self.space.tunable_parameters
        return [name for name in names if self.first[name] != self.last[name]]

    def at(self, position: float) -> TParameterization:
        """Returns the design at a position, or the nearest to it that there is."""
        share = checked_position(position)
        if share in (0.0, 1.0):
            return dict(self.last if share else self.first)
        design, numbers = dict(self.first), {}
        for name in self.moving:
            parameter = self.space.parameters[name]
            numbers[name] = _between(
                parameter, self.first[name], self.last[name], share
            )
        rounded = {
            name: _rounded(self.space.parameters[name], number)
            for name, number in numbers.items()
        }
        derived = complete(self.space, {**design, **rounded})
        if self.space.check_membership(derived):
            return derived
        # Digits that nobody reads keep a design within the constraints.
        return complete(self.space, {**design, **numbers})

    def tried(self, position: float) -> float:
        """Returns the position of the design that is shown at a position."""
        design = self.at(position)
        start, end, middle = shares(self.space, [self.first, self.last, design])
        along = end - start
        share = float((middle - start) @ along / (along @ along))
        share = round(min(max(share, 0.0), 1.0), DECIMALS)
        return share if self.at(share) == design else round(position, DECIMALS)

    def positions(self, limit: int) -> list[float]:
        """Lists positions of different designs from end to end, up to ``limit``."""
        reached = (self.tried(step / (limit - 1)) for step in range(limit))
        return sorted({*reached})


def can_move(parameter: Parameter) -> bool:
    """Tells whether a parameter has values in order, with others between them."""
    ordered = isinstance(parameter, ChoiceParameter) and parameter.is_ordered
    has_order = ordered or isinstance(parameter, RangeParameter)
    return has_order and parameter.cardinality() > 2


def complete(space: SearchSpace, values: Mapping[str, Any]) -> TParameterization:
    """Returns a design with its derived parameters computed from the others."""
    design = dict(values)
    for name, parameter in space.parameters.items():
        if isinstance(parameter, DerivedParameter):
            design[name] = parameter.compute(design)
    return {name: design[name] for name in space.parameters}


def _between(parameter: Parameter, first: Any, last: Any, share: float) -> Any:
    """Returns the value at a share of the way between two, as Ax has its type."""
    if isinstance(parameter, ChoiceParameter):
        start, end = map(parameter.values.index, (first, last))
        return parameter.values[round(start + share * (end - start))]
    assert isinstance(parameter, RangeParameter)
    if parameter.log_scale:
        number = first * math.exp(share * math.log(last / first))
    else:
        number = first + share * (last - first)
    is_whole = parameter.parameter_type is ParameterType.INT
    return round(number) if is_whole else float(number)


_DIGITS = 5
"""The number of digits of a range's numbers: steps of 1/10,000 of it or finer."""


def has_digits(parameter: Parameter) -> TypeGuard[RangeParameter]:
    """Tells whether values of a parameter are numbers whose digits have no end."""
    if not isinstance(parameter, RangeParameter) or parameter.logit_scale:
        return False
    return parameter.parameter_type is ParameterType.FLOAT


def readable(parameter: RangeParameter, value: float) -> float:
    """Returns a number of a parameter with the digits that people are shown."""
    lower, upper = float(parameter.lower), float(parameter.upper)
    scale = abs(value) if parameter.log_scale else upper - lower
    if scale > 0:
        value = round(value, _DIGITS - 1 - math.floor(math.log10(scale)))
    # Zero is added so that nobody is shown a negative zero.
    return min(max(value, lower), upper) + 0.0


def _rounded(parameter: Parameter, value: Any) -> Any:
    return readable(parameter, value) if has_digits(parameter) else value


def line_through(
    space: SearchSpace, design: TParameterization, name: str
) -> Line | None:
    """Returns the line through a design on which one parameter moves as far as it can.

    None where constraints leave it one value.
    """
    parameter = space.parameters[name]

    def with_value(value: Any) -> TParameterization:
        return complete(space, {**design, name: value})

    low, high = _limits(space, design, name)
    if isinstance(parameter, ChoiceParameter):
        values = [v for v in parameter.values if space.check_membership(with_value(v))]
        low, high = values[0], values[-1]
    ends = []
    for end in (low, high):
        readable_end = with_value(_rounded(parameter, end))
        inside = space.check_membership(readable_end)
        ends.append(readable_end if inside else with_value(end))
    is_point = ends[0][name] == ends[1][name]
    return None if is_point else Line(space, *ends)


def _limits(
    space: SearchSpace, design: TParameterization, name: str
) -> tuple[Any, Any]:
    """Finds the ends of a number that constraints allow while the others stay."""
    parameter = space.parameters[name]
    if not isinstance(parameter, RangeParameter):
        return None, None
    low, high = float(parameter.lower), float(parameter.upper)
    for limit in space.parameter_constraints:
        weights: dict[str, Any] = limit.constraint_dict
        weight = weights.get(name, 0.0)
        numbers: dict[str, Any] = {n: design[n] for n in weights if n != name}
        room = limit.bound - sum(weights[n] * x for n, x in numbers.items())
        if weight > 0:
            high = min(high, room / weight)
        elif weight < 0:
            low = max(low, room / weight)
    if parameter.parameter_type is ParameterType.INT:
        # A bound that is met may be missed by rounding.
        return math.ceil(low - 1e-8), math.floor(high + 1e-8)
    return low, high
