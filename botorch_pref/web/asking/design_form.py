"""Form for designs of a person's own, and what is wrong with those that come back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ax.core.parameter import ChoiceParameter, ParameterType, RangeParameter
from ax.core.parameter_constraint import ParameterConstraint
from ax.core.search_space import SearchSpace

from botorch_pref.errors import ExperimentError
from botorch_pref.web.showing.number_table import named_unit, step, written

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
    return [_field(parameter, units) for parameter in _chosen(space)]


def check_designs(space: SearchSpace, designs: Sequence[Mapping[str, Any]]) -> None:
    """Checks designs that were entered, in the words of the form.

    Args:
        space: Ax's.
        designs: The values of each by the name of the parameter; those that nobody
            chooses are checked elsewhere.

    Raises:
        ExperimentError: A value is missing, or cannot be; or two designs look the same.
    """
    for design in designs:
        for parameter in _chosen(space):
            if parameter.name not in design:
                raise ExperimentError(f"Choose a value of {_label(parameter.name)}.")
            _check_value(parameter, design[parameter.name])
        for constraint in space.parameter_constraints:
            _check_together(constraint, design)
    looks = [
        tuple(written(one, design[one.name]) for one in _chosen(space))
        for design in designs
    ]
    if len(set(looks)) < len(looks):
        raise ExperimentError(
            "Two of these designs look the same. Change a value of one, so that they "
            "can be told apart."
        )


def _chosen(space: SearchSpace) -> list[RangeParameter | ChoiceParameter]:
    return [
        parameter
        for parameter in space.parameters.values()
        if isinstance(parameter, RangeParameter | ChoiceParameter)
    ]


def _label(name: str) -> str:
    return named_unit(name)[0]


def _check_value(parameter: RangeParameter | ChoiceParameter, value: Any) -> None:
    label = _label(parameter.name)
    if isinstance(parameter, ChoiceParameter):
        if value not in parameter.values:
            allowed = " or ".join(written(parameter, one) for one in parameter.values)
            raise ExperimentError(f"The value of {label} has to be {allowed}.")
        return
    lower, upper = (f"{end:g}" for end in (parameter.lower, parameter.upper))
    allowed = f"The value of {label} has to be a number from {lower} to {upper}."
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ExperimentError(allowed)
    if not parameter.lower <= value <= parameter.upper:
        raise ExperimentError(allowed)
    if parameter.parameter_type is ParameterType.INT and value != int(value):
        raise ExperimentError(f"The value of {label} has to be a whole number.")


def _check_together(constraint: ParameterConstraint, design: Mapping[str, Any]) -> None:
    """Checks a linear constraint of several values."""
    weights = constraint.constraint_dict
    if not weights.keys() <= design.keys() or constraint.check(
        {name: float(design[name]) for name in weights}
    ):
        return
    ordered = sorted(weights.items(), key=lambda one: (one[1] < 0, one[0]))
    terms = [
        ("" if abs(weight) == 1.0 else f"{abs(weight):g} times ") + _label(name)
        for name, weight in ordered
    ]
    signs = ["- " if weight < 0 else "+ " for _, weight in ordered]
    total = " ".join(map("".join, zip(signs, terms, strict=True))).removeprefix("+ ")
    limit = "" if constraint.is_equality else "at most "
    raise ExperimentError(
        f"These values do not go together: {total} has to be {limit}"
        f"{constraint.bound:g}."
    )


def _field(parameter: RangeParameter | ChoiceParameter, units: dict[str, str]) -> Field:
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
    return field | {"type": "choice", "values": list(parameter.values)}
