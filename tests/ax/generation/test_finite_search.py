"""The best question among designs, beside all of them in a loop."""

from itertools import combinations

import pytest
import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.exceptions.errors import CandidateGenerationError

from botorch_pref import DuelingJointEUBO, EPPreferenceGP
from botorch_pref.acquisition import option_search
from botorch_pref.acquisition.design_space import DesignSpace
from botorch_pref.acquisition.option_search import Climb
from botorch_pref.ax.generation import search
from botorch_pref.ax.generation.search import (
    Distinctness,
    QuestionSearch,
    listed_question,
)

DESIGNS = torch.cartesian_prod(*[torch.linspace(0, 1, 4, dtype=torch.double)] * 2)
STEPS = torch.full((2,), 1 / 3, dtype=torch.double)


class Worth(AcquisitionFunction):
    """A value of pairs that is largest for two designs which no option alone finds."""

    def __init__(self, model) -> None:
        super().__init__(model)

    def forward(self, X):
        sums = X.sum((-1, -2))
        return (7.0 * sums).sin() + X.square().sum((-1, -2))


@pytest.fixture(scope="module")
def model() -> EPPreferenceGP:
    return EPPreferenceGP(DESIGNS[[0, 5, 9]], torch.tensor([[0, 1], [0, 2]])).eval()


def questions(*pairs) -> torch.Tensor:
    return DESIGNS[torch.tensor(pairs, dtype=torch.long).view(-1, 2)]


@pytest.mark.parametrize(
    ("asked_pairs", "is_small"),
    [
        ([], True),
        ([(0, 15), (14, 15)], True),
        ("all but one", True),
        ("all twice", True),
        # Where questions are many, a search finds the best of those not asked.
        ([], False),
        ([(0, 15), (14, 15)], False),
    ],
)
def test_pairs_are_chosen_jointly_and_the_least_asked_first(
    model, asked_pairs, is_small, monkeypatch
) -> None:
    if not is_small:
        monkeypatch.setattr(option_search, "MAX_QUESTIONS", 0)
    pairs = [*combinations(range(16), 2)]
    if asked_pairs == "all but one":
        asked_pairs = [pair for pair in pairs if pair != (2, 7)]
    if asked_pairs == "all twice":
        asked_pairs = [*pairs, *(pair for pair in pairs if pair != (3, 8))]
    apart = Distinctness(STEPS, questions(*asked_pairs), questions())
    acquisition = Worth(model)
    torch.manual_seed(0)
    designs = listed_question(acquisition, DESIGNS, 2, apart)
    smallest_count = min(asked_pairs.count(pair) for pair in pairs)
    candidates = [pair for pair in pairs if asked_pairs.count(pair) == smallest_count]
    best = max(acquisition(questions(pair)).item() for pair in candidates)
    assert acquisition(designs.unsqueeze(0)).item() == pytest.approx(best)
    chosen = sorted(int((x == DESIGNS).all(-1).nonzero()) for x in designs)
    assert tuple(chosen) in candidates


def test_a_challenger_is_neither_the_reference_nor_asked_nor_pending(model) -> None:
    reference = DESIGNS[:1]
    asked_pairs, pending = questions((0, 15), (15, 3)), questions((0, 14))
    counted_pairs = torch.cat([asked_pairs, pending])
    apart = Distinctness(STEPS, counted_pairs, pending, reference)
    acquisition = Worth(model)
    challenger = listed_question(acquisition, DESIGNS, 1, apart)
    candidates = [i for i in range(16) if i not in (0, 14, 15)]
    best = max(candidates, key=lambda i: acquisition(DESIGNS[i].view(1, 1, 2)).item())
    assert challenger.equal(DESIGNS[[best]])


