"""Improvement and information gain against brute-force quadrature."""

import math

import pytest
import torch
from botorch.models import PairwiseGP, SingleTaskGP
from botorch.models.likelihoods.pairwise import (
    PairwiseLogitLikelihood as BotorchLogitLikelihood,
)
from botorch.models.model import Model
from botorch.optim import optimize_acqf
from botorch.utils.sampling import manual_seed
from scipy.stats import norm
from torch import Tensor

from botorch_pref.acquisition import DuelingEIIG
from botorch_pref.errors import UnsupportedFeedbackError
from botorch_pref.likelihoods import PairwiseLogitLikelihood, PairwiseProbitLikelihood
from botorch_pref.likelihoods.links.logit_link import LogitLink
from botorch_pref.likelihoods.links.probit_link import ProbitLink
from botorch_pref.models import EPPreferenceGP

X_REF = torch.tensor([[0.4, 0.6]], dtype=torch.double)
BOUNDS = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double)
ONE = torch.tensor([[1.0, -2.0]], dtype=torch.double)
SEVERAL = torch.tensor([[1.0, -2.0], [4.0, 1.0], [-3.0, 0.5]], dtype=torch.double)


def challengers(count: int = 6) -> Tensor:
    generator = torch.Generator().manual_seed(3)
    return torch.rand(count, 1, 2, generator=generator, dtype=torch.double)


def brute_force(win, means: Tensor, deviation: float, k: float) -> float:
    """``k log P + h(P) - E[h]`` on a grid of differences of utilities."""
    low, high = float(means.min()), float(means.max())
    u = torch.linspace(
        low - 10 * deviation, high + 10 * deviation, 40_001, dtype=torch.double
    )
    z = (u - means.unsqueeze(-1)) / deviation
    density = torch.exp(-0.5 * z.square()).mean(0) / (
        deviation * math.sqrt(2 * math.pi)
    )
    p = win(u)
    entropy = -(torch.xlogy(p, p) + torch.xlogy(1 - p, 1 - p))
    expected = float(torch.trapezoid(entropy * density, u))
    total = float(torch.trapezoid(p * density, u))
    gain = -(total * math.log(total) + (1 - total) * math.log(1 - total)) - expected
    return k * math.log(total) + gain


@pytest.mark.parametrize("centers", [ONE, SEVERAL], ids=["Gaussian", "mixture"])
@pytest.mark.parametrize("k", [0.1, 0.5])
@pytest.mark.parametrize("link", ["probit", "logit"])
def test_against_quadrature(
    centers: Tensor, k: float, link: str, linear_utility
) -> None:
    if link == "probit":
        likelihood = PairwiseProbitLikelihood(noise=0.25)

        def win(u: Tensor) -> Tensor:
            return torch.from_numpy(norm.cdf(u.numpy() / math.sqrt(2 * 0.25)))

    else:
        likelihood, win = PairwiseLogitLikelihood(), torch.sigmoid
    model = linear_utility(centers, 2.0, likelihood)
    X = challengers()
    values = DuelingEIIG(model, X_REF, k=k)(X)
    for x, value in zip(X, values, strict=True):
        step = (x - X_REF)[0]
        truth = brute_force(win, centers @ step, 2.0 * float(step.norm()), k)
        assert float(value) == pytest.approx(truth, abs=1.1e-7)


def test_the_noise_is_the_likelihoods(linear_utility) -> None:
    """Also after it has changed; BoTorch's probit likelihood has a noise of 1."""
    X = challengers()

    def value(link: object) -> Tensor:
        return DuelingEIIG(linear_utility(ONE), X_REF, link=link)(X)

    likelihood = PairwiseProbitLikelihood(noise=0.3)
    acquisition = DuelingEIIG(linear_utility(ONE, 1.0, likelihood), X_REF)
    torch.testing.assert_close(acquisition(X), value(ProbitLink(0.3)))
    likelihood.noise = 2.0
    torch.testing.assert_close(acquisition(X), value(ProbitLink(2.0)))
    botorch = PairwiseGP(None, None).likelihood
    theirs = DuelingEIIG(linear_utility(ONE, 1.0, botorch), X_REF)
    torch.testing.assert_close(theirs(X), value(ProbitLink(1.0)))
    logit = DuelingEIIG(linear_utility(ONE, 1.0, BotorchLogitLikelihood()), X_REF)
    torch.testing.assert_close(logit(X), value(LogitLink()))


