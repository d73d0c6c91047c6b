"""The next question: as good as its rule says, among designs that may be shown."""

from itertools import combinations
from typing import Any

import pytest
import torch
from botorch.models.pairwise_gp import PairwiseGP
from botorch.utils.sampling import draw_sobol_samples
from cases import in_turn
from draws import global_states, uniform
from torch import Tensor

from botorch_pref import (
    BotorchPrefError,
    Comparisons,
    DistinctOptions,
    DuelingBALD,
    DuelingEUBO,
    DuelingJointKG,
    DuelKernel,
    EPPreferenceGP,
    FeedbackError,
    Question,
    Rankings,
    Ratings,
    Validity,
    default_model,
    incumbent,
    next_question,
)
from botorch_pref.acquisition.design_space import DesignSpace
from botorch_pref.models import log_validity_probability

UNITS = torch.tensor([[14.0, 100.0], [22.0, 900.0]]).double()
CUBE = torch.tensor([[0.0, 0.0], [1.0, 1.0]]).double()


def in_units(points: Tensor) -> Tensor:
    return UNITS[0] + points * (UNITS[1] - UNITS[0])


def ranked(X: Tensor) -> Rankings:
    """Fours in the order of the distance from a point."""
    rows = torch.arange(len(X)).reshape(-1, 4)
    distances = (X[rows] - 0.3).norm(dim=-1)
    return Rankings(rows.gather(-1, distances.argsort(-1)))


POINTS = uniform(24, 2)


@pytest.fixture(scope="module")
def model() -> EPPreferenceGP:
    """A model of two numbers in units of very different size."""
    return default_model(in_units(POINTS), ranked(POINTS), bounds=UNITS)


def value_of(question: Question, model: EPPreferenceGP, choices: Tensor) -> Tensor:
    """Values a question with the incumbent by a knowledge gradient, of fixed draws."""
    best = incumbent(model)
    is_best = (question.options == best).all(-1)
    assert int(is_best.sum()) == 1
    generator = torch.Generator().manual_seed(1)
    value = DuelingJointKG(model, best, generator, choices=choices)
    return value(question.options[~is_best])


def test_four_options_are_better_than_random_ones(model: EPPreferenceGP) -> None:
    choices = draw_sobol_samples(UNITS, 32, 1, seed=3).squeeze(-2)
    before = global_states()
    question = next_question(model, UNITS, choices=choices)
    assert global_states() == before
    assert question.acquisition == "DuelingJointKG"
    assert "chosen together" in question.reason
    random = draw_sobol_samples(UNITS, 512, 3, seed=4)
    generator = torch.Generator().manual_seed(1)
    value = DuelingJointKG(model, incumbent(model), generator, choices=choices)
    with torch.no_grad():
        assert float(value_of(question, model, choices)) > float(value(random).max())
    again = next_question(model, UNITS, choices=choices)
    torch.testing.assert_close(again.options, question.options, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("goal", "rule"), [("best", DuelingEUBO), ("understand", DuelingBALD)]
)
def test_two_options_are_the_best_pair(
    model: EPPreferenceGP, goal: Any, rule: Any
) -> None:
    """As good as the best of a fine grid, which shares no search with it.

    A climb may end on a lower hump: at most a twentieth lower, and not at every seed.
    """
    questions = [next_question(model, UNITS, 2, goal=goal, seed=n) for n in range(3)]
    assert {question.acquisition for question in questions} == {rule.__name__}
    side = torch.linspace(0, 1, 13).double()
    grid = in_units(torch.cartesian_prod(side, side))
    pairs = grid[torch.tensor([*combinations(range(len(grid)), 2)])]
    value = DistinctOptions(rule(model))
    with torch.no_grad():
        best = max(float(value(part).max()) for part in pairs.split(2_000))
        values = [float(value(question.options)) for question in questions]
    assert max(values) >= best, f"{values} beside {best} of the grid"
    assert min(values) >= 0.95 * best, f"{values} beside {best} of the grid"


@pytest.mark.parametrize("size", [3, 4])
def test_challengers_say_most_of_utilities(model: EPPreferenceGP, size: int) -> None:
    question = next_question(model, UNITS, size, goal="understand")
    best = incumbent(model)
    is_best = (question.options == best).all(-1)
    assert int(is_best.sum()) == 1
    side = torch.linspace(0, 1, 25).double()
    grid = in_units(torch.cartesian_prod(side, side)).unsqueeze(-2)
    information = DuelingBALD(model, best)
    with torch.no_grad():
        largest = float(information(grid).max())
        challengers = information(question.options[~is_best].unsqueeze(-2))
    # The first is chosen alone, and the others keep away from it.
    assert float(challengers.max()) >= 0.99 * largest


