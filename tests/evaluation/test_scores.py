"""Scores of held-out answers against simulations, and measures of orders."""

import itertools
import math

import pytest
import torch
from cases import in_turn
from hypothesis import given
from hypothesis import strategies as st
from models.cell_models import each_part, made, other_answers
from truths import answers
from truths.answers import log_probabilities

from benchmarks.ranking_measures import (
    comparison_auc,
    item_values,
    positive_ratio,
    top_k_value,
)
from botorch_pref import (
    Choices,
    Comparisons,
    EPPreferenceGP,
    FeedbackError,
    FullyBayesianEPPreferenceGP,
    FullyBayesianLaplacePreferenceGP,
    LaplacePreferenceGP,
    LineChoices,
    OrdinalProbitLikelihood,
    OrdinalRatings,
    PairwiseLogitLikelihood,
    PlackettLuceLikelihood,
    PlackettLuceRegression,
    Rankings,
    Ratings,
    SkewPreferenceGP,
    Strengths,
    UnsupportedFeedbackError,
    Validity,
)
from botorch_pref.evaluation import level_probabilities, predictive_log_probability
from botorch_pref.evaluation import scores as module
from botorch_pref.evaluation.scores import ordered_pairs

POINTS = torch.linspace(0, 1, 5, dtype=torch.float64).unsqueeze(-1)
NUM = 20_000

PAIRS = torch.tensor([[0, 1], [3, 2], [4, 1]])
SETS = torch.tensor([[0, 1, 2], [3, 4, -1], [1, 2, 4]])
ORDERS = torch.tensor([[0, 2, 1], [3, 4, -1], [4, 1, 2]])


def score(model, feedback, points=POINTS) -> torch.Tensor:
    return predictive_log_probability(feedback, model, points).detach()


def check_scores(model, law, held_out) -> None:
    """Compares with averages over draws, by four standard errors of both."""
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(3)
        draws = model.posterior(answers.POINTS).rsample(torch.Size([NUM]))
    probabilities = log_probabilities(draws.squeeze(-1), held_out, law).exp().detach()
    # Sets are averaged over draws too, which are less random than these.
    size = (
        module.NUM_DRAWS
        if isinstance(held_out, Choices | LineChoices | Rankings)
        else math.inf
    )
    error = 4 * probabilities.std(0) * (NUM**-0.5 + size**-0.5)
    got = score(model, held_out, answers.POINTS).exp()
    assert bool(((got - probabilities.mean(0)).abs() < error).all())


@each_part
def test_answers_have_their_average_probability(engine, cell) -> None:
    law = cell.likelihood().double()
    check_scores(made(engine, cell), law, other_answers(cell).feedback)


def test_sets_have_their_average_probability_under_weights() -> None:
    kinds = [answers.CHOICES, answers.RANKINGS]
    model = PlackettLuceRegression(
        answers.POINTS, feedback=kinds, inference="laplace", eta=0.1
    )
    for held_out in kinds:
        check_scores(model, PlackettLuceLikelihood(), held_out)


@pytest.mark.parametrize("kind", [EPPreferenceGP, SkewPreferenceGP])
def test_levels_have_their_average_probability(kind) -> None:
    """Within four standard errors of draws of the utility."""
    cutpoints = torch.tensor([-0.6, 0.1, 0.9], dtype=torch.float64)
    ordinal_ratings = OrdinalRatings(
        torch.tensor([0, 2, 4, 4]), torch.tensor([0, 1, 3, 2]), 4
    )
    likelihood = OrdinalProbitLikelihood(noise=0.3, cutpoints=cutpoints)
    model = kind(POINTS, feedback=[ordinal_ratings], likelihood=likelihood).eval()
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(3)
        draws = model.posterior(POINTS).rsample(torch.Size([NUM]))
    ends = torch.tensor([-math.inf, *cutpoints.tolist(), math.inf]).double()
    level_masses = torch.special.ndtr((ends - draws) / 0.3**0.5).diff(dim=-1)
    probabilities = level_probabilities(model, POINTS).detach()
    assert probabilities.shape == (len(POINTS), 4)
    error = 4 * level_masses.std(0) / NUM**0.5
    assert bool(((probabilities - level_masses.mean(0)).abs() < error).all())


