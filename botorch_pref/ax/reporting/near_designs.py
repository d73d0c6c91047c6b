"""Designs around another one, among which a slightly better one would be."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from ax.core.arm import Arm
from ax.core.parameter import ParameterType, RangeParameter
from ax.core.search_space import SearchSpace

from botorch_pref.ax.space.own_options import whole_design
from botorch_pref.evaluation.progress.stopping_candidates import near_points


def near_designs(
    space: SearchSpace, design: Mapping[str, Any], num_designs: int, seed: int
) -> list[Arm]:
    """Designs that differ a little in all parameters with a range, as near points do.

    Args:
        space: Ax's.
        design: The one they are around, of the space.
        num_designs: How many are drawn.
        seed: Of the draws.

    Returns:
        Those that satisfy the constraints; choices are those of the design.
    """
    tunable = space.tunable_parameters
    ranged = [p for p in tunable.values() if isinstance(p, RangeParameter)]
    if not ranged:
        return []
    shares = [_share(parameter, design[parameter.name]) for parameter in ranged]
    cube = torch.tensor([[0.0], [1.0]]).double().expand(2, len(ranged))
    point = torch.tensor([shares], dtype=torch.double)
    arms = []
    for row in near_points(point, cube, num_designs, seed).tolist():
        moved = {p.name: _value(p, share) for p, share in zip(ranged, row, strict=True)}
        kept = {name: design[name] for name in tunable}
        arms.append(Arm(parameters=whole_design(space, kept | moved)))
    return [arm for arm in arms if space.check_membership(arm.parameters)]


def _share(parameter: RangeParameter, value: float) -> float:
    """A value as a share of the range, on its scale."""
    lower, upper = float(parameter.lower), float(parameter.upper)
    if parameter.log_scale:
        return math.log(value / lower) / math.log(upper / lower)
    return (value - lower) / (upper - lower)


def _value(parameter: RangeParameter, share: float) -> int | float:
    """The value at a share of the range, rounded as the parameter is."""
    lower, upper = float(parameter.lower), float(parameter.upper)
    if parameter.log_scale:
        value = lower * (upper / lower) ** share
    else:
        value = lower + share * (upper - lower)
    if parameter.parameter_type is ParameterType.INT:
        return round(value)
    # Rounding must not leave the range.
    return min(max(float(parameter.cast(value)), lower), upper)