def test_units_make_no_difference(model: EPPreferenceGP) -> None:
    """The same answers in the unit cube: the same question, up to the climb."""
    plain = default_model(POINTS, ranked(POINTS), bounds=CUBE)
    options = in_units(next_question(plain, CUBE).options)
    expected = next_question(model, UNITS).options
    widths = UNITS[1] - UNITS[0]
    assert float(((options - expected) / widths).abs().max()) < 1e-3


@in_turn("size", [2, 4])
def test_options_satisfy_constraints_and_fixed_features(
    model: EPPreferenceGP, size: int
) -> None:
    """Of a triangle that less than one Sobol point in a hundred falls into."""
    ends = torch.tensor([1.0, 1 / 100]).double()
    corner = float(UNITS[1] @ ends) - 1.0
    limits = [(torch.tensor([0, 1]), ends, corner)]
    options = next_question(model, UNITS, size, inequality_constraints=limits).options
    assert bool((options @ ends >= corner - 1e-6).all())
    assert bool(((options >= UNITS[0] - 1e-9) & (options <= UNITS[1] + 1e-9)).all())
    assert len(options.round(decimals=3).unique(dim=0)) == size
    fixed = next_question(model, UNITS, size, fixed_features={1: 1_000.0}).options
    assert bool((fixed[:, 1] == 1_000).all())
    assert len(fixed.round(decimals=3).unique(dim=0)) == size


@pytest.mark.parametrize("size", [2, 4])
def test_two_inequalities_make_an_equality(model: EPPreferenceGP, size: int) -> None:
    """Also where one column has some values only."""
    share = 1 / (UNITS[1] - UNITS[0])
    total = float(UNITS[0] @ share) + 1.0
    columns = torch.tensor([0, 1])
    limits = [(columns, share, total), (columns, -share, -total)]
    options = next_question(model, UNITS, size, inequality_constraints=limits).options
    sums = ((options - UNITS[0]) * share).sum(-1)
    torch.testing.assert_close(sums, torch.ones(size).double(), atol=1e-5, rtol=0)
    assert len(options.round(decimals=3).unique(dim=0)) == size
    values = (UNITS[0, 1] + torch.linspace(0, 1, 5).double() / share[1]).tolist()
    for constraints, least in ((limits, 1 - 1e-5), (limits[1:], 0.0)):
        options = next_question(
            model,
            UNITS,
            size,
            discrete_dims={1: values},
            inequality_constraints=constraints,
        ).options
        sums = ((options - UNITS[0]) * share).sum(-1)
        assert bool(((sums >= least) & (sums <= 1 + 1e-5)).all())
        assert {*options[:, 1].tolist()} <= {*values}
        assert len(options.round(decimals=3).unique(dim=0)) == size


@pytest.fixture(scope="module")
def mixed_model() -> EPPreferenceGP:
    """The second of three values is the best, and 0.3 of the number."""
    X = torch.eye(3).double().repeat(8, 1)
    X = torch.cat([POINTS[:, :1], X], dim=-1)
    utility = 6 * X[:, 2] - 3 * (X[:, 0] - 0.3).abs()
    rows = torch.arange(24).reshape(-1, 4)
    orders = rows.gather(-1, utility[rows].argsort(-1, descending=True))
    return default_model(X, Rankings(orders), categorical=[(1, 2, 3)])


def test_categories_are_zeros_and_a_one(mixed_model: EPPreferenceGP) -> None:
    """And the best value of a category is found, which no slope leads to."""
    bounds = torch.tensor([[0.0], [1.0]]).double().expand(2, 4)
    question = next_question(mixed_model, bounds, 2, categorical=[(1, 2, 3)])
    choices = question.options[:, 1:]
    assert bool(((choices == 0) | (choices == 1)).all())
    assert choices.sum(-1).tolist() == [1.0, 1.0]
    value = DistinctOptions(DuelingEUBO(mixed_model))
    side = torch.linspace(0, 1, 33).double()
    grid = torch.cat(
        [
            torch.cat([side[:, None], row.expand(33, 3)], dim=-1)
            for row in torch.eye(3).double()
        ]
    )
    pairs = grid[torch.tensor([*combinations(range(len(grid)), 2)])]
    with torch.no_grad():
        values = value(pairs)
        # A search ends where steps gain a thousandth of the spread of values.
        missed = 5e-3 * float(values.max() - values.median())
        assert float(value(question.options)) >= float(values.max()) - missed
    keywords = {"categorical": [(1, 2, 3)], "fixed_features": {1: 0.0}}
    four = next_question(mixed_model, bounds, **keywords).options
    assert bool((four[:, 1] == 0).all())
    assert bool((four[:, 2:].sum(-1) == 1).all())