def test_sets_may_come_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = Choices(SETS, torch.tensor([0, 3, 4]))
    model = EPPreferenceGP(POINTS, feedback=[answers]).eval()
    joint_score = score(model, answers)
    monkeypatch.setattr(module, "_ITEMS_AT_ONCE", 1)
    torch.testing.assert_close(score(model, answers), joint_score)


def test_what_is_not_known_is_refused() -> None:
    duels = EPPreferenceGP(POINTS, PAIRS)
    with pytest.raises(UnsupportedFeedbackError, match="held-out object is not known"):
        score(duels, object())
    answers = Validity(torch.tensor([0]), torch.tensor([True]))
    with pytest.raises(UnsupportedFeedbackError, match="no likelihood for Validity"):
        score(duels, answers)
    with pytest.raises(UnsupportedFeedbackError, match="no likelihood for Choices"):
        score(duels, Choices(SETS, torch.tensor([0, 3, 4])))
    with pytest.raises(UnsupportedFeedbackError, match="ties"):
        score(duels, Comparisons(PAIRS, ties=PAIRS))
    utilities = torch.zeros(2, dtype=torch.float64)
    with pytest.raises(UnsupportedFeedbackError, match="ranking under PairwiseLogit"):
        PairwiseLogitLikelihood().log_order_probability(utilities)


ENSEMBLE_CASES = {
    "duels": (EPPreferenceGP, [Comparisons(PAIRS, PAIRS[:1])]),
    "validity": (
        EPPreferenceGP,
        [Validity(torch.arange(3), torch.tensor([True, False, True]))],
    ),
    "levels": (
        EPPreferenceGP,
        [OrdinalRatings(torch.tensor([0, 1, 4]), torch.tensor([0, 1, 2]), 3)],
    ),
    "sets": (EPPreferenceGP, [Choices(SETS, SETS[:, 1]), Rankings(ORDERS)]),
    "scales": (
        LaplacePreferenceGP,
        [
            Strengths(PAIRS, torch.tensor([0.6, 0.7, 0.9]).double()),
            Ratings(torch.tensor([0, 3]), torch.tensor([0.2, 0.9]).double()),
        ],
    ),
}


@in_turn("name", ENSEMBLE_CASES)
def test_ensembles_average_the_probabilities_of_their_members(name: str) -> None:
    kind, blocks = ENSEMBLE_CASES[name]
    ensemble_class = {
        EPPreferenceGP: FullyBayesianEPPreferenceGP,
        LaplacePreferenceGP: FullyBayesianLaplacePreferenceGP,
    }[kind]
    ensemble = ensemble_class(POINTS, feedback=blocks)
    single = kind(POINTS, feedback=blocks)
    spread = torch.tensor([-0.4, 0.1, 0.5], dtype=torch.float64)
    samples = {
        key: value.detach() + spread.reshape(-1, *[1] * value.dim())
        for key, value in single.named_parameters()
    }
    ensemble.load_mcmc_samples(samples)
    for block in blocks:
        members = []
        for i in range(len(spread)):
            single.load_state_dict({k: v[i] for k, v in samples.items()}, strict=False)
            members.append(score(single.eval(), block).exp())
        want = torch.stack(members).mean(0)
        got = score(ensemble.eval(), block).exp()
        torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-6)


