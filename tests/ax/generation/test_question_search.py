"""Questions found by search, beside grids of all of them."""

import itertools
from dataclasses import replace

import pytest
import torch
from botorch.acquisition.acquisition import AcquisitionFunction

from botorch_pref import EPPreferenceGP
from botorch_pref.ax.generation import search
from botorch_pref.ax.generation.search import (
    Coordinate,
    NotedQuestions,
    OptionSpace,
    QuestionSearch,
    QuestionValue,
    ToldApart,
)

D = torch.double
NONE = torch.zeros(0, 2, 5, dtype=D)
# A number, a whole number of five values, and three categories.
STEPS = torch.linspace(0, 1, 5, dtype=D).unsqueeze(-1)
MIXED = OptionSpace(
    (
        Coordinate([3], None),
        Coordinate([0], STEPS),
        Coordinate([1, 2, 4], torch.eye(3, dtype=D)),
    ),
    torch.tensor([[0.0] * 5, [1.0] * 5], dtype=D),
)
WIDTHS = torch.tensor([0.25, 1, 1, 0.1, 1], dtype=D)


class Worth(AcquisitionFunction):
    """The sum of a worth of each option, and of what two have to do with each other."""

    def __init__(self) -> None:
        super().__init__(EPPreferenceGP(torch.zeros(2, 5, dtype=D)))

    def forward(self, X):
        integer, a, b, number, c = X.unbind(-1)
        value = (
            2 * a + 1.9 * b - (number - 0.3 * a - 0.6) ** 2 - (integer - 0.5) ** 2 + c
        )
        together = 3 * (number[..., :1] - number[..., -1:]).square().sum(-1)
        return value.sum(-1) + together


def limited(space: OptionSpace, coefficients: list[float], limit: float) -> OptionSpace:
    limits = torch.tensor([coefficients], dtype=D), torch.tensor([limit], dtype=D)
    return replace(space, constraints=limits)


def grid(step=0.02) -> torch.Tensor:
    designs = []
    numbers = torch.arange(0, 1 + step / 2, step, dtype=D)
    for integer, category, number in itertools.product(
        STEPS[:, 0].tolist(), range(3), numbers.tolist()
    ):
        a, b, c = torch.eye(3, dtype=D)[category].tolist()
        designs.append([integer, a, b, number, c])
    return torch.tensor(designs, dtype=D)


def test_features_are_those_of_the_tables() -> None:
    X = torch.tensor([[0.37, 0.25, 2.0], [0.1, 0.61, 0.0]], dtype=D)
    expected = [[0.25, 0, 0, 0.37, 1], [0.5, 1, 0, 0.1, 0]]
    assert MIXED.features(X).equal(torch.tensor(expected, dtype=D))
    # Whole numbers are rounded; their derivatives are those of the number.
    X = X[1:].requires_grad_()
    (slope,) = torch.autograd.grad(MIXED.features(X)[0, 0], X)
    assert slope.tolist() == [[0, 1, 0]]


def test_designs_are_all_combinations_that_constraints_allow() -> None:
    space = OptionSpace(
        (Coordinate([0], STEPS), Coordinate([1, 2, 3], torch.eye(3, dtype=D))),
        MIXED.bounds[:, :4],
    )
    designs = limited(space, [1, 0, 0, 0], 0.6).designs()
    expected = {
        (x, *row)
        for x in (0.0, 0.25, 0.5)
        for row in ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
    }
    assert {tuple(design) for design in designs.tolist()} == expected
    assert MIXED.designs() is None


