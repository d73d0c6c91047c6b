"""Check that some design satisfies the constraints of a search space."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ax.core.parameter import (
    ChoiceParameter,
    Parameter,
    ParameterType,
    RangeParameter,
)
from ax.core.parameter_constraint import ParameterConstraint
from ax.core.search_space import SearchSpace
from scipy.optimize import Bounds, LinearConstraint, milp

from botorch_pref.errors import ExperimentError


def check_feasible(space: SearchSpace) -> None:
    """Checks that some design satisfies all constraints: a mixed-integer programme.

    Args:
        space: Ax's search space.

    Raises:
        ExperimentError: None does; says which constraint cannot be, or that they
            contradict each other.
    """
    constraints = space.parameter_constraints
    if not constraints or _can_be(space, constraints):
        return
    alone = [c for c in constraints if not _can_be(space, [c])]
    which = ", ".join(_shown(c) for c in alone or constraints)
    why = (
        "no values in the ranges of its parameters satisfy"
        if alone
        else "no design satisfies all of"
    )
    raise ExperimentError(
        f"parameter_constraints cannot be: {why} {which}. Change it, or the ranges."
    )


def _can_be(space: SearchSpace, constraints: Sequence[ParameterConstraint]) -> bool:
    names = dict.fromkeys(name for c in constraints for name in c.constraint_dict)
    variables = [v for name in names for v in _variables(space.parameters[name])]
    rows = [
        LinearConstraint(
            [c.constraint_dict.get(v.parameter, 0.0) * v.value for v in variables],
            c.bound if c.is_equality else -math.inf,
            c.bound,
        )
        for c in constraints
    ]
    for name in names:
        if isinstance(space.parameters[name], ChoiceParameter):
            taken = [float(v.parameter == name) for v in variables]
            rows.append(LinearConstraint(taken, 1, 1))
    found = milp(
        [0.0] * len(variables),
        bounds=Bounds([v.lower for v in variables], [v.upper for v in variables]),
        integrality=[int(v.whole) for v in variables],
        constraints=rows,
    )
    # 2 is "infeasible"; anything else proves nothing.
    return bool(found.status != 2)


@dataclass(frozen=True)
class _Variable:
    """A number, or a choice, which is 1 where it is taken and then worth its value."""

    parameter: str
    lower: float
    upper: float
    whole: bool
    value: float = 1.0


def _variables(parameter: Parameter) -> list[_Variable]:
    if isinstance(parameter, ChoiceParameter):
        values = [float(value) for value in parameter.values]  # type: ignore[arg-type]
        return [_Variable(parameter.name, 0, 1, True, value) for value in values]
    assert isinstance(parameter, RangeParameter)
    whole = parameter.parameter_type is ParameterType.INT
    return [_Variable(parameter.name, parameter.lower, parameter.upper, whole)]


def _shown(constraint: ParameterConstraint) -> str:
    terms = (f"{w:g} * {name}" for name, w in constraint.constraint_dict.items())
    relation = "==" if constraint.is_equality else "<="
    return f"{' + '.join(terms)} {relation} {constraint.bound:g}"
