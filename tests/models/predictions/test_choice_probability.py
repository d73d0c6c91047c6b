"""Chances of being chosen, against simulated answers and duels."""

import math

import pytest
import torch

from botorch_pref import (
    Choices,
    Comparisons,
    EPPreferenceGP,
    LaplacePreferenceGP,
    PairwiseProbitLikelihood,
    PlackettLuceLikelihood,
    PlackettLuceRegression,
    SkewPreferenceGP,
    UnsupportedFeedbackError,
)
from botorch_pref.models import choice_probability

NOISE = 0.3
POINTS = torch.linspace(0, 1, 5, dtype=torch.float64).unsqueeze(-1)
CHOICES = Choices(
    torch.tensor([[0, 1, 2], [3, 2, 4], [0, 4, -1]]), torch.tensor([1, 3, 0])
)


@pytest.fixture(params=[EPPreferenceGP, SkewPreferenceGP], ids=lambda c: c.__name__)
def model(request):
    likelihood = PairwiseProbitLikelihood(NOISE)
    return request.param(POINTS, feedback=[CHOICES], likelihood=likelihood).eval()


def test_simulated_judges_choose_as_often(model) -> None:
    X = torch.tensor([[0.1], [0.5], [0.8], [0.95]], dtype=torch.float64)
    got = choice_probability(model, X, num_samples=2048).detach()
    generator = torch.Generator().manual_seed(1)
    posterior = model.posterior(X)
    num = 40_000
    with torch.random.fork_rng():
        torch.manual_seed(2)
        utilities = posterior.rsample(torch.Size([num])).squeeze(-1)
    noise = torch.randn(num, 4, generator=generator, dtype=torch.float64)
    chosen = (utilities + math.sqrt(NOISE) * noise).argmax(-1)
    want = chosen.bincount(minlength=4) / num
    # Four standard errors of the simulation, and of 2,048 draws.
    tolerance = 4 * 0.5 * (num**-0.5 + 2048**-0.5)
    torch.testing.assert_close(got, want.double(), rtol=0, atol=tolerance)
    assert float(got.sum()) == pytest.approx(1.0, abs=1e-9)


@pytest.mark.slow
def test_the_choice_out_of_two_is_a_duel(model) -> None:
    X = torch.tensor([[[0.1], [0.5]], [[0.9], [0.4]]], dtype=torch.float64)
    got = choice_probability(model, X, num_samples=1024)
    gap = model.duel_posterior(X[:, :1], X[:, 1:])
    levels = (torch.arange(2000, dtype=torch.float64) + 0.5) / 2000
    draws = gap.quantile(levels).view(2000, 2)
    want = torch.special.ndtr(draws / math.sqrt(2 * NOISE)).mean(0)
    torch.testing.assert_close(got[:, 0], want, rtol=0, atol=4 * 0.5 / 32)


def test_it_has_gradients_where_it_is_evaluated(model) -> None:
    X = torch.tensor([[0.1], [0.5], [0.8]], dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(choice_probability(model, X)[1], X)
    for i in range(3):
        step = torch.zeros_like(X)
        step[i] = 1e-5
        ends = [
            float(choice_probability(model, (X + sign * step).detach())[1].detach())
            for sign in (1, -1)
        ]
        want = (ends[0] - ends[1]) / 2e-5
        assert float(gradient[i]) == pytest.approx(want, rel=1e-4, abs=1e-7)


def softmax_models() -> list:
    gp = LaplacePreferenceGP(
        POINTS, feedback=[CHOICES], likelihood=PlackettLuceLikelihood()
    )
    return [gp.eval(), PlackettLuceRegression(POINTS, feedback=[CHOICES])]


@pytest.mark.parametrize("model", softmax_models(), ids=lambda m: type(m).__name__)
def test_softmax_noise_is_that_of_gumbel_judges(model) -> None:
    X = torch.tensor([[0.1], [0.5], [0.8], [0.95]], dtype=torch.float64)
    got = choice_probability(model, X, num_samples=2048).detach()
    generator = torch.Generator().manual_seed(1)
    options = {"generator": generator, "dtype": torch.float64}
    posterior, num = model.posterior(X), 40_000
    root = torch.linalg.cholesky(
        posterior.covariance_matrix.detach() + 1e-9 * torch.eye(4)
    )
    utilities = (
        posterior.mean.detach().squeeze(-1) + torch.randn(num, 4, **options) @ root.mT
    )
    gumbel = -torch.log(-torch.log(torch.rand(num, 4, **options)))
    want = (utilities + gumbel).argmax(-1).bincount(minlength=4) / num
    tolerance = 4 * 0.5 * (num**-0.5 + 2048**-0.5)
    torch.testing.assert_close(got, want.double(), rtol=0, atol=tolerance)
    assert float(got.sum()) == pytest.approx(1.0, abs=1e-9)


def test_the_softmax_choice_out_of_two_is_the_expected_sigmoid() -> None:
    model = PlackettLuceRegression(POINTS, feedback=[CHOICES])
    X = torch.tensor([[0.1], [0.9]], dtype=torch.float64)
    got = choice_probability(model, X, num_samples=4096)
    want = model.duel_probability(X[:1], X[1:], observation_noise=True)
    # Quasi-random draws of one smooth function: far below 0.5 / sqrt(4096).
    torch.testing.assert_close(got[:1], want, rtol=0, atol=1e-3)


def test_a_model_of_duels_alone_knows_of_no_sets() -> None:
    duels = EPPreferenceGP(POINTS, Comparisons(torch.tensor([[0, 1]])))
    with pytest.raises(UnsupportedFeedbackError, match="choices or rankings"):
        choice_probability(duels, POINTS[:3])
