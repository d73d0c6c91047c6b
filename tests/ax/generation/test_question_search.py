"""Questions found by search, beside grids of all of them."""

import itertools

import pytest
import torch
from botorch.acquisition.acquisition import AcquisitionFunction

from botorch_pref import EPPreferenceGP
from botorch_pref.acquisition.design_space import DesignSpace
from botorch_pref.acquisition.option_search import Climb
from botorch_pref.ax.generation.search import (
    Distinctness,
    NotedQuestions,
    QuestionSearch,
    QuestionValue,
)

D = torch.double
NONE, NO_CENTRES = torch.zeros(0, 2, 5, dtype=D), torch.zeros(0, 5, dtype=D)
# A number, a whole number of five values, and three categories.
STEPS = torch.linspace(0, 1, 5, dtype=D).unsqueeze(-1)
BOUNDS = torch.tensor([[0.0] * 5, [1.0] * 5], dtype=D)
MIXED_DIMS: dict = {
    "categorical": [[1, 2, 4]],
    "discrete_dims": {0: STEPS[:, 0].tolist()},
}
MIXED = DesignSpace.from_bounds(BOUNDS, **MIXED_DIMS)
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


def limited(coefficients: list[float], limit: float, **space) -> DesignSpace:
    """Makes designs of the mixed space with a sum of at most some limit."""
    places = torch.arange(len(coefficients))
    constraint = places, -torch.tensor(coefficients, dtype=D), -limit
    return DesignSpace.from_bounds(
        BOUNDS, **{**MIXED_DIMS, **space}, inequality_constraints=[constraint]
    )


def grid(step=0.02) -> torch.Tensor:
    designs = []
    numbers = torch.arange(0, 1 + step / 2, step, dtype=D)
    for integer, category, number in itertools.product(
        STEPS[:, 0].tolist(), range(3), numbers.tolist()
    ):
        a, b, c = torch.eye(3, dtype=D)[category].tolist()
        designs.append([integer, a, b, number, c])
    return torch.tensor(designs, dtype=D)


@pytest.mark.slow
@pytest.mark.parametrize("constrained", [False, True])
def test_a_challenger_of_mixed_parameters(constrained) -> None:
    designs, space = grid(), MIXED
    if constrained:
        # number + whole <= 0.8
        space = limited([1.0, 0, 0, 1, 0], 0.8)
        designs = designs[designs[:, 0] + designs[:, 3] <= 0.8 + 1e-9]
    acquisition = Worth()
    values = acquisition(designs.unsqueeze(1))
    best = designs[values.argmax()]
    search = QuestionSearch(space, NO_CENTRES, Climb())
    torch.manual_seed(0)
    challenger = search.best(acquisition, 1, None)
    assert acquisition(challenger) >= values.max() - 1e-4
    # The best is the reference now, and was met by the second best.
    apart = Distinctness(WIDTHS, NONE, NONE, best.unsqueeze(0))
    far = ((designs - best) / WIDTHS).square().sum(-1) >= 1
    torch.manual_seed(0)
    second = search.best(acquisition, 1, apart)
    assert ((second - best) / WIDTHS).square().sum() >= 1
    # The slope of the price keeps a quarter of a smallest difference away.
    near = ((designs - best) / WIDTHS).square().sum(-1) >= 1.25**2
    assert acquisition(second) >= values[near].max() - 1e-3
    assert acquisition(second) <= values[far].max() + 0.05
    duels = torch.stack([second, best.unsqueeze(0)], dim=-2)
    apart = Distinctness(WIDTHS, duels, NONE, best.unsqueeze(0))
    third = search.best(acquisition, 1, apart)
    for rival in (best, second[0]):
        square = ((third - rival) / WIDTHS).square().sum()
        assert square >= 1 - 1e-6, "the third option is no different from a rival"


