"""Probability of guesses, beside integrals over a fine grid and a coin's evidence."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from gpytorch.constraints import Positive
from gpytorch.kernels import RBFKernel, ScaleKernel
from gpytorch.priors import LogNormalPrior

from botorch_pref import (
    Choices,
    Comparisons,
    EPPreferenceGP,
    LapsingProbitLikelihood,
    PairwiseProbitLikelihood,
    PreferenceMarginalLogLikelihood,
    Rankings,
    Ratings,
)
from botorch_pref.evaluation import predictive_log_probability
from botorch_pref.feedback import Feedback
from botorch_pref.likelihoods import PreferenceLikelihood
from botorch_pref.models import AveragedUtility, guessing_probability
from botorch_pref.models.plausible import GUESSED, GUESSERS, guessing_model

POINTS = torch.tensor([[0.1], [0.3], [0.5], [0.9]], dtype=torch.float64)
PAIRS = torch.tensor([[1, 0], [2, 1], [3, 0], [2, 3]])


AGREED = [[0, 1, 2, 3], [1, 0, 2, 3], [0, 1, 3, 2]]
OPPOSED = [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2], [2, 0, 3, 1]]


def spread_model(feedback: Feedback, scale: float) -> EPPreferenceGP:
    """Makes a model with a fixed noise, whose output scale has a log-normal prior."""
    shape = RBFKernel().double().requires_grad_(False)
    prior = LogNormalPrior(1.5, 1.0)
    logs = Positive(transform=torch.exp, inv_transform=torch.log)
    kernel = ScaleKernel(
        shape, outputscale_prior=prior, outputscale_constraint=logs
    ).double()
    kernel.outputscale = scale
    return EPPreferenceGP(POINTS, feedback=[feedback], covar_module=kernel).eval()


@pytest.mark.parametrize(
    ("feedback", "coin"),
    [
        (Rankings(torch.tensor(AGREED)), 24.0 ** -len(AGREED)),
        (Rankings(torch.tensor(OPPOSED)), 24.0 ** -len(OPPOSED)),
        (
            Choices(torch.arange(4).repeat(5, 1), torch.tensor([0, 1, 2, 3, 1])),
            4.0**-5,
        ),
    ],
    ids=["agreed", "opposed", "choices"],
)
def test_rankings_and_choices_may_be_guesses(feedback: Feedback, coin: float) -> None:
    """By an integral over the output scale, and the evidence of a coin."""
    logs = torch.linspace(1.5 - 8, 1.5 + 8, 129).double()
    with torch.no_grad():
        heights = [
            float(spread_model(feedback, math.exp(log)).log_evidence()) for log in logs
        ]
    density = torch.distributions.Normal(1.5, 1.0).log_prob(logs).double()
    attentive = float(
        torch.trapezoid((torch.tensor(heights).double() + density).exp(), logs)
    )
    model = spread_model(feedback, 3.0)
    fit_gpytorch_mll(PreferenceMarginalLogLikelihood(model.likelihood, model))
    found = guessing_probability(model)
    # Weights of 24 draws that differ by a third leave an error of 0.07.
    expected = math.log(coin / attentive * GUESSERS / (1 - GUESSERS))
    assert math.log(found / (1 - found)) == pytest.approx(expected, abs=0.2)


def test_ties_alone_say_nothing_of_guesses() -> None:
    """Who guesses calls nothing equal more often than a person with a taste does."""
    likelihood = PairwiseProbitLikelihood(
        1.0, tie_threshold=1.0, noise_prior=LogNormalPrior(1.0, 1.0)
    )
    for pairs, guesses in ((None, False), (PAIRS.flip(-1)[:2], True)):
        model = EPPreferenceGP(
            POINTS,
            feedback=[Comparisons(pairs, ties=torch.cat([PAIRS, PAIRS]))],
            covar_module=RBFKernel().double().requires_grad_(False),
            likelihood=likelihood,
        ).eval()
        probability = guessing_probability(model)
        assert (probability > 0) is guesses, f"{probability} with the pairs {pairs}"


def test_ratings_are_no_guesses() -> None:
    ratings = Ratings(torch.arange(4), torch.tensor([0.2, 0.4, 0.6, 0.8]).double())
    model = EPPreferenceGP(POINTS, feedback=[ratings]).eval()
    assert guessing_probability(model) == 0


SHARE = 0.3
"""Probability of guesses, too low for members that guess."""
LIKELIHOODS = {
    "probit": lambda noise: PairwiseProbitLikelihood(
        noise, noise_prior=LogNormalPrior(1.0, 1.0)
    ),
    "ties": lambda noise: PairwiseProbitLikelihood(
        noise, tie_threshold=0.8, noise_prior=LogNormalPrior(1.0, 1.0)
    ),
    "lapses": lambda noise: LapsingProbitLikelihood(
        noise, lapse_rate=0.1
    ).learn_noise(),
}


def members_of(likelihood: Callable[[float], PreferenceLikelihood]) -> list[Any]:
    """Makes models of noises 1, 2 and 5."""
    return [
        EPPreferenceGP(POINTS, PAIRS, likelihood=likelihood(noise)).eval()
        for noise in (1.0, 2.0, 5.0)
    ]


@pytest.mark.parametrize("kind", LIKELIHOODS)
def test_an_answer_that_is_foreseen_may_be_a_guess(kind: str) -> None:
    """By the members one by one, and the model of one who guesses."""
    members = members_of(LIKELIHOODS[kind])
    average = AveragedUtility(members[1], members, SHARE)
    guesser = guessing_model(members[1])
    X, against = POINTS[1:], POINTS[:1]
    with torch.no_grad():
        of_members = [m.duel_probability(X, against, True) for m in members]
        expected = (1 - SHARE) * sum(of_members) / 3
        expected = expected + SHARE * guesser.duel_probability(X, against, True)
        by_utility = [m.duel_probability(X, against) for m in members]
        found = average.duel_probability(X, against, observation_noise=True)
        found_by_utility = average.duel_probability(X, against)
    # The guesser's noise is e^8, and her utilities are below one in size.
    torch.testing.assert_close(
        found, expected, atol=SHARE * math.exp(-4) / math.sqrt(4 * math.pi), rtol=0
    )
    torch.testing.assert_close(found_by_utility, sum(by_utility) / 3)


def test_each_kind_of_answers_may_be_a_guess() -> None:
    """One of two with ties, a tie, one of three, and an order of three."""
    members = members_of(LIKELIHOODS["ties"])
    kept = AveragedUtility(members[1], members)
    average = AveragedUtility(members[1], members, SHARE)
    # Equal options differ by less than the threshold this often, at a noise of 2.
    tie = math.erf(0.8 / 2 / math.sqrt(2))
    answers: list[tuple[Feedback, float]] = [
        (Comparisons(torch.tensor([[0, 1], [3, 2]])), (1 - tie) / 2),
        (Comparisons(None, ties=torch.tensor([[0, 1]])), tie),
        (Choices(torch.tensor([[0, 1, 3]]), torch.tensor([3])), 1 / 3),
        (Rankings(torch.tensor([[0, 3, 2]])), 1 / 6),
    ]
    for feedback, guess in answers:
        with torch.no_grad():
            chances, of_members = (
                predictive_log_probability(feedback, model, POINTS).exp()
                for model in (average, kept)
            )
        # Integrals over what is heard are right to nine digits.
        torch.testing.assert_close(
            chances, (1 - SHARE) * of_members + SHARE * guess, rtol=1e-8, atol=0
        )


def test_members_that_guess_are_not_counted_twice() -> None:
    members = members_of(LIKELIHOODS["probit"])
    members = [*members, guessing_model(members[1])]
    average = AveragedUtility(members[1], members, 0.75)
    assert average.guessing_probability > GUESSED, "members guess above it"
    with torch.no_grad():
        found = average.duel_probability(POINTS[1:], POINTS[:1], True)
        of_members = [m.duel_probability(POINTS[1:], POINTS[:1], True) for m in members]
    torch.testing.assert_close(found, sum(of_members) / 4)


def test_guesses_make_the_gradient_of_an_answer_smaller() -> None:
    members = members_of(LIKELIHOODS["ties"])
    gradients = []
    for share in (0.0, SHARE):
        X = POINTS[1:].clone().requires_grad_()
        average = AveragedUtility(members[1], members, share)
        chance = average.duel_probability(X, POINTS[:1], observation_noise=True)
        gradients.append(torch.autograd.grad(chance.sum(), X)[0])
    assert bool((gradients[0] != 0).all()), "the chance changes with the options"
    torch.testing.assert_close(gradients[1], (1 - SHARE) * gradients[0])
