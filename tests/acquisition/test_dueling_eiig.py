"""Improvement and information gain against brute-force quadrature."""

import math

import pytest
import torch
from botorch.models import PairwiseGP
from botorch.models.likelihoods.pairwise import (
    PairwiseLogitLikelihood as BotorchLogitLikelihood,
)
from scipy.stats import norm
from torch import Tensor

from botorch_pref.acquisition import DuelingEIIG
from botorch_pref.likelihoods import LogitLink, PairwiseProbitLikelihood, ProbitLink
from botorch_pref.models import EPPreferenceGP

X_REF = torch.tensor([[0.4, 0.6]], dtype=torch.double)
BOUNDS = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double)
ONE = torch.tensor([[1.0, -2.0]], dtype=torch.double)
SEVERAL = torch.tensor([[1.0, -2.0], [4.0, 1.0], [-3.0, 0.5]], dtype=torch.double)


def challengers(count: int = 6) -> Tensor:
    generator = torch.Generator().manual_seed(3)
    return torch.rand(count, 1, 2, generator=generator, dtype=torch.double)


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


@pytest.mark.parametrize("link", [ProbitLink(0.01), ProbitLink(1.0), LogitLink()])
def test_information_is_never_negative_nor_above_one_bit(
    link: object, linear_utility
) -> None:
    X = 5 * challengers(200) - 2
    gain = DuelingEIIG(linear_utility(SEVERAL, 3.0), X_REF, k=0.0, link=link)(X)
    assert float(gain.min()) >= -8.1e-8
    assert float(gain.max()) <= math.log(2) + 8.1e-8


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


def test_learned_noise_does_not_break_repeated_backward_passes() -> None:
    likelihood = PairwiseProbitLikelihood(noise=0.5).double()
    likelihood.raw_noise.requires_grad_(True)
    pairs = torch.tensor([[0, 1], [1, 2]])
    X = challengers(3).squeeze(-2)
    acquisition = DuelingEIIG(EPPreferenceGP(X, pairs, likelihood=likelihood), X_REF)
    for _ in range(2):
        acquisition(challengers()).sum().backward()
    assert bool(likelihood.raw_noise.grad.isfinite().all())


@pytest.mark.parametrize("k", [-0.1, float("nan")])
def test_a_negative_weight_is_refused(k: float, linear_utility) -> None:
    with pytest.raises(ValueError, match="k is"):
        DuelingEIIG(linear_utility(ONE), X_REF, k=k, link=LogitLink())