def test_near_designs_move_by_shares_of_ranges_and_keep_categories() -> None:
    grid = torch.linspace(0, 1, 101, dtype=D).unsqueeze(-1)
    space = replace(
        MIXED,
        coordinates=(
            *MIXED.coordinates[:1],
            Coordinate([0], grid),
            MIXED.coordinates[2],
        ),
    )
    point = torch.tensor([[0.5, 0, 1, 0.5, 0]], dtype=D)
    designs = space.near(point, 384, seed=0)
    assert designs[:, [1, 2, 4]].equal(point[:, [1, 2, 4]].expand(384, -1))
    assert designs[:, :1].sub(grid.T).abs().amin(-1).max() < 1e-12
    for column, step in ((3, 0.0), (0, 0.01)):
        moved = designs[:, column] - 0.5
        for i, deviation in enumerate((0.1, 0.03, 0.01)):
            # Rounding to a hundredth adds a twelfth of its square to the variance;
            # four standard errors of 128 independent draws.
            ring = moved[128 * i : 128 * (i + 1)] / deviation
            expected = 1 + (step / deviation) ** 2 / 12
            error = 4 * expected * (2 / 128) ** 0.5
            assert abs(float(ring.square().mean()) - expected) < error
    allowed = limited(space, [0, 0, 0, 1, 0], 0.5).near(point, 384, seed=0)
    assert allowed.equal(designs[designs[:, 3] <= 0.5 + 1e-8])


def test_designs_among_which_maxima_are_sought() -> None:
    """Half anywhere, half near; all of a small space; none beyond constraints."""
    point = grid()[:1]
    neighbours = MIXED.sample_near(point, 256)
    categories = neighbours[:, [1, 2, 4]]
    assert len(neighbours) == 257
    assert (categories.sum(-1) == 1).all()
    # Those near keep the category, of those anywhere two thirds have another.
    differs = (categories != point[:, [1, 2, 4]]).any(-1)
    assert abs(int(differs.sum()) - 128 * 2 / 3) < 4 * (128 * 2 / 9) ** 0.5
    limit = limited(MIXED, [1, 0, 0, 1, 0], 0.8)
    neighbours = limit.sample_near(point, 256)
    assert limit.allows(neighbours).all()
    assert neighbours[-1:].equal(point)
    integer_space = OptionSpace((Coordinate([0], STEPS),), MIXED.bounds[:, :1])
    for largest, count in ((256, 5), (3, 3)):
        neighbours = integer_space.sample_near(STEPS[:1], largest)
        assert len(neighbours.unique(dim=0)) == len(neighbours) == count
    rows, point = grid(), grid()[7:8]
    apart = (rows - point).norm(dim=-1).sort().values
    neighbours = replace(MIXED, rows=rows).sample_near(point, 64)
    nearest, remaining_neighbours = (neighbours - point).norm(dim=-1).split(32)
    torch.testing.assert_close(nearest, apart[:32])
    assert len(neighbours.unique(dim=0)) == 64
    # One in each half of the others is as likely: five deviations.
    assert (
        abs(int((remaining_neighbours > apart[32:].median()).sum()) - 16) < 5 * 8**0.5
    )


@pytest.mark.parametrize("smallest_share", [0.999, 1.0])
def test_a_thin_space_keeps_as_many_designs(smallest_share: float) -> None:
    """Recipes whose parts make a whole, around an even one and around a pure one."""
    total = torch.ones(1, 6, dtype=D)
    limits = torch.cat([total, -total]), torch.tensor([1.0, -smallest_share], dtype=D)
    shares = tuple(Coordinate([i], None) for i in range(6))
    bounds = torch.tensor([[0.0], [1.0]], dtype=D).expand(2, 6)
    space = OptionSpace(shares, bounds, limits)
    for point in (total / 6, torch.eye(6, dtype=D)[2:3]):
        neighbours = space.sample_near(point, 256)
        assert len(neighbours) == 257
        assert neighbours.min() > -1e-8
        assert (
            neighbours.sum(-1).sub((1 + smallest_share) / 2).abs().max()
            < (1 - smallest_share) / 2 + 1e-8
        )
        anywhere, near = (neighbours - point).norm(dim=-1).split([128, 129])
        # Near ones go half of the time less than an eighth of the way.
        assert near.median() < 0.3 * anywhere.median()
        # Of a uniform point of the simplex a part is above 0.3 in 1 of 6 draws.
        assert (neighbours[:128] > 0.3).any(0).all()
    assert space.frame is not None
    starts = space.frame.points(space.frame.starts(5, 3, seed=None))
    assert starts.shape == (5, 3, 6)
    assert space.allows(starts.flatten(0, 1)).all()


