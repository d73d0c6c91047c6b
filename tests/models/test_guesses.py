"""Probability of guesses, beside integrals over a fine grid and a coin's evidence."""

import math

import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from gpytorch.constraints import Positive
from gpytorch.kernels import RBFKernel, ScaleKernel
from gpytorch.priors import LogNormalPrior

from botorch_pref import (
    Choices,
    EPPreferenceGP,
    PreferenceMarginalLogLikelihood,
    Rankings,
    Ratings,
)
from botorch_pref.feedback import Feedback
from botorch_pref.models import guessing_probability
from botorch_pref.models.plausible import GUESSERS

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


def test_ratings_are_no_guesses() -> None:
    ratings = Ratings(torch.arange(4), torch.tensor([0.2, 0.4, 0.6, 0.8]).double())
    model = EPPreferenceGP(POINTS, feedback=[ratings]).eval()
    assert guessing_probability(model) == 0
