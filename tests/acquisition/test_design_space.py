"""Designs of mixed, constrained and thin spaces, beside lists of all of them."""

import pytest
import torch

from botorch_pref.acquisition.design_space import DesignSpace, Listed
from botorch_pref.acquisition.polytopes import Frame
from botorch_pref.acquisition.space_arguments import space_of
from botorch_pref.errors import FeedbackError

D = torch.double
STEPS = [0.0, 0.25, 0.5, 0.75, 1.0]
CUBE = torch.tensor([[0.0] * 5, [1.0] * 5], dtype=D)
# A whole number of five values, three categories, and a number.
MIXED = DesignSpace.from_bounds(CUBE, categorical=[[1, 2, 4]], discrete_dims={0: STEPS})


def at_most(coefficients: list[float], limit: float) -> list:
    """Makes the constraint that a sum is at most some limit."""
    row = torch.tensor(coefficients, dtype=D)
    return [(torch.arange(len(row)), -row, -limit)]


def on_a_grid(grid: torch.Tensor) -> DesignSpace:
    """Makes a space of two numbers, of which the second is on a grid."""
    empty = torch.zeros(0, 2, dtype=D), torch.zeros(0, dtype=D)
    columns = torch.tensor([0, 1])
    return DesignSpace(
        torch.zeros(2, dtype=D), columns, CUBE[:, :2], (), empty, grids={1: grid}
    )


def test_features_are_those_of_the_lists() -> None:
    Z = torch.tensor([[0.37, 2.0, 1.0], [0.1, 0.0, 2.0]], dtype=D)
    expected = [[0.25, 0, 0, 0.37, 1], [0.5, 1, 0, 0.1, 0]]
    places = [entry.columns for entry in MIXED.listed]
    assert places == [[1, 2, 4], [0]]
    X = MIXED.features(Z)
    assert X.equal(torch.tensor(expected, dtype=D))
    assert MIXED.coordinates(X).equal(Z)


def test_numbers_of_many_values_are_rounded_and_keep_their_slopes() -> None:
    grid = torch.tensor([0.0, 0.1, 0.5, 1.0], dtype=D)
    space = on_a_grid(grid)
    Z = torch.tensor([[0.3, 0.29], [0.3, 0.31], [0.3, 0.9]], dtype=D).requires_grad_()
    X = space.features(Z)
    assert X[:, 1].tolist() == [0.1, 0.5, 1.0]
    (slope,) = torch.autograd.grad(X[:, 1].sum(), Z)
    assert slope.tolist() == [[0, 1]] * 3
    assert space.allows(X.detach()).all()
    assert not space.allows(Z.detach()).any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_features_stay_within_bounds(dtype: torch.dtype) -> None:
    """In one of ten boxes the lower end and the range add up to more than the upper."""
    pairs = torch.triu_indices(100, 100, offset=1) - 50
    bounds = pairs.to(dtype) / 100
    assert (bounds[0] + (bounds[1] - bounds[0]) > bounds[1]).any()
    space = DesignSpace.from_bounds(bounds)
    ends = torch.tensor([[0.0], [1.0]], dtype=dtype).expand_as(bounds)
    assert space.features(ends).equal(bounds)
    below = torch.full_like(bounds[0], 1 - torch.finfo(dtype).eps / 2)
    assert (space.features(below) <= bounds[1]).all()


def test_designs_are_all_combinations_that_constraints_allow() -> None:
    space = DesignSpace.from_bounds(
        CUBE[:, :4],
        categorical=[[1, 2, 3]],
        discrete_dims={0: STEPS},
        inequality_constraints=at_most([1.0], 0.6),
    )
    expected = {
        (x, *row)
        for x in (0.0, 0.25, 0.5)
        for row in ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
    }
    designs = space.designs()
    assert designs is not None
    assert {tuple(design) for design in designs.tolist()} == expected
    assert MIXED.designs() is None


def test_a_limit_says_how_many_designs_are_listed() -> None:
    numbers = torch.linspace(0, 1, 99, dtype=D)
    square = DesignSpace.from_bounds(
        CUBE[:, :2], discrete_dims={0: numbers.tolist(), 1: numbers.tolist()}
    )
    pairs = torch.cartesian_prod(numbers, numbers)
    designs = square.designs()
    assert designs is not None
    assert {*map(tuple, designs.tolist())} == {*map(tuple, pairs.tolist())}
    assert square.designs(3_000) is None
    table = DesignSpace.from_bounds(CUBE[:, :2], rows=pairs).designs(3_000)
    assert table is not None
    assert len(table) == 99**2
    grid = on_a_grid(numbers)
    assert grid.designs() is None


