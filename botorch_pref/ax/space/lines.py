"""Lines of designs in a search space: their ends, and the designs between them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
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

from botorch_pref.acquisition.line_search import ALONG
from botorch_pref.ax.answer_kinds import DECIMALS, checked_position
from botorch_pref.ax.space.differences import shares
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
        """Checks that the ends differ, and only where values lie in between."""
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
        values = {
            name: _between(
                self.space.parameters[name], self.first[name], self.last[name], share
            )
            for name in self.moving
        }
        return _readable_design(self.space, self.first, values)

    def tried(self, position: float) -> float:
        """Returns the position of the design that is shown at a position.

        That design is rounded, and so a little further along the line or back: an
        answer is about it, and has its position.
        """
        design = self.at(position)
        start, end, middle = shares(self.space, [self.first, self.last, design])
        along = end - start
        # The nearest point of the line to the design.
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
    """Returns the value at a share of the way between two, as Ax has its type.

    The way is even on the parameter's scale: in logarithms, or in places of a choice.
    """
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


_DIGITS = 3
"""Digits of a range's numbers, without decimals at least: a hundred steps or more."""


def has_digits(parameter: Parameter) -> TypeGuard[RangeParameter]:
    """Tells whether values of a parameter are numbers whose digits have no end."""
    if not isinstance(parameter, RangeParameter) or parameter.logit_scale:
        return False
    return parameter.parameter_type is ParameterType.FLOAT


def num_decimals(parameter: RangeParameter, value: float) -> int:
    """Counts the decimals of a number of a parameter, as people are shown it.

    Three digits of the range count, and all that are before the point. On a log scale
    they are those of the number itself, where it is less than the range.
    """
    width = float(parameter.upper - parameter.lower)
    if parameter.log_scale:
        # As far as to the next value that is about e times as large, or to the end.
        width = min(width, value)
    # Rounded, since bounds from 22.3 to 32.3 are 9.999999999999996 apart.
    return max(0, _DIGITS - 1 - math.floor(round(math.log10(width), 9)))


def readable(parameter: RangeParameter, value: float) -> float:
    """Returns a number of a parameter with the digits that people are shown.

    See `num_decimals`. It stays within the range.
    """
    return readable_neighbours(parameter, value)[0]


def readable_neighbours(parameter: RangeParameter, value: float) -> tuple[float, float]:
    """Returns the `readable` number, and the next one on the other side of a value."""
    decimals = num_decimals(parameter, value)
    nearest = round(value, decimals)
    opposite = round(
        nearest + math.copysign(10.0**-decimals, value - nearest), decimals
    )
    lower, upper = float(parameter.lower), float(parameter.upper)
    # Zero is added so that nobody is shown a negative zero.
    near, far = (min(max(x, lower), upper) + 0.0 for x in (nearest, opposite))
    return near, far


def _rounded(parameter: Parameter, value: Any) -> Any:
    return readable(parameter, value) if has_digits(parameter) else value


def line_toward(
    space: SearchSpace, start: TParameterization, toward: TParameterization
) -> Line | None:
    """Returns the line through two designs, from edge to edge of the search space.

    Only numbers with digits move along it. Whole numbers and choices stay as they are
    at the start: rounded to their steps, designs would leave the line. None where the
    two designs have the same numbers.
    """
    numbers = [n for n, p in space.tunable_parameters.items() if has_digits(p)]
    moving = [name for name in numbers if start[name] != toward[name]]
    if not moving:
        return None
    low, high = _shares_within(space, start, toward, moving)

    def edge(share: float) -> TParameterization:
        """Returns the design at a share of the way, see `_shares_within`."""
        values = {}
        for name in moving:
            parameter: Any = space.parameters[name]
            value = _between(parameter, start[name], toward[name], share)
            # Rounding may lead beyond an edge.
            values[name] = min(max(value, parameter.lower), parameter.upper)
        return _readable_design(space, start, values)

    start_value: Any = start[moving[0]]
    end_value: Any = toward[moving[0]]
    # The first number that moves grows along the line, as on a slider or a knob.
    first, last = map(edge, (low, high) if start_value < end_value else (high, low))
    return None if first == last else Line(space, first, last)


def _shares_within(
    space: SearchSpace,
    start: TParameterization,
    toward: TParameterization,
    moving: Sequence[str],
) -> tuple[float, float]:
    """Finds how far the line through two designs goes within ranges and constraints.

    Returns the least and the largest share of the way from ``start`` to ``toward``, on
    the scales of the parameters that are ``moving``; below 0 and above 1 it goes beyond
    them.
    """
    low, high = -math.inf, math.inf
    for name in moving:
        parameter: Any = space.parameters[name]
        scale = math.log if parameter.log_scale else float
        ends = (parameter.lower, parameter.upper, start[name], toward[name])
        lower, upper, first, last = map(scale, ends)
        shares = sorted((end - first) / (last - first) for end in (lower, upper))
        low, high = max(low, shares[0]), min(high, shares[1])
    for limit in space.parameter_constraints:
        weights: dict[str, Any] = limit.constraint_dict
        start_values: dict[str, Any] = {name: start[name] for name in weights}
        end_values: dict[str, Any] = {n: toward[n] for n in weights if n in moving}
        # At a share s the left side is that at the start plus s times the slope.
        slopes = [weights[n] * (x - start_values[n]) for n, x in end_values.items()]
        slope = sum(slopes)
        room = limit.bound - sum(weights[n] * x for n, x in start_values.items())
        if abs(slope) <= ALONG * sum(map(abs, slopes)):
            continue
        if slope > 0:
            high = min(high, room / slope)
        elif slope < 0:
            low = max(low, room / slope)
    return low, high


def _readable_design(
    space: SearchSpace, design: TParameterization, values: Mapping[str, Any]
) -> TParameterization:
    """Returns a design with some other values, rounded as people are shown them.

    The values are not rounded where that would leave the constraints. Derived
    parameters are computed anew.
    """
    rounded = {name: _rounded(space.parameters[name], v) for name, v in values.items()}
    readable_design = complete(space, {**design, **rounded})
    if space.check_membership(readable_design):
        return readable_design
    return complete(space, {**design, **values})


def line_through(
    space: SearchSpace, design: TParameterization, name: str
) -> Line | None:
    """Returns the line through a design on which one parameter moves as far as it can.

    None where constraints leave it one value.
    """
    parameter = space.parameters[name]

    def with_value(value: Any) -> TParameterization:
        return complete(space, {**design, name: value})

    if isinstance(parameter, ChoiceParameter):
        values = [v for v in parameter.values if space.check_membership(with_value(v))]
        low, high = values[0], values[-1]
    else:
        assert isinstance(parameter, RangeParameter)
        low, high = _limits(space, design, parameter)
    first, last = (_readable_design(space, design, {name: end}) for end in (low, high))
    return None if first == last else Line(space, first, last)


def _limits(
    space: SearchSpace, design: TParameterization, parameter: RangeParameter
) -> tuple[float, float]:
    """Finds the ends of a number that constraints allow while the others stay."""
    name = parameter.name
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
