"""Numbers of designs as people are shown them."""

import pytest
from ax.core.observation import ObservationFeatures
from ax.core.parameter import ParameterType, RangeParameter
from ax.core.parameter_constraint import ParameterConstraint
from ax.core.search_space import SearchSpace
from hypothesis import given
from hypothesis import strategies as st

from botorch_pref.ax.generation.numbers import ReadableNumbers


def parameter(lower, upper, **more) -> RangeParameter:
    return RangeParameter("x", ParameterType.FLOAT, lower, upper, **more)


def shown(space: SearchSpace, **numbers: float) -> dict:
    features = ObservationFeatures(parameters=dict(numbers))
    transform = ReadableNumbers(space)
    (readable,) = transform.untransform_observation_features([features])
    return readable.parameters


@pytest.mark.parametrize(
    ("lower", "upper", "number", "expected"),
    [
        (0, 10, 9.999999999999998, 10.0),
        (0, 10, 3.33333333, 3.333),
        (14, 22, 17.283944732, 17.2839),
        (0, 0.001, 0.000123456789, 1.235e-4),
        (0, 1e6, 123456.789, 123500.0),
        # Rounding does not leave the range.
        (1 / 3, 2 / 3, 1 / 3, 1 / 3),
        (1 / 3, 2 / 3, 2 / 3, 2 / 3),
    ],
)
def test_digits_that_matter(lower, upper, number, expected) -> None:
    assert shown(SearchSpace([parameter(lower, upper)]), x=number) == {"x": expected}


def test_on_a_log_scale_five_digits_matter() -> None:
    space = SearchSpace([parameter(1e-4, 100, log_scale=True)])
    assert shown(space, x=99.999999999999) == {"x": 100.0}
    assert shown(space, x=0.000123456789) == {"x": 0.00012346}


@given(x=st.floats(0, 1), y=st.floats(0, 1))
def test_what_satisfies_the_constraints_still_does(x, y) -> None:
    names = [parameter(0, 1), RangeParameter("y", ParameterType.FLOAT, 0, 1)]
    space = SearchSpace(names, [ParameterConstraint(inequality="x + y <= 0.33333333")])
    before = {"x": x, "y": y}
    after = shown(space, **before)
    assert space.check_membership(after) or not space.check_membership(before)
    assert abs(after["x"] - x) <= 0.5e-4 * (1 + 1e-9)
    # Whole numbers and choices are none of its business.
    other = SearchSpace([RangeParameter("n", ParameterType.INT, 0, 9)])
    assert shown(other, n=3) == {"n": 3}
