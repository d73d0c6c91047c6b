"""Numbers of designs as people are shown them: few digits, and whole ones."""

import itertools

import pytest
import torch
from ax.core.observation import ObservationFeatures
from ax.core.parameter import ChoiceParameter, ParameterType, RangeParameter
from ax.core.parameter_constraint import ParameterConstraint
from ax.core.search_space import SearchSpace
from cases import in_turn
from hypothesis import given
from hypothesis import strategies as st

from botorch_pref.ax.generation.numbers import (
    NearestIntegers,
    PlacesInOrder,
    ReadableNumbers,
    UnitNumbers,
    WholeNumbers,
)
from botorch_pref.ax.generation.search import design_space

FLOAT, INT = ParameterType.FLOAT, ParameterType.INT


def shown(transform, **numbers: float) -> dict:
    features = ObservationFeatures(parameters=dict(numbers))
    (features_back,) = transform.untransform_observation_features([features])
    return features_back.parameters


@in_turn(
    ("lower", "upper", "log_scale", "number", "expected"),
    [
        (0, 10, False, 9.999999999999998, 10.0),
        (0, 10, False, 3.33333333, 3.3),
        (14, 22, False, 17.283944732, 17.28),
        (0, 0.001, False, 0.000123456789, 1.2e-4),
        # All digits before the point count.
        (0, 1e6, False, 123456.789, 123457.0),
        # Rounding does not leave the range.
        (1 / 3, 2 / 3, False, 1 / 3, 1 / 3),
        (1 / 3, 2 / 3, False, 2 / 3, 2 / 3),
        # Three digits of the number itself on a log scale.
        (1e-4, 100, True, 99.999999999999, 100.0),
        (1e-4, 100, True, 0.000123456789, 0.000123),
    ],
)
def test_digits_that_matter(lower, upper, log_scale, number, expected) -> None:
    parameter = RangeParameter("x", FLOAT, lower, upper, log_scale=log_scale)
    assert shown(ReadableNumbers(SearchSpace([parameter])), x=number) == {"x": expected}


@pytest.mark.parametrize("lower", [-5.0, 0.0])
def test_nobody_is_shown_a_negative_zero(lower: float) -> None:
    space = SearchSpace([RangeParameter("x", FLOAT, lower, 5)])
    assert str(shown(ReadableNumbers(space), x=-1e-9)["x"]) == "0.0"


@given(x=st.floats(0, 1), y=st.floats(0, 1))
def test_what_satisfies_the_constraints_still_does(x, y) -> None:
    names = [RangeParameter(name, FLOAT, 0, 1) for name in "xy"]
    space = SearchSpace(names, [ParameterConstraint(inequality="x + y <= 0.33333333")])
    before = {"x": x, "y": y}
    after = shown(ReadableNumbers(space), **before)
    assert space.check_membership(after) or not space.check_membership(before)
    # Where the nearest is forbidden, the next one on the other side.
    assert abs(after["x"] - x) <= 1e-2 * (1 + 1e-9)
    # Whole numbers and choices are none of its business.
    search_space = SearchSpace([RangeParameter("n", INT, 0, 9)])
    assert shown(ReadableNumbers(search_space), n=3) == {"n": 3}


@given(cuts=st.lists(st.floats(0, 1), min_size=1, max_size=3))
def test_shares_that_fill_the_whole_have_few_digits_too(cuts: list[float]) -> None:
    ends = [0.0, *sorted(cuts), 1.0]
    parts = {f"x{i}": b - a for i, (a, b) in enumerate(itertools.pairwise(ends))}
    whole = ParameterConstraint(inequality=f"{' + '.join(parts)} <= 1")
    space = SearchSpace([RangeParameter(n, FLOAT, 0, 1) for n in parts], [whole])
    after = shown(ReadableNumbers(space), **parts)
    assert space.check_membership(after)
    assert after == {name: round(x, 2) for name, x in after.items()}
    assert all(abs(after[name] - x) <= 1e-2 * (1 + 1e-9) for name, x in parts.items())


def space(constraint: str) -> SearchSpace:
    return SearchSpace(
        [
            RangeParameter("x", FLOAT, 0, 10),
            RangeParameter("m", INT, 1, 4),
            RangeParameter("n", INT, -2, 3),
            RangeParameter("free", INT, 0, 9),
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
    design = {"x": x, "m": m, "n": n, "free": free}
    p = shown(WholeNumbers(space(constraint)), **design)
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
    if allowed(design):
        # A feasible number has a feasible whole number beside it.
        assert allowed(p)
        assert 1 <= p["m"] <= 4
        assert -2 <= p["n"] <= 3


@in_turn(
    ("transform", "bounds"), [(WholeNumbers, (1, 4)), (NearestIntegers, (0.5, 4.5))]
)
def test_the_range_of_relaxed_integers(transform, bounds) -> None:
    """It ends at whole numbers; for points that are spread, each has the same share."""
    original = space("x + m <= 9")
    m = transform(original).transform_search_space(original).parameters["m"]
    assert m.parameter_type is FLOAT
    assert (m.lower, m.upper) == pytest.approx(bounds, abs=1e-4)
    assert original.parameters["m"].parameter_type is INT


@in_turn(
    ("values", "weight", "most"),
    [
        ([40, 41, 42, 43, 44], 1, 43.05),
        ([0.0, 0.5, 1.0, 1.5], -2, -1.05),
        ([1, 2, 3, 9], 1, 4.05),
        ([1, 2, 3, 9], -1, -2.05),
    ],
)
def test_places_satisfy_what_their_values_satisfy(values, weight, most) -> None:
    kind = INT if isinstance(values[0], int) else FLOAT
    ordered = ChoiceParameter("a", kind, values, is_ordered=True)
    limit = ParameterConstraint(inequality=f"{weight} * a + b <= {most}")
    space = SearchSpace([ordered, RangeParameter("b", FLOAT, 0, 2)], [limit])
    places = PlacesInOrder(space).transform_search_space(space.clone())
    for (place, value), b in itertools.product(enumerate(values), (0, 0.5, 1, 2)):
        allowed = weight * value + b <= most
        is_member = places.check_membership({"a": place, "b": b})
        # Of steps that are not even no linear constraint of places says the same.
        assert is_member == allowed or (is_member and values == [1, 2, 3, 9])
    moved, transforms = space.clone(), []
    for transform in (PlacesInOrder, WholeNumbers, UnitNumbers):
        transforms.append(transform(moved))
        moved = transforms[-1].transform_search_space(moved)
    full_space = design_space(space, transforms, ["a", "b"])
    for (place, value), b in itertools.product(enumerate(values), (0, 0.5, 1, 2)):
        design = torch.tensor([[place / (len(values) - 1), b / 2]], dtype=torch.float64)
        assert full_space.allows(design).item() == (weight * value + b <= most)
        coordinates = full_space.coordinates(design)
        assert torch.equal(full_space.features(coordinates), design)
