"""Integers that are relaxed and rounded under constraints."""

import itertools

import pytest
from ax.core.observation import ObservationFeatures
from ax.core.parameter import ParameterType, RangeParameter
from ax.core.parameter_constraint import ParameterConstraint
from ax.core.search_space import SearchSpace
from hypothesis import given
from hypothesis import strategies as st

from botorch_pref.ax.generation.numbers import NearestIntegers, WholeNumbers


def space(constraint: str) -> SearchSpace:
    def number(name, kind, lower, upper):
        return RangeParameter(name, parameter_type=kind, lower=lower, upper=upper)

    return SearchSpace(
        [
            number("x", ParameterType.FLOAT, 0, 10),
            number("m", ParameterType.INT, 1, 4),
            number("n", ParameterType.INT, -2, 3),
            number("free", ParameterType.INT, 0, 9),
        ],
        [ParameterConstraint(inequality=constraint)],
    )


CONSTRAINTS = {
    "x + 2*m + n <= 8": lambda p: p["x"] + 2 * p["m"] + p["n"] <= 8 + 1e-8,
    "x - m - 3*n <= 2": lambda p: p["x"] - p["m"] - 3 * p["n"] <= 2 + 1e-8,
}


@pytest.mark.parametrize("constraint", CONSTRAINTS)
@given(
    x=st.floats(0, 10),
    m=st.floats(1, 4),
    n=st.floats(-2, 3),
    free=st.floats(0, 9),
)
def test_the_nearest_whole_numbers_that_are_allowed(constraint, x, m, n, free) -> None:
    allowed = CONSTRAINTS[constraint]
    transform = WholeNumbers(space(constraint))
    given = {"x": x, "m": m, "n": n, "free": free}
    features = ObservationFeatures(parameters=dict(given))
    (rounded,) = transform.untransform_observation_features([features])
    p = rounded.parameters
    assert p["x"] == x
    assert p["free"] == round(free)
    assert all(isinstance(p[name], int) for name in ("m", "n", "free"))

    def distance(q):
        return abs(q[0] - m) + abs(q[1] - n)

    feasible = [
        q
        for q in itertools.product(range(1, 5), range(-2, 4))
        if allowed({"x": x, "m": q[0], "n": q[1]})
        and abs(q[0] - m) < 1
        and abs(q[1] - n) < 1
    ]
    if feasible:
        assert distance((p["m"], p["n"])) <= min(map(distance, feasible)) + 1e-12
    if allowed(given):
        # A feasible number has a feasible whole number beside it.
        assert allowed(p)
        assert 1 <= p["m"] <= 4
        assert -2 <= p["n"] <= 3


def test_the_relaxed_range_ends_at_whole_numbers() -> None:
    original = space("x + m <= 9")
    relaxed = WholeNumbers(original).transform_search_space(original)
    m = relaxed.parameters["m"]
    assert m.parameter_type is ParameterType.FLOAT
    assert (m.lower, m.upper) == (1.0, 4.0)
    assert original.parameters["m"].parameter_type is ParameterType.INT


def test_spread_points_give_each_integer_the_same_share() -> None:
    original = space("x + m <= 9")
    m = NearestIntegers(original).transform_search_space(original).parameters["m"]
    assert (m.lower, m.upper) == pytest.approx((0.5, 4.5), abs=1e-4)