@in_turn(("size", "number"), [(2, 12), (3, 12), (4, 10)])
def test_the_best_rows_are_found(model: EPPreferenceGP, size: int, number: int) -> None:
    rows = torch.cat([incumbent(model), in_units(uniform(number, 2, seed=1))])
    question = next_question(model, UNITS, size, discrete=rows)
    places = [rows.tolist().index(option) for option in question.options.tolist()]
    assert len({*places}) == size
    if size != 2:
        assert 0 in places
    else:
        value = DistinctOptions(DuelingEUBO(model))
        pairs = rows[torch.tensor([*combinations(range(len(rows)), 2)])]
        with torch.no_grad():
            # An independent search: all pairs.
            best = float(value(pairs).max())
            assert float(value(question.options)) == pytest.approx(best, abs=1e-12)
    # The same question is open: another one is asked.
    second_question = next_question(
        model, UNITS, size, discrete=rows, pending=question.options.unsqueeze(0)
    )
    assert {*map(tuple, second_question.options.tolist())} != {
        *map(tuple, question.options.tolist())
    }


def test_of_many_rows_an_exchange_finds_a_good_question(
    model: EPPreferenceGP,
) -> None:
    rows = torch.cat([incumbent(model), in_units(uniform(300, 2, seed=1))])
    choices = rows[:32]
    question = next_question(model, UNITS, discrete=rows, choices=choices)
    assert bool((question.options[:, None] == rows).all(-1).any(-1).all())
    generator = torch.Generator().manual_seed(1)
    value = DuelingJointKG(model, incumbent(model), generator, choices=choices)
    random = rows[uniform(2_000, len(rows), seed=2).topk(3).indices]
    with torch.no_grad():
        assert float(value_of(question, model, choices)) > float(value(random).max())


@in_turn("size", [2, 4])
def test_open_questions_are_not_repeated(model: EPPreferenceGP, size: int) -> None:
    first = next_question(model, UNITS, size).options
    second = next_question(model, UNITS, size, pending=first.unsqueeze(0)).options
    best = incumbent(model)
    new = second[~(second == best).all(-1)]
    widths = UNITS[1] - UNITS[0]
    gaps = torch.cdist(new / widths, first / widths).amin(-1)
    # One new option at least is none of the open question.
    assert float(gaps.max()) > 0.02


@pytest.mark.parametrize(
    ("goal", "rule"), [("best", DuelingEUBO), ("understand", DuelingBALD)]
)
def test_an_answer_is_expected_to_each_open_pair(
    model: EPPreferenceGP, goal: Any, rule: type[DuelingBALD | DuelingEUBO]
) -> None:
    """Pairs that share a design, one of them the incumbent, are still those pairs."""
    rows = torch.cat([incumbent(model), in_units(uniform(8, 2, seed=1))])
    pairs = rows[torch.tensor([*combinations(range(len(rows)), 2)])]
    value = DistinctOptions(rule(model))
    with torch.no_grad():
        pending = pairs[value(pairs).topk(3).indices]
        question = next_question(
            model, UNITS, 2, discrete=rows, pending=pending, goal=goal
        )
        value.set_X_pending(pending.flatten(0, 1))
        is_open = (pairs.unsqueeze(1) == pending).flatten(2).all(-1).any(-1)
        best = float(value(pairs[~is_open]).max())
        assert float(value(question.options)) == pytest.approx(best, abs=1e-12), (
            "the question asked is not the best one once the open pairs are answered"
        )


def test_the_incumbent_is_what_a_loop_says_or_what_is_in_the_space(
    model: EPPreferenceGP,
) -> None:
    point = in_units(torch.tensor([[0.5, 0.5]]).double())
    options = next_question(model, UNITS, 3, best=point).options
    assert bool((options == point).all(-1).any())
    # Half of the box, without the incumbent: the best point that was seen there.
    half = UNITS.clone()
    half[0, 0] = 18.0
    assert not bool((incumbent(model) >= half[0]).all())
    present = in_units(POINTS)
    present = present[present[:, 0] >= 18]
    expected = present[model.posterior(present).mean.argmax()]
    options = next_question(model, half, 3).options
    assert bool((options == expected).all(-1).any())


