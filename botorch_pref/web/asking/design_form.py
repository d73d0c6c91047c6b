"""Form for a design of a person's own."""

from __future__ import annotations

from typing import Any

from ax.core.parameter import (
    ChoiceParameter,
    DerivedParameter,
    FixedParameter,
    Parameter,
    ParameterType,
    RangeParameter,
)
from ax.core.search_space import SearchSpace

from botorch_pref.web.showing.number_table import named_unit, step

Field = dict[str, Any]


def design_form(space: SearchSpace, units: dict[str, str]) -> list[Field]:
    """Fields of a search space, one for each parameter that can be chosen.

    Args:
        space: Ax's.
        units: By name of the parameter.

    Returns:
        For each its ``name``, ``label``, ``unit`` and ``type``: ``number`` with
        ``lower``, ``upper`` and ``step``, or ``choice`` with ``values``.
    """
    return [
        _field(parameter, units)
        for parameter in space.parameters.values()
        if not isinstance(parameter, FixedParameter | DerivedParameter)
    ]


def _field(parameter: Parameter, units: dict[str, str]) -> Field:
    label, unit = named_unit(parameter.name)
    field: Field = {
        "name": parameter.name,
        "label": label,
        "unit": units.get(parameter.name, unit),
    }
    if isinstance(parameter, RangeParameter):
        whole = parameter.parameter_type is ParameterType.INT
        return field | {
            "type": "number",
            "lower": parameter.lower,
            "upper": parameter.upper,
            "step": 1 if whole else step(parameter),
            "log": parameter.log_scale,
        }
    assert isinstance(parameter, ChoiceParameter)
    return field | {"type": "choice", "values": list(parameter.values)}