def test_pairs_of_mixed_parameters_are_chosen_jointly() -> None:
    acquisition = Worth()
    designs = grid(0.1)
    designs = designs[designs[:, 0] == 0.5]
    first, second = torch.triu_indices(len(designs), len(designs), 1)
    pairs = torch.stack([designs[first], designs[second]], dim=-2)
    apart = Distinctness(WIDTHS, NONE, NONE)
    torch.manual_seed(0)
    best = QuestionSearch(MIXED, NO_CENTRES, Climb()).best(acquisition, 2, apart)
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
    apart = Distinctness(WIDTHS, none, none, designs[:1])
    torch.manual_seed(0)
    options = QuestionSearch(MIXED, NO_CENTRES, Climb()).best(acquisition, 6, apart)
    assert max(climbing) == starts
    assert apart.smallest_gap(options) >= 1
    assert acquisition(options) >= 0.98 * acquisition(chosen[1:])


def test_numbers_are_valued_as_they_are_shown() -> None:
    line = DesignSpace.from_bounds(BOUNDS[:, :1])
    points = []

    class Peak(Worth):
        def forward(self, X):
            points.append(X)
            return -(X[..., 0, 0] - 0.46).abs()

    def tenths(X):
        return (10 * X).round() / 10

    torch.manual_seed(0)
    best = QuestionSearch(line, NO_CENTRES[:, :1], Climb(rounding=tenths))
    best = best.best(Peak(), 1, None)
    assert best.item() == pytest.approx(0.5)
    assert points[-1].eq(tenths(points[-1])).all()


def test_what_nobody_can_tell_apart_is_worth_less_than_a_random_question() -> None:
    acquisition = Worth()
    generator = torch.Generator().manual_seed(1)
    draws = torch.rand(64, 1, 5, generator=generator, dtype=D)
    reference = torch.full((1, 5), 0.5, dtype=D)
    apart = Distinctness(WIDTHS, NONE, NONE, reference)
    value = QuestionValue(acquisition, apart, draws)
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
    apart = Distinctness(WIDTHS, NONE, NONE, reference)
    tied = Distinctness(WIDTHS, NONE, NONE, reference, tied=questions)
    plain, with_tie = (
        QuestionValue(Worth(), apart_rule, draws) for apart_rule in (apart, tied)
    )
    level = torch.tensor([0.0, 5.0, 10.0, 20.0], dtype=D)
    X = tie + level.view(-1, 1, 1) * WIDTHS / 5**0.5
    values = Worth()(draws)
    spread = float(
        torch.cat([values, Worth()(reference)[None]]).max() - values.median()
    )
    price = 2 * spread * torch.tensor([0.1, 0.1 * 0.75**2, 0.0, 0.0], dtype=D)
    torch.testing.assert_close(plain(X) - with_tie(X), price)


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
    chosen = noted.different(best, 5, Distinctness(WIDTHS, NONE, NONE))
    assert torch.equal(chosen, torch.stack(expected))
    # What was asked is not asked of others.
    rule = Distinctness(WIDTHS, chosen[1:2], NONE)
    again = noted.different(best, 5, rule)
    assert all(difference(chosen[1], design) >= told_apart for design in again)
    # Of worthy ones that nobody can tell apart only one is asked.
    all_chosen = noted.different(best, len(worthy), Distinctness(WIDTHS, NONE, NONE))
    assert 5 < len(all_chosen) <= len(worthy)
    pairs = itertools.combinations(all_chosen, 2)
    assert all(difference(first, second) >= told_apart for first, second in pairs)


def test_challengers_that_are_chosen_one_by_one_make_one_question() -> None:
    apart = Distinctness(WIDTHS, NONE, NONE, reference=grid()[:1])
    search = QuestionSearch(MIXED, NO_CENTRES, Climb(num_restarts=1, raw_samples=8))
    torch.manual_seed(0)
    assert search.several(Worth(), 2, apart, 4).shape == (1, 2, 5)