def test_an_unknown_likelihood_needs_a_link() -> None:
    X = challengers(3).squeeze(-2)
    model = SingleTaskGP(X, (6 * X).sin().sum(-1, keepdim=True))
    with pytest.raises(UnsupportedFeedbackError, match="link=ProbitLink"):
        DuelingEIIG(model, X_REF)
    value = DuelingEIIG(model, X_REF, link=ProbitLink(0.1))(challengers())
    assert bool(value.isfinite().all())


def test_only_the_ratio_of_utility_to_noise_counts(linear_utility) -> None:
    X = challengers()
    value = DuelingEIIG(linear_utility(SEVERAL, 1.0), X_REF, link=ProbitLink(0.3))(X)
    scaled = DuelingEIIG(
        linear_utility(10 * SEVERAL, 10.0), X_REF, link=ProbitLink(30.0)
    )(X)
    torch.testing.assert_close(scaled, value)


@pytest.mark.parametrize("link", [ProbitLink(0.01), ProbitLink(1.0), LogitLink()])
def test_information_is_never_negative_nor_above_one_bit(
    link: object, linear_utility
) -> None:
    X = 5 * challengers(200) - 2
    gain = DuelingEIIG(linear_utility(SEVERAL, 3.0), X_REF, k=0.0, link=link)(X)
    assert float(gain.min()) >= -8.1e-8
    assert float(gain.max()) <= math.log(2) + 8.1e-8


def test_at_the_reference_nothing_is_learned(model: Model) -> None:
    X = X_REF.clone().unsqueeze(0).requires_grad_()
    value = DuelingEIIG(model, X_REF, k=0.1)(X)
    (gradient,) = torch.autograd.grad(value.sum(), X)
    # PairwiseGP adds 1e-6 output scales to its diagonal, a gain of as much.
    assert float(value.detach()) == pytest.approx(0.1 * math.log(0.5), abs=1e-5)
    assert bool(gradient.isfinite().all())


def test_differences_of_800_keep_value_and_gradient(linear_utility) -> None:
    center = torch.tensor([[800.0, 0.0]], dtype=torch.double)
    X = (X_REF - torch.tensor([[1.0, 0.0]])).unsqueeze(0).requires_grad_()
    acquisition = DuelingEIIG(linear_utility(center, 1.0), X_REF, link=ProbitLink(0.5))
    value = acquisition(X)
    assert float(value.detach()) == pytest.approx(
        0.1 * norm.logcdf(-800 / math.sqrt(2)), rel=1e-12
    )
    (gradient,) = torch.autograd.grad(value, X)
    # d/dx1 of log Phi(z), z = 800 (x1 - r1) / sqrt(1 + (x1 - r1)^2) at x1 - r1 = -1.
    z = -800 / math.sqrt(2)
    hazard = -z - 1 / z
    expected = 0.1 * hazard * 800 / 2**1.5
    assert float(gradient[0, 0, 0]) == pytest.approx(expected, rel=1e-8)


def test_gradient_matches_finite_differences(model: Model) -> None:
    X = challengers(3).requires_grad_()
    assert torch.autograd.gradcheck(
        DuelingEIIG(model, X_REF), X, eps=1e-5, atol=1e-5, rtol=1e-4
    )


def test_learned_noise_does_not_break_repeated_backward_passes() -> None:
    likelihood = PairwiseProbitLikelihood(noise=0.5).double()
    likelihood.raw_noise.requires_grad_(True)
    pairs = torch.tensor([[0, 1], [1, 2]])
    X = challengers(3).squeeze(-2)
    acquisition = DuelingEIIG(EPPreferenceGP(X, pairs, likelihood=likelihood), X_REF)
    for _ in range(2):
        acquisition(challengers()).sum().backward()
    assert bool(likelihood.raw_noise.grad.isfinite().all())


def test_optimize_acqf_beats_the_best_of_many_random_points(model: Model) -> None:
    acquisition = DuelingEIIG(model, X_REF, k=0.5)
    with manual_seed(0):
        _, value = optimize_acqf(
            acquisition, BOUNDS, q=1, num_restarts=4, raw_samples=128
        )
    with torch.no_grad():
        assert float(value) >= float(acquisition(challengers(400)).max()) - 1e-6


@pytest.mark.parametrize("k", [-0.1, float("nan")])
def test_a_negative_weight_is_refused(k: float, linear_utility) -> None:
    with pytest.raises(ValueError, match="k is"):
        DuelingEIIG(linear_utility(ONE), X_REF, k=k, link=LogitLink())
