"""Planes through a design: which there are, and which of them is asked about."""

import itertools
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Generator

from botorch_pref import (
    Choices,
    EPPreferenceGP,
    FeedbackError,
    default_model,
    next_question,
    recommend,
)
from botorch_pref.acquisition.design_space import DesignSpace
from botorch_pref.acquisition.plane_search import best_plane, planes_through

DOUBLE = torch.float64
BOUNDS = torch.tensor(
    [[0.0, -1.0, 1.0, 0.0, 0.0], [2.0, 3.0, 5.0, 1.0, 1.0]], dtype=DOUBLE
)
RANGES = BOUNDS.T.tolist()
# x_0 + x_1 <= 3, and x_2 in whole numbers, which were listed in no order.
LIMIT = (torch.tensor([0, 1]), torch.tensor([-1.0, -1.0], dtype=DOUBLE), -3.0)
STEPS = {2: [3.0, 1.0, 2.0, 5.0, 4.0]}
OF_SPACE: dict[str, Any] = {
    "inequality_constraints": [LIMIT],
    "categorical": [[3, 4]],
    "discrete_dims": STEPS,
}
SPACE = DesignSpace.from_bounds(BOUNDS, **OF_SPACE)
ROOMY = DesignSpace.from_bounds(BOUNDS, categorical=[[3, 4]], discrete_dims=STEPS)


def is_design(x: list[float]) -> bool:
    """Tells whether the space above has a design, in plain arithmetic."""
    within = (
        low - 1e-5 <= v <= high + 1e-5 for v, (low, high) in zip(x, RANGES, strict=True)
    )
    return x[0] + x[1] <= 3 + 1e-5 and all(within)


def grid(
    centre: list[float], pair: tuple[int, int], share: float, spot: tuple[int, int]
) -> list[list[float]]:
    """Lists nine designs of which the centre has a place, by hand."""
    designs = []
    for a, b in itertools.product(range(3), range(3)):
        x = [*centre]
        for column, place, middle in zip(pair, (a, b), spot, strict=True):
            low, high = RANGES[column]
            step = share * (high - low)
            x[column] += (round(step) if column == 2 else step) * (place - middle)
        designs.append(x)
    return designs


def first_that_fits(
    centre: list[float], pair: tuple[int, int], share: float
) -> list[list[float]] | None:
    """Finds the plane whose middle is nearest to the centre of all that have room."""
    spots = itertools.product(range(3), range(3))
    for spot in sorted(spots, key=lambda s: (s[0] - 1) ** 2 + (s[1] - 1) ** 2):
        designs = grid(centre, pair, share, spot)
        if all(map(is_design, designs)) and len({*map(tuple, designs)}) == 9:
            return designs
    return None


@settings(max_examples=20, deadline=None)
@given(st.floats(0, 1), st.floats(0, 1), st.sampled_from([1.0, 2.0, 3.0, 4.0, 5.0]))
def test_all_planes_that_have_room_are_there(
    first: float, second: float, whole: float
) -> None:
    top = min(3.0, 3 - 2 * first)
    centre = [2 * first, -1 + second * (top + 1), whole, 0.0, 1.0]
    planes = planes_through(
        SPACE, torch.tensor([centre], dtype=DOUBLE), 3, 0.01 * SPACE.widths
    )
    by_hand = [
        first_that_fits(centre, pair, share)
        for share in (1 / 3, 1 / 9, 1 / 27)
        for pair in itertools.combinations(range(3), 2)
    ]
    expected = torch.tensor([e for e in by_hand if e is not None], dtype=DOUBLE)
    torch.testing.assert_close(planes, expected)
    assert bool((planes == torch.tensor(centre, dtype=DOUBLE)).all(-1).any(-1).all())


def test_designs_of_a_plane_are_in_rows_of_equal_steps() -> None:
    centre = torch.tensor([[0.9, 0.9, 3.0, 1.0, 0.0]], dtype=DOUBLE)
    planes = planes_through(ROOMY, centre, 5, 0.01 * ROOMY.widths)
    # The whole number has five values, which smaller steps do not reach.
    assert len(planes) == 3 + 2
    for plane in planes.view(-1, 5, 5, 5):
        along, across = plane.diff(dim=1), plane.diff(dim=0)
        torch.testing.assert_close(along, along[:1, :1].expand_as(along))
        torch.testing.assert_close(across, across[:1, :1].expand_as(across))
        for step in (along[0, 0], across[0, 0]):
            assert int((step != 0).sum()) == 1
            assert float(step.max()) > 0
        assert torch.equal(plane[2, 2], centre[0])