STEPS = [14.0, 15.0, 16.0, 17.0, 18.0, 19.0, 20.0, 22.0]


@pytest.mark.parametrize("size", [2, 3, 4])
def test_whole_numbers_are_searched_as_such(model: EPPreferenceGP, size: int) -> None:
    """As good as the best question of a listed grid of the other column."""
    question = next_question(model, UNITS, size, discrete_dims={0: STEPS}, seed=1)
    options = question.options
    assert {*options[:, 0].tolist()} <= {*STEPS}
    assert bool(((options >= UNITS[0]) & (options <= UNITS[1])).all())
    assert len(options.unique(dim=0)) == size
    # With one value, the column is fixed.
    fixed = next_question(model, UNITS, size, discrete_dims={0: [16.0]})
    assert fixed.options[:, 0].unique().tolist() == [16.0]


def test_the_best_pair_of_whole_numbers_is_found(model: EPPreferenceGP) -> None:
    grids = {0: STEPS, 1: [100.0, 250.0, 400.0, 700.0, 900.0]}
    question = next_question(model, UNITS, 2, discrete_dims=grids)
    rows = torch.cartesian_prod(*(torch.tensor(g).double() for g in grids.values()))
    pairs = rows[torch.tensor([*combinations(range(len(rows)), 2)])]
    value = DistinctOptions(DuelingEUBO(model))
    with torch.no_grad():
        largest = value(pairs).max()
        assert float(value(question.options.unsqueeze(0))) == pytest.approx(
            float(largest), rel=1e-6
        )


@pytest.mark.parametrize("size", [2, 3, 4])
def test_options_that_are_there_stay_and_the_others_join_them(
    model: EPPreferenceGP, size: int
) -> None:
    """Each kind of question, beside one option and beside all but one."""
    for number in {1, size - 1}:
        present = in_units(uniform(number, 2, seed=5))
        question = next_question(model, UNITS, size, beside=present)
        is_kept = (question.options.unsqueeze(-2) == present).all(-1)
        assert is_kept.any(0).all()
        assert int(is_kept.any(-1).sum()) == number
        assert question.acquisition == next_question(model, UNITS, size).acquisition
    early = next_question(None, UNITS, size, beside=present)
    assert (early.options.unsqueeze(-2) == present).all(-1).any(0).all()


@pytest.mark.parametrize("size", [2, 3, 4])
def test_options_that_cannot_be_judged_are_kept_away_from(size: int) -> None:
    """The larger the better, but from 0.6 on trials fail."""
    x = torch.linspace(0, 1, 11).double().unsqueeze(-1)
    order = torch.arange(5, -1, -1)
    model = default_model(x, torch.stack([order[:-1], order[1:]], -1))
    valid = default_model(x, Validity(torch.arange(11), x.flatten() < 0.6))
    tempted, warned = (
        next_question(model, CUBE[:, :1], size, feasibility_model=feasibility)
        for feasibility in (None, valid)
    )
    assert float(tempted.options.max()) > 0.65
    assert float(warned.options.max()) < 0.65


def test_what_cannot_be_judged_says_nothing_of_utilities() -> None:
    x = torch.linspace(0, 1, 11).double().unsqueeze(-1)
    order = torch.arange(5, -1, -1)
    model = default_model(x, torch.stack([order[:-1], order[1:]], -1))
    valid = default_model(x, Validity(torch.arange(11), x.flatten() < 0.8))
    question = next_question(
        *(model, CUBE[:, :1], 2),
        discrete=x,
        goal="understand",
        feasibility_model=valid,
    )
    pairs = x[torch.tensor([*combinations(range(11), 2)])]
    with torch.no_grad():
        chances = log_validity_probability(valid, pairs).sum(-1).exp()
        expected = pairs[(chances * DuelingBALD(model)(pairs)).argmax()]
    options = question.options.sort(dim=0).values
    assert torch.equal(options, expected), "information counts if both can be judged"


def test_another_seed_begins_elsewhere(model: EPPreferenceGP) -> None:
    for believer in (None, model):
        first, again, reseeded = (
            next_question(believer, UNITS, seed=seed).options for seed in (1, 1, 2)
        )
        assert torch.equal(first, again)
        assert not torch.equal(first, reseeded)


