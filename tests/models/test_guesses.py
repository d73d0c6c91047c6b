"""Noise and guesses of a person, beside integrals over fine grids."""

import math
from typing import Any

import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from gpytorch.constraints import Positive
from gpytorch.kernels import RBFKernel, ScaleKernel
from gpytorch.priors import LogNormalPrior

from botorch_pref import (
    BotorchPrefError,
    Choices,
    EPPreferenceGP,
    PairwiseProbitLikelihood,
    PreferenceMarginalLogLikelihood,
    Rankings,
    Ratings,
)
from botorch_pref.feedback import Feedback
from botorch_pref.models import average_noise, guessing_probability

POINTS = torch.tensor([[0.1], [0.3], [0.5], [0.9]], dtype=torch.float64)
PAIRS = torch.tensor([[1, 0], [2, 1], [3, 0], [2, 3]])


@pytest.mark.parametrize(
    "pairs",
    [
        PAIRS,
        torch.cat([PAIRS, PAIRS.flip(-1)]),
        # So many that the noise is known within a third of the spread of its prior.
        torch.cat([PAIRS.repeat(30, 1), PAIRS.flip(-1).repeat(10, 1)]),
    ],
)
def test_the_noise_is_the_mean_of_its_logarithm(pairs: torch.Tensor) -> None:
    """By an integral with steps that are ten times as fine, and a coin's evidence."""
    likelihood = PairwiseProbitLikelihood(2.0, noise_prior=LogNormalPrior(1.0, 1.5))
    model = EPPreferenceGP(POINTS, pairs, likelihood=likelihood).eval()
    average_noise(model)
    found = float(likelihood.noise.detach().log())
    logs = torch.linspace(1 - 9, 1 + 9, 241).double()
    heights = []
    with torch.no_grad():
        for log_noise in logs.tolist():
            other = EPPreferenceGP(
                POINTS, pairs, likelihood=PairwiseProbitLikelihood(math.exp(log_noise))
            )
            heights.append(float(other.log_evidence()))
    density = torch.distributions.Normal(1.0, 1.5).log_prob(logs).double()
    attentive = (torch.tensor(heights).double() + density).exp()
    evidence = float(torch.trapezoid(attentive, logs))
    # A coin gives any answer with a half; the noise of e^8 is not quite one.
    coin = 0.5 ** len(pairs)
    guessing = coin / (coin + evidence)
    mean = float(torch.trapezoid(attentive * logs, logs)) / evidence
    expected = guessing * 8 + (1 - guessing) * mean
    assert found == pytest.approx(expected, abs=0.03)


def test_a_noise_stays_where_the_evidence_of_another_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    likelihood = PairwiseProbitLikelihood(2.0, noise_prior=LogNormalPrior(1.0, 1.5))
    model = EPPreferenceGP(POINTS, PAIRS, likelihood=likelihood).eval()

    solve, noises = type(model.engine).solve, []

    def fail_later(*arguments: Any, **options: Any) -> Any:
        noises.append(1)
        if len(noises) > 3:
            raise BotorchPrefError("no evidence")
        return solve(*arguments, **options)

    monkeypatch.setattr(type(model.engine), "solve", fail_later)
    with pytest.raises(BotorchPrefError, match="no evidence"):
        average_noise(model)
    assert float(likelihood.noise.detach()) == pytest.approx(2.0)


def test_noise_without_a_log_normal_prior_is_not_averaged() -> None:
    model = EPPreferenceGP(POINTS, PAIRS).eval()
    with pytest.raises(BotorchPrefError, match="has the prior None"):
        average_noise(model)


AGREED = [[0, 1, 2, 3], [1, 0, 2, 3], [0, 1, 3, 2]]
OPPOSED = [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2], [2, 0, 3, 1]]


def spread_model(feedback: Feedback, scale: float) -> EPPreferenceGP:
    """A model with a fixed noise, whose output scale has a log-normal prior."""
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
    expected = math.log(coin / attentive)
    assert math.log(found / (1 - found)) == pytest.approx(expected, abs=0.2)


def test_ratings_are_no_guesses() -> None:
    ratings = Ratings(torch.arange(4), torch.tensor([0.2, 0.4, 0.6, 0.8]).double())
    model = EPPreferenceGP(POINTS, feedback=[ratings]).eval()
    assert guessing_probability(model) == 0