def test_who_tells_a_fifth_of_a_range_sees_no_smaller_steps() -> None:
    centre = torch.tensor([[0.9, 0.9, 3.0, 1.0, 0.0]], dtype=DOUBLE)
    planes = planes_through(ROOMY, centre, 3, 0.2 * ROOMY.widths)
    # A third of the range is left, of each pair.
    assert len(planes) == 3


@pytest.fixture(scope="module")
def model() -> EPPreferenceGP:
    """A utility of the first two of three inputs."""
    X = torch.rand(36, 3, generator=Generator().manual_seed(0), dtype=DOUBLE)
    sets = torch.arange(36).view(4, 9)
    utility = -(X[:, :2] - torch.tensor([0.5, 0.3])).square().sum(-1)
    return default_model(
        X, Choices(sets, sets.gather(1, utility[sets].argmax(1)[:, None])[:, 0])
    )


CUBE = torch.tensor([[0.0] * 3, [1.0] * 3], dtype=DOUBLE)


def expected_best(model: EPPreferenceGP, plane: torch.Tensor) -> tuple[float, float]:
    """Estimates a plane's best less its centre's mean, and the standard error."""
    with torch.no_grad():
        posterior = model.posterior(plane)
    eigenvalues, vectors = torch.linalg.eigh(posterior.distribution.covariance_matrix)
    root = vectors * eigenvalues.clamp_min(0.0).sqrt()
    normal = torch.randn(
        40_000, len(plane), generator=Generator().manual_seed(1), dtype=DOUBLE
    )
    draws = posterior.mean.squeeze(-1) + normal @ root.T
    best = draws.amax(-1)
    return float(best.mean()), float(best.std()) / 200


def test_the_plane_that_is_asked_about_has_the_largest_expected_best(
    model: EPPreferenceGP,
) -> None:
    centre = recommend(model, CUBE).point
    smallest = torch.full((3,), 0.01)
    planes = planes_through(DesignSpace.from_bounds(CUBE), centre, 3, smallest)
    worths = [expected_best(model, plane) for plane in planes]
    best = max(range(len(planes)), key=lambda place: worths[place][0])
    others = [worth for place, (worth, _) in enumerate(worths) if place != best]
    # The difference is no chance of these draws.
    assert worths[best][0] - max(others) > 6 * worths[best][1]
    generator = Generator().manual_seed(0)
    chosen = best_plane(model, planes, centre, planes[:0], smallest, generator)
    assert torch.equal(chosen, planes[best])
    question = next_question(model, CUBE, 9, kind="plane", best=centre)
    assert torch.equal(question.options, planes[best])
    assert question.acquisition == "DuelingJointEUBO"


def test_a_plane_goes_through_the_recommended_design(model: EPPreferenceGP) -> None:
    question = next_question(model, CUBE, 25, kind="plane")
    again = next_question(model, CUBE, 25, kind="plane")
    assert torch.equal(question.options, again.options)
    point = recommend(model, CUBE).point
    # Two searches of one maximum, each from its own starts.
    gap = (question.options - point).norm(dim=-1).amin()
    assert float(gap) < 0.02


def test_a_plane_that_waits_is_not_asked_again(model: EPPreferenceGP) -> None:
    first = next_question(model, CUBE, 9, kind="plane").options
    pending = first.unsqueeze(0)
    other = next_question(model, CUBE, 9, kind="plane", pending=pending).options
    assert not torch.equal(first, other)
    assert bool((other.unsqueeze(1) == first).all(-1).any())


def test_before_there_are_three_answers_nine_designs_are_spread() -> None:
    question = next_question(None, BOUNDS, 9, kind="plane", **OF_SPACE)
    assert question.acquisition == "Sobol"
    assert len(question.options.unique(dim=0)) == 9
    assert bool(SPACE.allows(question.options).all())


@pytest.mark.parametrize(
    ("size", "arguments", "message"),
    [
        (4, {}, r"size is 4; a plane has 9 designs"),
        (16, {}, r"size is 16; a plane has 9 designs"),
        (9, {"goal": "understand"}, "goal is 'understand'"),
        (9, {"discrete": CUBE}, "A plane takes no discrete"),
        (9, {"beside": CUBE}, "A plane takes no beside"),
        (9, {"fixed_features": {0: 0.5, 1: 0.5}}, "No plane .* has room"),
    ],
)
def test_what_is_no_plane_is_refused(
    model: EPPreferenceGP, size: int, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(FeedbackError, match=message):
        next_question(model, CUBE, size, kind="plane", **arguments)
