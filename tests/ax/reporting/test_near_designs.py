"""Designs around another one."""

import math

import torch
from ax.core.parameter import (
    ChoiceParameter,
    FixedParameter,
    ParameterType,
    RangeParameter,
)
from ax.core.parameter_constraint import ParameterConstraint
from ax.core.search_space import SearchSpace

from botorch_pref.ax.reporting.recommendation import near_designs

FLOAT, INT, STRING = ParameterType.FLOAT, ParameterType.INT, ParameterType.STRING
PARAMETERS = [
    RangeParameter("dose", FLOAT, 2.0, 4.0, digits=2),
    RangeParameter("rate", FLOAT, 1e-3, 10.0, log_scale=True),
    RangeParameter("shots", INT, 0, 100),
    ChoiceParameter("bean", STRING, ["a", "b"], is_ordered=False, sort_values=False),
    FixedParameter("water", FLOAT, 1.5),
]
DESIGN = {"dose": 3.0, "rate": 0.1, "shots": 50, "bean": "b", "water": 1.5}


def test_each_parameter_moves_by_shares_of_its_range() -> None:
    arms = near_designs(SearchSpace(PARAMETERS), DESIGN, 384, seed=0)
    assert len(arms) == 384
    designs = [arm.parameters for arm in arms]
    assert {d["bean"] for d in designs} == {"b"}
    assert {d["water"] for d in designs} == {1.5}
    shares = {
        "dose": [(d["dose"] - 3) / 2 for d in designs],
        "rate": [math.log(d["rate"] / 0.1) / math.log(1e4) for d in designs],
        "shots": [(d["shots"] - 50) / 100 for d in designs],
    }
    assert all(isinstance(d["shots"], int) for d in designs)
    assert all(d["dose"] == round(d["dose"], 2) for d in designs)
    for name, moved in shares.items():
        for i, deviation in enumerate((0.1, 0.03, 0.01)):
            z = torch.tensor(moved[128 * i : 128 * (i + 1)]).double() / deviation
            # Rounding to a hundredth adds a twelfth of its square to the variance;
            # four standard errors of 128 independent ones.
            step = {"dose": 0.005, "rate": 0.0, "shots": 0.01}[name]
            expected = 1 + (step / deviation) ** 2 / 12
            error = 4 * expected * math.sqrt(2 / 128)
            assert abs(float(z.square().mean()) - expected) < error


def test_constraints_hold_and_choices_alone_have_nothing_near() -> None:
    constraint = ParameterConstraint("dose <= 3.0")
    space = SearchSpace(PARAMETERS, parameter_constraints=[constraint])
    arms = near_designs(space, DESIGN, 60, seed=0)
    assert 0 < len(arms) < 60
    assert all(arm.parameters["dose"] <= 3 + 1e-8 for arm in arms)
    only = SearchSpace(PARAMETERS[3:])
    assert near_designs(only, {"bean": "b", "water": 1.5}, 60, seed=0) == []
