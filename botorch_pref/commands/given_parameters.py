"""Parameters of an experiment, as the command line has them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from botorch_pref.errors import ExperimentError

_BOUNDS = re.compile(r"\s*(-?[\d.]+(?:e-?\d+)?)\s*:\s*(-?[\d.]+(?:e-?\d+)?)\s*", re.I)


def given_parameters(given: Sequence[str]) -> list[Any]:
    """Ax's configurations of parameters.

    Args:
        given: For each its name, ``=`` and its values: ``14.0:22.0`` are the bounds of
            real numbers, ``1:3`` those of whole ones, ``a,b,c`` choices without an
            order.

    Raises:
        ExperimentError: One of them is neither.
    """
    return [_parameter(one) for one in given]


def _parameter(given: str) -> Any:
    from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig

    name, _, values = given.partition("=")
    name = name.strip()
    if not name or not values.strip():
        raise ExperimentError(
            f"--parameter {given!r} should be NAME=VALUES, as in 'dose=14.0:22.0' or "
            "'bean=a,b,c'."
        )
    found = _BOUNDS.fullmatch(values)
    if found is None:
        if ":" in values and "," not in values:
            raise ExperimentError(
                f"--parameter {given!r}: the bounds {values.strip()!r} should be two "
                "finite numbers, as in '14.0:22.0'; choices have commas between them."
            )
        choices = [choice.strip() for choice in values.split(",")]
        return ChoiceParameterConfig(
            name=name, parameter_type="str", values=choices, is_ordered=False
        )
    whole = all(bound.lstrip("-").isdigit() for bound in found.groups())
    make = int if whole else float
    try:
        lower, upper = map(make, found.groups())
    except ValueError as error:
        raise ExperimentError(f"--parameter {given!r}: {error}.") from error
    return RangeParameterConfig(
        name=name, parameter_type="int" if whole else "float", bounds=(lower, upper)
    )
