"""Duels whose answer is foreseen: which they are, and when they are asked."""

import math

import pytest
import torch
from torch import Generator, Tensor

from botorch_pref import Comparisons, EPPreferenceGP, default_model, next_question
from botorch_pref.acquisition.design_space import DesignSpace
from botorch_pref.acquisition.reliability_check import reliability_check
from botorch_pref.asking.next_questions import CHECK

CUBE = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
SPACE = DesignSpace.from_bounds(CUBE)
NONE_OPEN = torch.empty(0, 2, 2, dtype=torch.float64)
DUELS = 8


def points(seed: int = 4) -> Tensor:
    """Draws the options of ``DUELS`` duels, one after the other."""
    generator = Generator().manual_seed(seed)
    return torch.rand(2 * DUELS, 2, generator=generator, dtype=torch.float64)


def duels(number: int = DUELS, seed: int = 4) -> Tensor:
    """Answers the first duels as somebody does who likes what is near (0.3, 0.3)."""
    utility = -(points(seed) - 0.3).square().sum(-1)
    pairs = torch.arange(2 * DUELS).view(DUELS, 2)[:number]
    order = utility[pairs].argsort(dim=-1, descending=True)
    return pairs.gather(-1, order)


def model_of(answers: Tensor, seed: int = 4) -> EPPreferenceGP:
    """Fits the default model to answers about the points."""
    model = default_model(points(seed), answers)
    assert isinstance(model, EPPreferenceGP)
    return model


@pytest.fixture(scope="module")
def undecided() -> EPPreferenceGP:
    """A model whose answers are explained hardly better than those of a coin."""
    return model_of(duels())


def test_the_best_meets_what_is_most_surely_worse(undecided: EPPreferenceGP) -> None:
    X = points()
    duel = reliability_check(undecided, SPACE, DUELS, NONE_OPEN)
    assert duel is not None, "a check is due"
    with torch.no_grad():
        mean = undecided.posterior(X).mean.flatten()
        best = X[mean.argmax()]
        chances = {
            place: float(
                undecided.duel_probability(
                    best.unsqueeze(0), X[place].unsqueeze(0), observation_noise=True
                )
            )
            for place in range(len(X))
            # All duels are of neighbours in the list.
            if place // 2 != int(mean.argmax()) // 2
        }
    worst = max(chances, key=chances.__getitem__)
    assert torch.equal(duel, torch.stack([best, X[worst]]))
    assert chances[worst] >= 0.9


def test_checks_end_once_a_coin_explains_the_answers_less(
    undecided: EPPreferenceGP,
) -> None:
    with torch.no_grad():
        gain = float(undecided.log_evidence()) + DUELS * math.log(2)
    for margin, is_due in ((gain + 1e-3, True), (gain - 1e-3, False)):
        duel = reliability_check(undecided, SPACE, DUELS, NONE_OPEN, margin=margin)
        assert (duel is not None) == is_due, f"evidence {gain} beside {margin}"


def test_what_is_not_sure_is_no_check(undecided: EPPreferenceGP) -> None:
    duel = reliability_check(undecided, SPACE, DUELS, NONE_OPEN)
    assert duel is not None
    with torch.no_grad():
        chance = float(
            undecided.duel_probability(duel[:1], duel[1:], observation_noise=True)
        )
    for confidence, is_due in ((chance - 1e-6, True), (chance + 1e-6, False)):
        check = reliability_check(
            undecided, SPACE, DUELS, NONE_OPEN, confidence=confidence
        )
        assert (check is not None) == is_due, f"{chance} beside {confidence}"


@pytest.mark.parametrize(
    ("number", "is_due"), [(4, False), (5, False), (7, False), (8, True), (10, True)]
)
def test_every_second_question_is_one_from_the_seventh(
    undecided: EPPreferenceGP, number: int, is_due: bool
) -> None:
    duel = reliability_check(undecided, SPACE, number, NONE_OPEN)
    assert (duel is not None) == is_due


def test_what_waits_or_was_answered_is_not_asked_again(
    undecided: EPPreferenceGP,
) -> None:
    first = reliability_check(undecided, SPACE, DUELS, NONE_OPEN)
    assert first is not None
    waiting = first.flip(0).unsqueeze(0)
    second = reliability_check(undecided, SPACE, DUELS, waiting)
    assert second is not None
    assert torch.equal(second[0], first[0])
    assert not torch.equal(second[1], first[1]), "that duel waits"
    # Of the best design and whom it met nothing is left to ask.
    place = (points() == first[0]).all(-1).nonzero().item()
    neighbours = points()[[place - place % 2, place - place % 2 + 1]]
    table = DesignSpace.from_bounds(CUBE, rows=neighbours)
    surely = {"margin": math.inf, "confidence": 0.0}
    assert reliability_check(undecided, table, DUELS, NONE_OPEN, **surely) is None


def test_designs_that_nobody_was_shown_are_in_no_check() -> None:
    """Such as those of a catalogue, which a model holds beside the others."""
    corner = torch.ones(1, 2, dtype=torch.float64)
    model = default_model(torch.cat([points(), corner]), duels())
    table = DesignSpace.from_bounds(CUBE, rows=torch.cat([points()[:2], corner]))
    surely = {"margin": math.inf, "confidence": 0.0}
    assert reliability_check(model, table, DUELS, NONE_OPEN, **surely) is None


def test_nobody_is_checked_whose_lapses_no_model_learns() -> None:
    X = points()
    steady = EPPreferenceGP(X, duels())
    assert reliability_check(steady, SPACE, DUELS, NONE_OPEN) is None
    ties = Comparisons(duels()[2:], duels()[:2])
    with_ties = default_model(X, ties)
    assert reliability_check(with_ties, SPACE, DUELS, NONE_OPEN) is None
    of_raters = default_model(X, duels(), raters=torch.arange(16) // 8)
    assert reliability_check(of_raters, SPACE, DUELS, NONE_OPEN) is None


def test_the_next_question_is_a_check_where_one_is_due(
    undecided: EPPreferenceGP,
) -> None:
    question = next_question(undecided, CUBE, 2)
    duel = reliability_check(undecided, SPACE, DUELS, NONE_OPEN)
    assert duel is not None
    assert question.acquisition == CHECK
    assert question.reason.startswith("The answer to this duel is foreseen")
    assert {*map(tuple, question.options.tolist())} == {*map(tuple, duel.tolist())}
    # With one that waits, the number of questions is odd.
    waiting = question.options.unsqueeze(0)
    assert next_question(undecided, CUBE, 2, pending=waiting).acquisition != CHECK
    others = (
        next_question(undecided, CUBE, 2, goal="understand"),
        next_question(undecided, CUBE, 2, beside=points()[:1]),
        next_question(undecided, CUBE, 2, best=points()[:1]),
        next_question(undecided, CUBE, 3),
    )
    assert CHECK not in [other.acquisition for other in others]


def test_a_check_is_of_designs_that_the_space_has(undecided: EPPreferenceGP) -> None:
    limit = (torch.tensor([0, 1]), torch.ones(2, dtype=torch.float64), 0.9)
    question = next_question(undecided, CUBE, 2, inequality_constraints=[limit])
    # A search ends on the edge, on either side of it as processors round.
    assert bool((question.options.sum(-1) >= 0.9 - 1e-9).all())
    fixed = next_question(undecided, CUBE, 2, fixed_features={1: 0.5})
    assert fixed.acquisition != CHECK, "no design was shown there"