@in_turn("size", [2, 4])
def test_options_are_spread_before_there_are_answers(size: int) -> None:
    """Disjoint parts of one Sobol sequence: each half has half of the points."""
    X = torch.zeros(0, 2).double()
    for _ in range(8 // size):
        if len(X):
            pairs = torch.tensor([[0, 1]])
            believer: EPPreferenceGP | None = EPPreferenceGP(
                X, feedback=[Comparisons(pairs)], covar_module=DuelKernel(2)
            )
        else:
            believer = None
        question = next_question(believer, CUBE, size)
        assert question.acquisition == "Sobol"
        assert "options are spread over all designs" in question.reason
        X = torch.cat([X, question.options])
    for column in X.T:
        counts = (column * 8).long().bincount(minlength=8)
        assert counts.tolist() == [1] * 8
    rows = uniform(7, 2)
    model_of_few = EPPreferenceGP(
        rows[:2], torch.tensor([[0, 1]]), covar_module=DuelKernel(2)
    )
    unseen = next_question(model_of_few, CUBE, 4, discrete=rows).options
    assert not bool((unseen[:, None] == rows[:2]).all(-1).any())


def test_other_models_are_asked_alike() -> None:
    """BoTorch's own, one of several raters, and one whose answers are no duels."""
    pairs = torch.arange(24).reshape(-1, 2)
    nearer = (POINTS[pairs] - 0.3).norm(dim=-1).argsort(-1)
    pairs = pairs.gather(-1, nearer)
    theirs = PairwiseGP(POINTS, pairs).eval()
    raters = torch.arange(24) // 12
    group = default_model(POINTS, pairs, bounds=CUBE, raters=raters)
    rated = Ratings(torch.arange(24), 1 / (1 + (POINTS - 0.3).norm(dim=-1)))
    alone = default_model(in_units(POINTS), rated, bounds=UNITS)
    for believer, bounds, size in (
        (theirs, CUBE, 2),
        (group, CUBE, 3),
        (alone, UNITS, 2),
    ):
        options = next_question(believer, bounds, size).options
        assert options.shape == (size, 2)
        assert bool(((options >= bounds[0]) & (options <= bounds[1])).all())
        widths = bounds[1] - bounds[0]
        assert float(torch.pdist(options / widths).min()) > 0.005


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"size": 1}, "size is 1"),
        ({"goal": "win"}, "goal is 'win'.*'best', 'understand'"),
        ({"goal": "understand", "kind": "line"}, "goal is 'understand'"),
        ({"bounds": CUBE.flip(0)}, "bounds is"),
        ({"bounds": CUBE[:, :1].expand(2, 3)}, "bounds is"),
        ({"discrete": POINTS[:1]}, "There are 0 designs besides .* needs 3"),
        ({"discrete_dims": {0: [0.1, 0.5], 1: [0.5]}}, "There is 1 design besides"),
        (
            {"discrete_dims": {0: [0.1], 1: [0.5]}},
            "one design.*nothing is left",
        ),
        ({"best": CUBE[1:] + 0.5}, r"best is \[\[1.5, 1.5\]\]"),
        ({"best": CUBE}, "best is .* give one design"),
        ({"discrete": POINTS + 9}, "No design is within bounds"),
        ({"pending": POINTS[:4]}, r"pending has shape \(4, 2\)"),
        ({"fixed_features": {0: 0.5, 1: 0.5}}, "nothing is left"),
        ({"discrete_dims": {2: [0.5]}}, "discrete_dims is"),
        ({"discrete_dims": {0: [0.5, 1.5]}}, "discrete_dims of column 0 are"),
        ({"discrete_dims": {0: [0.5, 0.5]}}, "discrete_dims of column 0 are"),
        ({"discrete_dims": {0: []}}, "discrete_dims of column 0 are"),
        ({"beside": POINTS[:4]}, "beside has 4 options"),
        ({"fixed_features": {7: 0.5}}, "fixed_features is"),
        ({"categorical": [(0, 5)]}, "categorical is"),
        (
            {"categorical": [(0, 1)], "fixed_features": {0: 0.0, 1: 0.0}},
            "no value of the category",
        ),
        (
            {"inequality_constraints": [(torch.tensor([0]), torch.ones(1), 2.0)]},
            "inequality_constraints leave no room",
        ),
        (
            {"inequality_constraints": [(torch.tensor([0, 1]), torch.ones(2), 2.0)]},
            r"leave one design, \[1.0, 1.0\]",
        ),
        (
            {
                "inequality_constraints": [(torch.tensor([0]), torch.ones(1), 0.5)],
                "categorical": [(0, 1)],
            },
            "column 0, which is of a category",
        ),
        (
            {
                "inequality_constraints": [(torch.tensor([0]), torch.ones(1), 0.5)],
                "fixed_features": {0: 0.1},
            },
            "do not hold for fixed_features",
        ),
    ],
)
def test_what_is_wrong_is_named(arguments: dict, message: str) -> None:
    plain = EPPreferenceGP(POINTS, feedback=[ranked(POINTS)]).eval()
    with pytest.raises(BotorchPrefError, match=message):
        next_question(plain, **{"bounds": CUBE, **arguments})


