"""The recommended model: the same as its parts, in any units, of several raters."""

import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from cases import in_turn
from draws import normal, uniform
from torch import Tensor

from botorch_pref import (
    Comparisons,
    DuelKernel,
    EPPreferenceGP,
    LapsingProbitLikelihood,
    PairwiseProbitLikelihood,
    PreferenceMarginalLogLikelihood,
    Rankings,
    Ratings,
    default_model,
)
from botorch_pref.asking.default_models import likelihoods_of_people
from botorch_pref.errors import FeedbackError
from botorch_pref.models import AgreementKernel, GroupUtility, guessing_probability

UNITS = torch.tensor([[14.0, 0.0, 0.0, -1.0], [22.0, 1.0, 1.0, 3.0]]).double()
"""A number, a choice of two, and another number."""


def designs(count: int, seed: int = 0) -> Tensor:
    """Draws designs in the unit cube, with the choice in columns 1 and 2."""
    X = uniform(count, 4, seed=seed)
    X[:, 1] = (X[:, 1] > 0.5).double()
    X[:, 2] = 1 - X[:, 1]
    return X


def duels(X: Tensor) -> Tensor:
    """Neighbours compared by a utility of the first number and of the choice."""
    utility = 4 * X[:, 0] + 2 * X[:, 1]
    pairs = torch.arange(len(X) // 2 * 2).reshape(-1, 2)
    return pairs.gather(-1, utility[pairs].argsort(-1, descending=True))


def test_the_model_is_that_of_its_parts_in_any_units() -> None:
    X, new = designs(24), designs(5, seed=1)
    pairs = duels(X)
    by_hand = EPPreferenceGP(
        X,
        pairs,
        covar_module=DuelKernel(4, categorical=[(1, 2)]),
        likelihood=LapsingProbitLikelihood.default_for(Comparisons(pairs)),
    )
    fit_gpytorch_mll(PreferenceMarginalLogLikelihood(by_hand.likelihood, by_hand))

    def in_units(points: Tensor) -> Tensor:
        return UNITS[0] + points * (UNITS[1] - UNITS[0])

    model = default_model(in_units(X), pairs, bounds=UNITS, categorical=[(1, 2)])
    assert not model.training
    expected = by_hand.eval().posterior(new)
    posterior = model.posterior(in_units(new))
    torch.testing.assert_close(posterior.mean, expected.mean, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(
        posterior.variance, expected.variance, rtol=1e-3, atol=1e-3
    )


@in_turn(
    "feedback",
    [
        [Rankings(torch.tensor([[0, 1, 2, 3], [4, 5, 6, 7]]))],
        [
            Rankings(torch.tensor([[0, 1, 2]])),
            Comparisons(torch.tensor([[4, 5], [6, 7]])),
        ],
    ],
)
def test_rankings_share_a_learned_noise_with_duels(feedback: list) -> None:
    model = default_model(designs(8), feedback)
    likelihood = model.likelihood_of(Comparisons)
    assert type(likelihood) is PairwiseProbitLikelihood
    assert model.likelihood_of(Rankings) is likelihood
    prior = LapsingProbitLikelihood.default_for(None).noise_prior
    assert likelihood.noise_prior.loc == prior.loc
    assert likelihood.noise_prior.scale == prior.scale
    noise = float(likelihood.noise.detach())
    assert noise != 1.0, "the fit left the noise where it began"


@pytest.mark.parametrize("pairs", [None, torch.tensor([[0, 1]])])
def test_ties_beside_rankings_keep_their_threshold_in_noises(
    pairs: Tensor | None,
) -> None:
    """A noise that is learned beside a fixed threshold makes ties say nothing."""
    ties = Comparisons(pairs, ties=torch.tensor([[1, 2]]))
    ranking = Rankings(torch.tensor([[0, 1, 2]]))
    likelihood = likelihoods_of_people([ranking, ties])[Comparisons]
    assert isinstance(likelihood, PairwiseProbitLikelihood)
    assert not likelihood.raw_noise.requires_grad
    assert not likelihood.raw_tie_threshold.requires_grad


def test_who_says_at_random_also_that_two_are_equal_is_told_from_a_person() -> None:
    """Ties had no probability under a guess, so that nobody with ties guessed."""
    pairs = uniform(40, 20, seed=4).argsort(-1)[:, :2]
    duels = Comparisons(pairs[:30], ties=pairs[30:])
    assert guessing_probability(default_model(uniform(20, 2), duels)) > 0.5


def test_duels_beside_ratings_have_the_default_noise_of_models() -> None:
    ratings = Ratings(torch.tensor([0, 1]), torch.tensor([0.2, 0.7]).double())
    likelihood = default_model(designs(8), ratings).likelihood_of(Comparisons)
    assert type(likelihood) is PairwiseProbitLikelihood
    assert float(likelihood.noise.detach()) == 1.0


def test_beside_a_chosen_likelihood_models_have_their_own_of_other_kinds() -> None:
    pairs = Comparisons(torch.tensor([[0, 1]]))
    ratings = Ratings(torch.tensor([0, 1]), torch.tensor([0.2, 0.7]).double())
    of_people = likelihoods_of_people([pairs, ratings])
    assert {*of_people} == {Comparisons, Ratings}
    assert likelihoods_of_people([pairs, ratings], chosen=[Ratings]) == {}
    # The questions to come are duels, which no answer has.
    of_ratings = likelihoods_of_people([ratings], chosen=[Ratings])
    assert {*of_ratings} == {Comparisons}
    assert type(of_ratings[Comparisons]) is PairwiseProbitLikelihood


def test_ratings_of_people_are_believed_as_far_as_they_deserve() -> None:
    """Truth within 1.96 deviations; by rounding alone 29 % of such utilities were."""
    covered = []
    for seed in range(4):
        X = uniform(16, 8, seed=seed)
        utility = 2 * X[:, 0] - 3 * (X[:, 1] - 0.4).square() - 0.5
        share = torch.special.ndtr(utility / 2**0.5)
        ratings = (10 * (share + 0.1 * normal(16, seed=seed))).round() / 10
        feedback = Ratings(torch.arange(16), ratings.clamp(0.05, 0.95))
        posterior = default_model(X, feedback).posterior(X)
        error = (posterior.mean.squeeze(-1) - utility).abs()
        covered.append(error <= 1.96 * posterior.variance.squeeze(-1).sqrt())
    share_covered = float(torch.stack(covered).double().mean())
    assert share_covered > 0.75, f"{share_covered:.0%} of the utilities are covered"


def test_a_coin_is_told_from_a_person() -> None:
    """Forty duels of five parameters; a person errs in a tenth of hers."""
    guesses = {"coin": [], "person": []}
    for seed in range(8):
        X = uniform(80, 5, seed=seed)
        pairs = torch.arange(80).reshape(40, 2)
        coins = torch.where(pairs % 4 < 2, pairs, pairs.flip(-1))
        answers = pairs.gather(-1, X[:, 0][pairs].argsort(-1, descending=True))
        answers[::10] = answers[::10].flip(-1)
        for who, duels in (("coin", coins), ("person", answers)):
            guesses[who].append(guessing_probability(default_model(X, duels)))
    means = {who: sum(values) / len(values) for who, values in guesses.items()}
    # A tenth of people are coins before any answer.
    assert means["coin"] > 0.4, f"coins are not told from people: {means}"
    assert means["person"] < 0.01, f"people are taken for coins: {means}"


def test_raters_who_disagree_are_known_to() -> None:
    """Two agree about the first number, and a third prefers the contrary."""
    X = designs(36)
    pairs = duels(X)
    raters = torch.arange(36) // 12
    pairs[12:] = pairs[12:].flip(-1)
    model = default_model(X, pairs, categorical=[(1, 2)], raters=raters)
    assert isinstance(model, GroupUtility)
    assert model.raters.flatten().tolist() == [0, 1, 2]
    two = torch.tensor([[1.0, 1.0, 0.0, 0.5], [0.0, 0.0, 1.0, 0.5]]).double()

    def chance(rater: int) -> float:
        mine = GroupUtility(model.rater_model, torch.tensor([rater]))
        return float(mine.duel_probability(two[:1], two[1:]).detach())

    # Six duels each: the contrary rater is drawn towards the others, not beyond 1/2.
    assert chance(0) > 0.7
    assert chance(2) < 0.48
    kernels = model.rater_model.covar_module.modules()
    (agreement,) = (k for k in kernels if isinstance(k, AgreementKernel))
    assert float(agreement.agreement.detach()) < 0.7


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"bounds": UNITS.flip(0)}, "upper ends, which are larger"),
        ({"bounds": UNITS[:, :2]}, "bounds is"),
        ({"raters": torch.zeros(3)}, r"raters has shape \(3,\)"),
        ({"categorical": [(0, 9)]}, "categorical is"),
        ({"categorical": [(0, 1)]}, r"X\[0\] has .* in the columns \[0, 1\]"),
        (
            {"categorical": [(1, 2)], "bounds": UNITS + torch.tensor([[0.0], [1.0]])},
            "give 0 and 1",
        ),
    ],
)
def test_what_is_wrong_is_named(arguments: dict, message: str) -> None:
    X = designs(8)
    with pytest.raises(FeedbackError, match=message):
        default_model(X, duels(X), **arguments)