def test_a_budget_that_is_spent_keeps_as_many_designs() -> None:
    """Prices are large numbers, beside which the rounding of a vertex would count."""
    prices = torch.tensor([[500.0, 300.0, 200.0, 40.0]], dtype=D)
    budget = 0.4 * prices.sum().expand(2) * torch.tensor([1.0, -1.0], dtype=D)
    parts = tuple(Coordinate([i], None) for i in range(4))
    bounds = torch.tensor([[0.0], [1.0]], dtype=D).expand(2, 4)
    space = OptionSpace(parts, bounds, (torch.cat([prices, -prices]), budget))
    assert len(space.sample_near(torch.full((1, 4), 0.4, dtype=D), 256)) == 257


@pytest.mark.slow
@pytest.mark.parametrize("constrained", [False, True])
def test_a_challenger_of_mixed_parameters(constrained) -> None:
    designs, space = grid(), MIXED
    if constrained:
        # number + whole <= 0.8
        space = limited(MIXED, [1, 0, 0, 1, 0], 0.8)
        designs = designs[designs[:, 0] + designs[:, 3] <= 0.8 + 1e-9]
    acquisition = Worth()
    values = acquisition(designs.unsqueeze(1))
    best = designs[values.argmax()]
    search = QuestionSearch(space, None, {})
    torch.manual_seed(0)
    challenger = search.best(acquisition, 1, None)
    assert acquisition(challenger) >= values.max() - 1e-4
    # The best is the reference now, and was met by the second best.
    apart = ToldApart(WIDTHS, NONE, NONE, best.unsqueeze(0))
    far = ((designs - best) / WIDTHS).square().sum(-1) >= 1
    torch.manual_seed(0)
    second = search.best(acquisition, 1, apart)
    assert ((second - best) / WIDTHS).square().sum() >= 1
    # The slope of the price keeps a quarter of a smallest difference away.
    near = ((designs - best) / WIDTHS).square().sum(-1) >= 1.25**2
    assert acquisition(second) >= values[near].max() - 1e-3
    assert acquisition(second) <= values[far].max() + 0.05
    duels = torch.stack([second, best.unsqueeze(0)], dim=-2)
    apart = ToldApart(WIDTHS, duels, NONE, best.unsqueeze(0))
    third = search.best(acquisition, 1, apart)
    for rival in (best, second[0]):
        assert ((third - rival) / WIDTHS).square().sum() >= 1 - 1e-6


def test_pairs_of_mixed_parameters_are_chosen_jointly() -> None:
    acquisition = Worth()
    designs = grid(0.1)
    designs = designs[designs[:, 0] == 0.5]
    first, second = torch.triu_indices(len(designs), len(designs), 1)
    pairs = torch.stack([designs[first], designs[second]], dim=-2)
    apart = ToldApart(WIDTHS, NONE, NONE)
    torch.manual_seed(0)
    best = QuestionSearch(MIXED, None, {"num_restarts": 8}).best(acquisition, 2, apart)
    assert acquisition(best) >= acquisition(pairs).max() - 1e-3
    # One after the other, the first would not be at an end of the range.
    alone = designs[acquisition(designs.unsqueeze(1)).argmax()]
    assert (best[:, 3] - alone[3]).abs().min() > 0.05