@pytest.mark.parametrize("is_small", [True, False])
def test_challengers_that_are_worth_most_together_are_found_at_once(
    is_small: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of all triples, also where exchanges of one at a time look for them."""
    monkeypatch.setattr(option_search, "MAX_QUESTIONS", 10_000 if is_small else 1)
    cube = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double)
    space = DesignSpace.from_bounds(cube, rows=DESIGNS)
    reference, none = DESIGNS[5:6], torch.zeros(0, 4, 2, dtype=torch.double)
    won = torch.tensor([[0, 1], [0, 2], [0, 3]])
    model = EPPreferenceGP(DESIGNS[[5, 6, 9, 10]], won).eval()
    value = DuelingJointEUBO(model, reference, torch.Generator().manual_seed(0))
    apart = Distinctness(STEPS, none, none, reference)
    torch.manual_seed(0)
    best = QuestionSearch(space, reference, Climb()).best(value, 3, apart)
    rivals = [place for place in range(16) if place != 5]
    triples = DESIGNS[torch.tensor([*combinations(rivals, 3)])]
    worth = value(best).item()
    # Another order of the same options has other draws.
    assert worth >= value(triples).max().item() - 1e-9
    chosen: list[int] = []
    for _ in range(3):
        sets = torch.tensor([[*chosen, place] for place in rivals])
        chosen.append(rivals[value(DESIGNS[sets]).argmax()])
    # One after the other they are worth less.
    assert worth > 1.02 * value(DESIGNS[chosen]).item()


def test_many_options_are_found_by_few_exchanges(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They take a few turns, and are worth more than options found one by one.

    The turns of one search have mean 3.5 and deviation 0.89 (40 seeds); the limit is
    four deviations of the mean of eight above that.
    """
    monkeypatch.setattr(option_search, "_EXCHANGES", 0)
    monkeypatch.setattr(option_search, "_STARTS", 64)
    designs = torch.cartesian_prod(*[torch.linspace(0, 1, 7, dtype=torch.double)] * 2)
    won, reference = torch.tensor([[0, 1], [0, 2], [0, 3]]), designs[24:25]
    model = EPPreferenceGP(designs[[24, 25, 37, 40]], won).eval()
    value = DuelingJointEUBO(model, reference, torch.Generator().manual_seed(0))
    chosen = designs[:0]
    for _ in range(12):
        extended = torch.cat([chosen.expand(49, -1, 2), designs.unsqueeze(1)], dim=1)
        chosen = extended[value(extended).argmax()]
    none, valued = torch.zeros(0, 13, 2, dtype=torch.double), []
    value.register_forward_pre_hook(lambda _, inputs: valued.append(len(inputs[0])))
    apart = Distinctness(STEPS / 2, none, none, reference)
    calls = []
    for seed in range(8):
        torch.manual_seed(seed)
        calls.append(listed_question(value, designs, 12, apart))
    turns = (sum(valued) / 8 - 64) / (12 * 49)
    assert turns <= 3.5 + 4 * 0.89 / 8**0.5
    assert (value(torch.stack(calls)) > value(chosen) + 0.05).all()


def test_no_exchange_for_any_design_finds_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also where most exchanges are among the promising designs."""
    monkeypatch.setattr(search, "_PROMISING", 40)
    monkeypatch.setattr(option_search, "_STARTS", 32)
    monkeypatch.setattr(option_search, "_EXCHANGES", 0)
    designs = torch.cartesian_prod(*[torch.linspace(0, 1, 20, dtype=torch.double)] * 2)
    won = torch.tensor([[0, 1], [0, 2], [3, 2]])
    model = EPPreferenceGP(designs[[130, 31, 270, 390]], won).eval()
    value = DuelingJointEUBO(model, designs[130:131], torch.Generator().manual_seed(0))
    none = torch.zeros(0, 4, 2, dtype=torch.double)
    apart = Distinctness(STEPS / 20, none, none, designs[130:131])
    torch.manual_seed(0)
    best = listed_question(value, designs, 3, apart)
    with torch.no_grad():
        worth = value(best)
        for place in range(3):
            alternatives = best.repeat(len(designs), 1, 1)
            alternatives[:, place] = designs
            is_apart = apart.smallest_gap(alternatives) >= 1 - 1e-6
            assert (value(alternatives)[is_apart] <= worth + 1e-9).all()


def test_starts_are_sets_of_different_designs_each_as_likely() -> None:
    torch.manual_seed(0)
    drawn = option_search._distinct_draws(60_000, 5, 3).sort(-1).values
    sets, counts = drawn.unique(dim=0, return_counts=True)
    assert sets.tolist() == [[*pair] for pair in combinations(range(5), 3)]
    # Ten sets: four deviations of a count.
    assert (counts - 6_000).abs().max() < 4 * (60_000 * 0.1 * 0.9) ** 0.5


def test_most_designs_are_asked_about_at_once(model) -> None:
    """Of 40 designs drawn of 49, two would be the same but for 1 in 10^10 draws."""
    designs = torch.cartesian_prod(*[torch.linspace(0, 1, 7, dtype=torch.double)] * 2)
    none = torch.zeros(0, 40, 2, dtype=torch.double)
    best = listed_question(
        Worth(model), designs, 40, Distinctness(STEPS / 2, none, none)
    )
    assert len(best.unique(dim=0)) == 40


def test_what_nobody_can_tell_from_the_reference_is_no_challenger(model) -> None:
    apart = Distinctness(1.9 * STEPS, questions(), questions(), DESIGNS[5:6])
    for _ in range(10):
        best = listed_question(Worth(model), DESIGNS, 1, apart)
        assert (best - DESIGNS[5]).norm() >= 1.9 / 3
        apart = Distinctness(
            1.9 * STEPS,
            torch.cat([apart.questions, torch.stack([best, DESIGNS[5:6]], dim=-2)]),
            questions(),
            DESIGNS[5:6],
        )


def test_hopeless_designs_come_after_those_asked_twice() -> None:
    pairs = torch.tensor([[0, 1]] * 400)
    sure = EPPreferenceGP(DESIGNS[[0, 15]], pairs).eval()
    difference = sure.duel_posterior(DESIGNS[15:], DESIGNS[:1])
    assert difference.mean / difference.variance.sqrt() < -3
    asked_pairs = questions(*[(0, i) for i in range(1, 15)] * 2)
    apart = Distinctness(STEPS, asked_pairs, questions(), DESIGNS[:1])
    assert not listed_question(Worth(sure), DESIGNS, 1, apart).equal(DESIGNS[15:])


def test_nothing_is_left(model) -> None:
    pending = questions(*combinations(range(16), 2))
    apart = Distinctness(STEPS, pending, pending)
    with pytest.raises(CandidateGenerationError, match="No question is left"):
        listed_question(Worth(model), DESIGNS, 2, apart)