def test_a_regression_scores_duels_and_names_what_it_cannot_say() -> None:
    model = PlackettLuceRegression(POINTS, PAIRS).eval()
    pairs = torch.tensor([[0, 4], [3, 1]])
    won = model.duel_probability(
        POINTS[pairs[:, :1]], POINTS[pairs[:, 1:]], observation_noise=True
    )
    scores = score(model, Comparisons(pairs)).exp()
    torch.testing.assert_close(scores, won.detach().flatten(), rtol=1e-12, atol=0)
    with pytest.raises(UnsupportedFeedbackError, match="no likelihood for Validity"):
        score(model, Validity(torch.tensor([0]), torch.tensor([True])))


@in_turn("pair", [[0, -1], [0, 5]])
def test_answers_about_points_that_there_are_not(pair) -> None:
    model = EPPreferenceGP(POINTS, PAIRS)
    with pytest.raises(FeedbackError, match=rf"is {pair[1]}, but there are 5"):
        predictive_log_probability(Comparisons(torch.tensor([pair])), model, POINTS)


probabilities = st.lists(
    # Sixteenths, so that ties are ties.
    st.integers(0, 16).map(lambda i: i / 16),
    min_size=1,
    max_size=12,
)


@given(probabilities)
def test_auc_is_the_chance_that_a_win_scores_above_a_loss(values) -> None:
    pairs = list(itertools.product(values, [1 - v for v in values]))
    above = sum((a > b) + 0.5 * (a == b) for a, b in pairs)
    got = comparison_auc(torch.tensor(values, dtype=torch.float64))
    assert got == pytest.approx(above / len(pairs), abs=1e-12)


def test_a_ranking_gives_all_its_pairs_and_a_choice_those_of_the_winner() -> None:
    orders = torch.tensor([[2, 0, 1], [1, 3, -1]])
    got = ordered_pairs(Rankings(orders).stages()).tolist()
    assert sorted(got) == [[0, 1], [1, 3], [2, 0], [2, 1]]
    choices = Choices(torch.tensor([[2, 0, 1], [1, 3, -1]]), torch.tensor([0, 3]))
    got = ordered_pairs(choices.stages()).tolist()
    assert sorted(got) == [[0, 1], [0, 2], [3, 1]]


def test_values_are_shares_of_wins() -> None:
    pairs = torch.tensor([[0, 1], [0, 2], [1, 2], [2, 0]])
    truth = item_values(pairs, torch.ones(4), 4)
    assert truth[:3].tolist() == pytest.approx([2 / 3, 1 / 2, 1 / 3])
    assert truth[3].isnan()
    estimate = item_values(pairs, torch.tensor([0.9, 0.6, 0.3, 0.2]), 4)
    # Item 0 wins its first two with 0.9 and 0.6, and the last with 1 - 0.2.
    assert estimate[:3].tolist() == pytest.approx(
        [(0.9 + 0.6 + 0.8) / 3, (0.1 + 0.3) / 2, (0.4 + 0.7 + 0.2) / 3]
    )


def test_top_k_compares_true_values() -> None:
    truth = torch.tensor([0.9, 0.1, 0.5, math.nan])
    assert top_k_value(truth, torch.tensor([3.0, 2.0, 1.0, 9.0]), 2) == pytest.approx(
        (0.9 + 0.1) / (0.9 + 0.5)
    )
    assert top_k_value(truth, torch.tensor([3.0, 2.0, 1.0, 9.0]), 10) == 1.0


def test_ratio_counts_both_sides_of_each_comparison() -> None:
    mean = torch.tensor([0.5, 0.6, -0.4, 5.0])
    deviation = torch.tensor([0.1, 0.1, 0.1, 0.1])
    got = positive_ratio(
        mean, deviation, torch.tensor([-1.0, 0.0, 1.0]), torch.tensor([0.0, 0.2, 0.4])
    )
    assert got.count.tolist() == [[3, 0], [3, 0]]
    assert got.ratio[:, 0].tolist() == pytest.approx([1 / 3, 2 / 3])
    assert bool(got.ratio[:, 1].isnan().all())
