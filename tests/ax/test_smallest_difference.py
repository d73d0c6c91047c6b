"""Smallest differences of parameters, and of designs."""

import math

import pytest
from ax.core.parameter import ChoiceParameter, ParameterType, RangeParameter
from ax.core.search_space import SearchSpace
from cases import in_turn

from botorch_pref.ax.space.differences import (
    check_smallest_difference,
    column_widths,
    in_smallest_differences,
    plain_differences,
)
from botorch_pref.errors import ExperimentError

SPACE = SearchSpace(
    [
        RangeParameter("dose", ParameterType.FLOAT, 14, 22),
        RangeParameter("grind", ParameterType.FLOAT, 0.1, 10, log_scale=True),
        RangeParameter("shots", ParameterType.INT, 0, 10),
        RangeParameter("seconds", ParameterType.INT, 0, 200),
        ChoiceParameter("cup", ParameterType.INT, [1, 2, 4], is_ordered=True),
        ChoiceParameter(
            "bean",
            ParameterType.STRING,
            ["a", "b", "c"],
            is_ordered=False,
            sort_values=False,
        ),
    ]
)
DESIGN = {
    "dose": 18.0,
    "grind": 1.0,
    "shots": 3,
    "seconds": 50,
    "cup": 2,
    "bean": "a",
}


def test_widths_are_shares_of_ranges_and_steps_of_choices() -> None:
    widths = column_widths(SPACE, 0.02)
    assert widths["dose"] == widths["grind"] == 0.02
    # Whole numbers differ by one at least, and by as many as the share has.
    assert widths["shots"] == pytest.approx(1 / 10)
    assert widths["seconds"] == pytest.approx(4 / 200)
    assert widths["cup"] == 1 / 2
    assert widths["bean_OH_PARAM_1"] == 1


def test_widths_by_name_are_in_the_unit_of_the_parameter() -> None:
    design = {"dose": 0.5, "grind": 1.1, "shots": 2}
    widths = column_widths(SPACE, design)
    assert widths["dose"] == pytest.approx(0.5 / 8)
    assert widths["grind"] == pytest.approx(math.log(1.1) / math.log(100))
    assert widths["shots"] == pytest.approx(2 / 10)
    assert widths["seconds"] == pytest.approx(2 / 200)


@in_turn(
    ("change", "answer"),
    [
        ({"dose": 18.1}, False),
        ({"dose": 18.17}, True),
        # Three quarters of what could be told, twice.
        ({"dose": 18.12, "grind": 10**0.03}, True),
        ({"dose": 18.12, "grind": 10**0.02}, False),
        ({"shots": 4}, True),
        ({"seconds": 53}, False),
        ({"seconds": 54}, True),
        ({"cup": 4}, True),
        ({"bean": "c"}, True),
        ({}, False),
    ],
)
def test_what_can_be_told(change, answer) -> None:
    first, second = in_smallest_differences(SPACE, 0.02, [DESIGN, DESIGN | change])
    distance = float((first - second).square().sum())
    assert (distance >= 1 - 1e-9) is answer


@in_turn(
    ("difference", "message"),
    [
        (0.5, "below 0.5"),
        (-0.1, "below 0.5"),
        ("much", "below 0.5"),
        (True, "below 0.5"),
        ({"bean": 1}, "'bean', which is no number"),
        ({"doze": 1}, "'doze', which is no number"),
        ({"dose": 0}, "'dose' is 0.0; give a positive number"),
        ({"dose": 4}, "less than half"),
        ({"grind": 0.9}, "a factor above 1"),
    ],
)
def test_what_is_no_smallest_difference(difference, message) -> None:
    with pytest.raises(ExperimentError, match=message):
        check_smallest_difference(SPACE, plain_differences(difference))