def test_what_listed_values_add_to_constraints_may_be_no_line() -> None:
    """Three values whose sizes are 0, 0.9 and 1, whatever their features are."""
    values = torch.tensor([[0.0], [0.5], [1.0]], dtype=D)
    sizes = torch.tensor([[0.0], [0.9], [1.0]], dtype=D)
    limits = -torch.ones(1, 1, dtype=D), -torch.ones(1, dtype=D)
    space = DesignSpace(
        torch.zeros(2, dtype=D),
        torch.tensor([0]),
        CUBE[:, :1],
        (Listed([1], values, -sizes),),
        limits,
    )
    shares = torch.linspace(0, 1, 21, dtype=D)
    X = torch.cartesian_prod(shares, values[:, 0])
    places = (2 * X[:, 1]).long()
    assert space.allows(X).equal(X[:, 0] + sizes[places, 0] <= 1 + 1e-9)
    drawn = space.features(space.draw(256, seed=0))
    assert space.allows(drawn).all()
    assert (drawn[:, 1] == 0.5).any()


@pytest.mark.parametrize("limit", [None, 0.8])
def test_designs_among_which_maxima_are_sought(limit: float | None) -> None:
    """Half anywhere, half near, all within constraints, and the point itself."""
    point = torch.tensor([[0.25, 1.0, 0.0, 0.5, 0.0]], dtype=D)
    constraints = [] if limit is None else at_most([1.0, 0, 0, 1, 0], limit)
    space = DesignSpace.from_bounds(
        CUBE,
        categorical=[[1, 2, 4]],
        discrete_dims={0: STEPS},
        inequality_constraints=constraints,
    )
    torch.manual_seed(0)
    designs = space.sample_near(point, 256, seed=0)
    assert len(designs) == 257
    assert designs[-1:].equal(point)
    assert space.allows(designs).all()
    differs = (designs[:, [1, 2, 4]] != point[:, [1, 2, 4]]).any(-1)
    # Two thirds of those anywhere have another category, and a third of those near.
    if limit is None:
        expected, variance = 128 * (2 / 3 + 1 / 3), 128 * 2 * 2 / 9
        assert abs(int(differs.sum()) - expected) < 4 * variance**0.5
    anywhere, near = (designs[:, 3] - 0.5).abs().split([128, 129])
    assert near.median() < 0.3 * anywhere.median()


def test_of_designs_that_can_be_listed_there_are_the_nearest() -> None:
    rows = torch.rand(200, 2, generator=torch.Generator().manual_seed(0), dtype=D)
    space, point = DesignSpace.from_bounds(CUBE[:, :2], rows=rows), rows[7:8]
    torch.manual_seed(0)
    designs = space.sample_near(point, 64, seed=0)
    apart = (rows - point).norm(dim=-1).sort().values
    nearest, others = (designs - point).norm(dim=-1).split(32)
    torch.testing.assert_close(nearest, apart[:32])
    assert len(designs.unique(dim=0)) == 64
    # One in each half of the others is as likely: five deviations.
    assert abs(int((others > apart[32:].median()).sum()) - 16) < 5 * 8**0.5
    line = DesignSpace.from_bounds(CUBE[:, :1], discrete_dims={0: STEPS})
    for largest, count in ((256, 5), (3, 3)):
        neighbours = line.sample_near(torch.zeros(1, 1, dtype=D), largest, seed=0)
        assert len(neighbours.unique(dim=0)) == len(neighbours) == count


@pytest.mark.parametrize("smallest_share", [0.999, 1.0])
def test_a_thin_space_keeps_as_many_designs(smallest_share: float) -> None:
    """Recipes whose parts make a whole, around an even one and around a pure one."""
    cube = torch.tensor([[0.0] * 6, [1.0] * 6], dtype=D)
    parts = torch.arange(6)
    limits = [(parts, torch.ones(6, dtype=D), smallest_share)]
    space = DesignSpace.from_bounds(
        cube, inequality_constraints=at_most([1.0] * 6, 1.0) + limits
    )
    for point in (torch.full((1, 6), 1 / 6, dtype=D), torch.eye(6, dtype=D)[2:3]):
        torch.manual_seed(0)
        neighbours = space.sample_near(point, 256, seed=0)
        assert len(neighbours) == 257
        assert neighbours.min() > -1e-8
        middle = (1 + smallest_share) / 2
        room = (1 - smallest_share) / 2 + 1e-8
        assert neighbours.sum(-1).sub(middle).abs().max() < room
        anywhere, near = (neighbours - point).norm(dim=-1).split([128, 129])
        # Near ones go half of the time less than an eighth of the way.
        assert near.median() < 0.3 * anywhere.median()
        # Of a uniform point of the simplex a part is above 0.3 in 1 of 6 draws.
        assert (neighbours[:128] > 0.3).any(0).all()
    assert space.allows(space.features(space.draw(64, seed=1))).all()