@pytest.mark.parametrize(("jointly", "starts"), [(False, 2), (True, 1)])
def test_many_options_are_as_good_from_few_starts(jointly: bool, starts: int) -> None:
    """As the best of a grid, one after the other, from starts side by side."""
    acquisition, climbing = Worth(), []
    acquisition.chosen_jointly = jointly
    designs, none = grid(), torch.zeros(0, 7, 5, dtype=D)
    values, chosen = acquisition(designs.unsqueeze(1)), designs[:1]
    for _ in range(6):
        squared = ((designs.unsqueeze(1) - chosen) / WIDTHS).square().sum(-1)
        free = (squared >= 1.25**2).all(-1)
        best = values.masked_fill(~free, -torch.inf).argmax()
        chosen = torch.cat([chosen, designs[best].unsqueeze(0)])

    def note(_, inputs) -> None:
        if inputs[0].requires_grad:
            climbing.append(len(inputs[0]))

    acquisition.register_forward_pre_hook(note)
    apart = ToldApart(WIDTHS, none, none, designs[:1])
    torch.manual_seed(0)
    options = QuestionSearch(MIXED, None, {}).best(acquisition, 6, apart)
    assert max(climbing) == starts
    assert apart.smallest_gap(options) >= 1
    assert acquisition(options) >= 0.98 * acquisition(chosen[1:])


def test_numbers_are_valued_as_they_are_shown() -> None:
    line = OptionSpace((Coordinate([0], None),), MIXED.bounds[:, :1])
    points = []

    class Peak(Worth):
        def forward(self, X):
            points.append(X)
            return -(X[..., 0, 0] - 0.46).abs()

    def tenths(X):
        return (10 * X).round() / 10

    torch.manual_seed(0)
    best = QuestionSearch(line, tenths, {}).best(Peak(), 1, None)
    assert best.item() == pytest.approx(0.5)
    assert points[-1].eq(tenths(points[-1])).all()


def test_designs_are_as_many_as_all_options_of_a_question_can_be_valued_for() -> None:
    """Of 99 x 99, for one option but not for three; a table has all its rows."""
    numbers = torch.linspace(0, 1, 99, dtype=D).unsqueeze(-1)
    square = OptionSpace(
        (Coordinate([0], numbers), Coordinate([1], numbers)), MIXED.bounds[:, :2]
    )
    assert len(square.designs()) == len(square.designs(1)) == 99**2
    assert square.designs(3) is None
    table = replace(square, rows=torch.cartesian_prod(numbers[:, 0], numbers[:, 0]))
    assert len(table.designs(3)) == 99**2


def test_what_nobody_can_tell_apart_is_worth_less_than_a_random_question() -> None:
    acquisition = Worth()
    generator = torch.Generator().manual_seed(1)
    draws = torch.rand(64, 1, 5, generator=generator, dtype=D)
    reference = torch.full((1, 5), 0.5, dtype=D)
    apart = ToldApart(WIDTHS, NONE, NONE, reference)
    value = QuestionValue(acquisition, lambda X: X, apart, draws)
    off = torch.linspace(0, 2, 81, dtype=D).view(-1, 1, 1) * WIDTHS / 5**0.5
    X = reference + off
    level = torch.linspace(0, 2, 81, dtype=D)
    value_of_question, plain = value(X), acquisition(X)
    assert (value_of_question[level <= 1] < acquisition(draws).median()).all()
    assert value_of_question[level >= 1.25].equal(plain[level >= 1.25])
    assert (value_of_question <= plain).all()


def test_a_question_like_a_tie_is_worth_less() -> None:
    """By a tenth of the price at the tie, and nothing ten differences from it on."""
    generator = torch.Generator().manual_seed(1)
    draws, tie = torch.rand(2, 64, 1, 5, generator=generator, dtype=D)
    reference, tie = torch.full((1, 5), 0.5, dtype=D), tie[:1]
    questions = torch.cat([tie, reference.unsqueeze(0)], -2)
    apart = ToldApart(WIDTHS, NONE, NONE, reference)
    tied = ToldApart(WIDTHS, NONE, NONE, reference, tied=questions)
    plain, with_tie = (
        QuestionValue(Worth(), lambda X: X, apart_rule, draws)
        for apart_rule in (apart, tied)
    )
    level = torch.tensor([0.0, 5.0, 10.0, 20.0], dtype=D)
    X = tie + level.view(-1, 1, 1) * WIDTHS / 5**0.5
    values = Worth()(draws)
    spread = float(
        torch.cat([values, Worth()(reference)[None]]).max() - values.median()
    )
    price = 2 * spread * torch.tensor([0.1, 0.1 * 0.75**2, 0.0, 0.0], dtype=D)
    torch.testing.assert_close(plain(X) - with_tie(X), price)


