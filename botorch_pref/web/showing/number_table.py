"""Table of an option's parameters, with units and the differences marked."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ax.core.parameter import FixedParameter, Parameter, RangeParameter
from ax.core.search_space import SearchSpace

from botorch_pref.errors import ExperimentError
from botorch_pref.web.showing.content import Contents, Row, Table

_UNIT = re.compile(r"(.*\S)\s*(?:\(([^()]+)\)|\[([^\[\]]+)\])")
"""A name that ends in its unit, as in "dose (g)" and "dose [g]"."""

_STEPS = 1000
"""A number is written so finely that its bounds are about so many steps apart."""


class NumberTable:
    """Table of parameters, which options are shown as by default.

    Parameters that are fixed are left out. A name that ends in its unit, as "dose (g)"
    does, gives it; others may be given.

    Args:
        units: By name of the parameter.

    Raises:
        ExperimentError: A unit of no parameter, at the first question.
    """

    def __init__(self, units: Mapping[str, str] | None = None) -> None:
        self.units = dict(units or {})

    def tables(
        self, space: SearchSpace, options: Sequence[Mapping[str, Any]]
    ) -> list[Contents]:
        """The table of each option of a question.

        Args:
            space: Ax's.
            options: Parameters of each, by name.

        Raises:
            ExperimentError: There is a unit of no parameter.
        """
        if unknown := sorted(self.units.keys() - space.parameters.keys()):
            raise ExperimentError(
                f"There are units of {', '.join(unknown)}; the parameters are "
                f"{', '.join(space.parameters)}."
            )
        columns = [
            self._column(parameter, [option[parameter.name] for option in options])
            for parameter in space.parameters.values()
            if not isinstance(parameter, FixedParameter)
        ]
        return [(Table(rows),) for rows in zip(*columns, strict=True)]

    def _column(self, parameter: Parameter, values: Sequence[Any]) -> list[Row]:
        """The rows of one parameter, by option."""
        name, unit = named_unit(parameter.name)
        unit = self.units.get(parameter.name, unit)
        texts = [written(parameter, value) for value in values]
        differs = len(set(texts)) > 1
        ranks = [0] * len(texts)
        if differs and isinstance(parameter, RangeParameter):
            ranks = [(v == max(values)) - (v == min(values)) for v in values]
        return [
            Row(name, text, unit, differs, _place(parameter, value), rank)
            for text, value, rank in zip(texts, values, ranks, strict=True)
        ]


def named_unit(name: str) -> tuple[str, str]:
    """The name of a parameter without its unit, and the unit.

    Args:
        name: Perhaps with a unit in brackets at its end; underscores stand for blanks.
    """
    found = _UNIT.fullmatch(name)
    if found is None:
        return name.replace("_", " "), ""
    return found[1].replace("_", " "), found[2] or found[3]


def written(parameter: Parameter, value: Any) -> str:
    """A value as fine as its bounds need.

    Args:
        parameter: Ax's.
        value: One of its values.
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, float) or not isinstance(parameter, RangeParameter):
        return str(value)
    apart = parameter.upper - parameter.lower
    if parameter.log_scale:
        # As far as to the next value that is e times as large, about.
        apart = value
    return f"{value:.{_decimals(apart)}f}"


def step(parameter: RangeParameter) -> float:
    """The last decimal of a parameter's values as they are written.

    Args:
        parameter: Ax's, of real numbers.
    """
    apart = parameter.upper - parameter.lower
    if parameter.log_scale:
        apart = parameter.lower
    return float(10.0 ** -_decimals(apart))


def _decimals(apart: float) -> int:
    """Decimals of numbers of which about `_STEPS` lie within a width."""
    return max(0, math.ceil(math.log10(_STEPS / apart)) - 1)


def _place(parameter: Parameter, value: Any) -> float | None:
    if not isinstance(parameter, RangeParameter):
        return None
    lower, upper = parameter.lower, parameter.upper
    if parameter.log_scale:
        lower, upper, value = math.log(lower), math.log(upper), math.log(value)
    return float((value - lower) / (upper - lower))