def test_a_budget_that_is_spent_keeps_as_many_designs() -> None:
    """Prices are large numbers, beside which the rounding of a vertex would count."""
    prices = torch.tensor([500.0, 300.0, 200.0, 40.0], dtype=D)
    budget = 0.4 * float(prices.sum())
    limits = [(torch.arange(4), prices, budget), (torch.arange(4), -prices, -budget)]
    space = DesignSpace.from_bounds(CUBE[:, :4], inequality_constraints=limits)
    designs = space.sample_near(torch.full((1, 4), 0.4, dtype=D), 256, seed=0)
    assert len(designs) == 257
    torch.testing.assert_close(designs @ prices, torch.full((257,), budget, dtype=D))


def test_coordinates_of_a_thin_space_are_those_of_the_nearest_point() -> None:
    """By least squares; within the space they lead back to the point."""
    # x_0 + 2 x_1 + x_2 = 1, in a cube.
    A = torch.tensor([[1.0, 2.0, 1.0], [-1.0, -2.0, -1.0]], dtype=D)
    frame = Frame.from_constraints(A, torch.tensor([1.0, -1.0], dtype=D), CUBE[:, :3])
    assert frame.axes.shape == (3, 2)
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(20, 3, generator=generator, dtype=D)
    nearest = torch.linalg.lstsq(frame.axes, (X - frame.centre).mT).solution.mT
    torch.testing.assert_close(frame.coordinates(X), nearest)
    inside = frame.mixtures(20)
    torch.testing.assert_close(frame.points(frame.coordinates(inside)), inside)


def test_draws_under_constraints_fill_what_these_leave() -> None:
    space = DesignSpace.from_bounds(
        CUBE[:, :3], inequality_constraints=at_most([1.0, 1.0, 1.0], 1.0)
    )
    drawn = space.features(space.draw(400, seed=0))
    assert drawn.shape == (400, 3)
    assert (drawn.sum(-1) <= 1 + 1e-9).all()
    # Dirichlet's with four equal parts: mean 1/4, variance 3/80; five deviations.
    error = 5 * (3 / 80 / 400) ** 0.5
    assert (drawn.mean(0) - 0.25).abs().max() < error
    assert len(drawn.unique(dim=0)) == 400
    assert drawn.equal(space.features(space.draw(400, seed=0)))
    assert not drawn.equal(space.features(space.draw(400, seed=1)))


def test_an_equality_has_designs_for_each_listed_value() -> None:
    """Of the step and two numbers the sum is 0.6: the step is not above it."""
    space = DesignSpace.from_bounds(
        CUBE[:, :3],
        discrete_dims={0: STEPS},
        inequality_constraints=[
            *at_most([1.0, 1.0, 1.0], 0.6),
            *at_most([-1.0, -1.0, -1.0], -0.6),
        ],
    )
    drawn = space.features(space.draw(60, seed=0))
    torch.testing.assert_close(drawn.sum(-1), torch.full((60,), 0.6, dtype=D))
    assert bool(space.allows(drawn).all())
    steps, counts = drawn[:, 0].unique(return_counts=True)
    assert steps.tolist() == [0.0, 0.25, 0.5]
    assert counts.tolist() == [20] * 3
    assert len(drawn.unique(dim=0)) == 60
    # Shares of what a step leaves are uniform: five deviations of a mean of 20.
    share = drawn[:, 1] / (0.6 - drawn[:, 0])
    assert float((share.view(20, 3).mean(0) - 0.5).abs().max()) < 5 / (12 * 20) ** 0.5


def test_few_designs_of_many_combinations_are_listed() -> None:
    steps = torch.linspace(0, 1, 21, dtype=D)
    space = DesignSpace.from_bounds(
        CUBE[:, :3],
        discrete_dims=dict.fromkeys(range(3), steps.tolist()),
        inequality_constraints=at_most([-1.0, -1.0, -1.0], -2.9),
    )
    rows = torch.cartesian_prod(steps, steps, steps)
    expected = rows[rows.sum(-1) > 2.9 - 1e-9]
    assert space.rows is not None
    torch.testing.assert_close(space.rows, expected)


def test_whole_numbers_may_leave_no_design() -> None:
    space = DesignSpace.from_bounds(
        CUBE[:, :2],
        discrete_dims={1: STEPS},
        inequality_constraints=[
            (torch.tensor([1]), torch.ones(1, dtype=D), 0.3),
            (torch.tensor([1]), -torch.ones(1, dtype=D), -0.4),
        ],
    )
    with pytest.raises(FeedbackError, match="satisfies inequality_constraints"):
        space.draw(4, seed=0)


def test_widths_are_the_ranges_of_what_varies() -> None:
    """Of numbers their bounds', of listed values theirs, of a column of one value 1."""
    space = space_of(
        torch.tensor([[14.0, 0.0, 0.0, 0.0, 0.0], [22.0, 9.0, 5.0, 1.0, 1.0]]).double(),
        None,
        None,
        {1: [3.0, 4.0, 6.5]},
        [(3, 4)],
        {2: 4.0},
    )
    assert space.widths.tolist() == [8.0, 3.5, 1.0, 1.0, 1.0]