def test_starts_under_constraints_fill_what_these_leave() -> None:
    bounds = torch.tensor([[0.0] * 3, [1.0] * 3], dtype=torch.double)
    A, b = torch.ones(1, 3, dtype=torch.double), torch.ones(1, dtype=torch.double)
    draws = search._allowed_draws(bounds, A, b)
    draws_of_options = draws(200, 2, 0)
    assert draws_of_options.shape == (200, 2, 3)
    assert (draws_of_options.sum(-1) <= 1).all()
    # Dirichlet's with four equal parts: mean 1/4, variance 3/80; five deviations.
    error = 5 * (3 / 80 / 400) ** 0.5
    assert (draws_of_options.mean((0, 1)) - 0.25).abs().max() < error
    assert len(draws_of_options.flatten(0, 1).unique(dim=0)) == 400
    assert draws(200, 2, 0).equal(draws_of_options)
    assert not draws(200, 2, 1).equal(draws_of_options)


def test_questions_of_other_people_differ_most_of_all_that_are_worth_as_much() -> None:
    """Beside brute force."""
    draws = torch.Generator().manual_seed(0)
    designs = grid()
    places = torch.randint(len(designs), (2_000, 2), generator=draws)
    questions, worth = designs[places], Worth()
    noted = NotedQuestions(worth)
    noted(questions[:1_500])
    noted(questions[1_500:])
    values = worth(questions)
    best = questions[values.argmax()]

    def difference(first: torch.Tensor, second: torch.Tensor) -> float:
        squared = ((first[:, None] - second) / WIDTHS).square().sum(-1)
        return float(max(squared.amin(0).max(), squared.amin(1).max()))

    told_apart = 1 - 1e-6
    of_best = worth(best[None])
    threshold = of_best - 0.25 * (of_best - values.median())
    worthy = [
        question
        for question, value in zip(questions, values, strict=True)
        if value >= threshold and difference(question[:1], question[1:]) >= told_apart
    ]
    assert 20 < len(worthy) < 200
    expected = [best]
    for _ in range(4):
        gaps = [min(difference(design, q) for design in expected) for q in worthy]
        expected.append(worthy[gaps.index(max(gaps))])
    chosen = noted.different(best, 5, ToldApart(WIDTHS, NONE, NONE))
    assert torch.equal(chosen, torch.stack(expected))
    # What was asked is not asked of others.
    rule = ToldApart(WIDTHS, chosen[1:2], NONE)
    again = noted.different(best, 5, rule)
    assert all(difference(chosen[1], design) >= told_apart for design in again)
    # Of worthy ones that nobody can tell apart only one is asked.
    all_chosen = noted.different(best, len(worthy), ToldApart(WIDTHS, NONE, NONE))
    assert 5 < len(all_chosen) <= len(worthy)
    pairs = itertools.combinations(all_chosen, 2)
    assert all(difference(first, second) >= told_apart for first, second in pairs)


def test_challengers_that_are_chosen_one_by_one_make_one_question() -> None:
    apart = ToldApart(WIDTHS, NONE, NONE, reference=grid()[:1])
    search = QuestionSearch(MIXED, None, {"num_restarts": 1, "raw_samples": 8})
    torch.manual_seed(0)
    assert search.several(Worth(), 2, apart, 4).shape == (1, 2, 5)