def test_all_questions_may_be_open() -> None:
    plain = EPPreferenceGP(POINTS, feedback=[ranked(POINTS)]).eval()
    rows = POINTS[:2]
    with pytest.raises(FeedbackError, match="pending has all questions"):
        next_question(plain, CUBE, 2, discrete=rows, pending=rows.unsqueeze(0))


def test_coordinates_and_designs_are_each_other() -> None:
    """Two numbers, a category with one value left out, and a fixed column."""
    bounds = torch.tensor([[1.0, 0, 0, 0, -2, 0], [3.0, 1, 1, 1, 2, 1]]).double()
    space = DesignSpace.from_bounds(
        bounds, categorical=[(1, 2, 3)], fixed_features={2: 0.0, 5: 7.0}
    )
    assert space.num_parameters == 3
    drawn = space.draw(64, seed=0)
    X = space.features(drawn)
    torch.testing.assert_close(space.coordinates(X), drawn)
    assert bool(space.allows(X).all())
    assert X[:, 5].unique().tolist() == [7.0]
    assert X[:, 1:4].unique(dim=0).tolist() == [[0.0, 0, 1], [1, 0, 0]]
    wrong = X[:4].clone()
    wrong[0, 0] = 3.1
    wrong[1, 5] = 6.0
    wrong[2, 1:4] = torch.tensor([0.0, 1, 0])
    assert space.allows(wrong).tolist() == [False, False, False, True]


@pytest.mark.parametrize(
    ("number", "start"),
    [
        (1, "There is 1 answer; before there are 5,"),
        (2, "There are 2 answers; before there are 5,"),
        (6, "All answers are about one design; before there are two,"),
    ],
)
def test_why_options_are_spread_is_true_of_few_answers(number: int, start: str) -> None:
    ratings = Ratings(torch.zeros(number).long(), torch.full((number,), 0.7).double())
    question = next_question(default_model(POINTS[:1], ratings), CUBE, 2)
    assert question.reason == f"{start} options are spread over all designs."


@in_turn(
    "arguments",
    [
        {},
        {"kind": "line"},
        {"kind": "plane", "size": 9},
        {"inequality_constraints": [(torch.tensor([0]), torch.ones(1), 15.0)]},
        {"discrete_dims": {1: [100.0, 250.0, 900.0]}},
        {"fixed_features": {1: 300.0}},
    ],
)
def test_options_are_as_precise_as_the_bounds_until_there_is_a_model(
    arguments: dict[str, Any],
) -> None:
    """As BoTorch's `optimize_acqf` returns them, which can be joined with the points.

    Whole numbers as bounds have decimals between them.
    """
    for bounds, dtype in (
        (UNITS, torch.double),
        (UNITS.float(), torch.float),
        (UNITS.long(), torch.double),
    ):
        options = next_question(None, bounds, **arguments).options
        assert options.dtype == dtype, f"bounds of {bounds.dtype} are not followed"
        inside = (options >= UNITS[0]) & (options <= UNITS[1])
        assert inside.all(), f"{options.tolist()} are not within the bounds"


def test_rows_of_a_table_keep_their_type() -> None:
    for dtype in (torch.float, torch.double):
        rows = in_units(POINTS).to(dtype)
        for bounds in (UNITS, UNITS.float()):
            options = next_question(None, bounds, discrete=rows).options
            assert options.dtype == dtype, f"rows of {dtype} are options of another"
            is_row = (options.unsqueeze(1) == rows).all(-1).any(-1)
            assert is_row.all(), "an option is no row of the table"


def test_options_are_as_precise_as_the_points_of_a_model(model: EPPreferenceGP) -> None:
    options = next_question(model, UNITS.float(), 2).options
    assert options.dtype == torch.double, "the type of the bounds counts beside a model"
    X = in_units(POINTS).float()
    single = default_model(X, ranked(POINTS), bounds=UNITS.float())
    options = next_question(single, UNITS, 2).options
    assert options.dtype == torch.float, "options of another type than the points"
