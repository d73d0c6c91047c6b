"""Variance of the win probability, against quadrature and sampling."""

import math

import pytest
import torch
from scipy.special import expit, ndtr
from torch import Tensor

from botorch_pref.acquisition import DuelingMUC
from botorch_pref.likelihoods import PairwiseLogitLikelihood, PairwiseProbitLikelihood
from botorch_pref.likelihoods.links.duel_link import DuelLink
from botorch_pref.likelihoods.links.logit_link import LogitLink
from botorch_pref.likelihoods.links.probit_link import ProbitLink
from botorch_pref.models import SkewPreferenceGP

X_REF = torch.tensor([[0.4, 0.6]], dtype=torch.double)
ONE = torch.tensor([[1.0, -2.0]], dtype=torch.double)
SEVERAL = torch.tensor([[1.0, -2.0], [4.0, 1.0], [-3.0, 0.5]], dtype=torch.double)


def points(*shape: int, seed: int = 3) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(*shape, 2, generator=generator, dtype=torch.double)


def spread(win, means: Tensor, deviation: float) -> float:
    """``Var[g(u)]`` of a mixture on a grid of differences of utilities."""
    ends = float(means.min()) - 10 * deviation, float(means.max()) + 10 * deviation
    u = torch.linspace(*ends, 40_001, dtype=torch.double)
    density = torch.exp(-0.5 * ((u - means[:, None]) / deviation).square()).mean(0)
    density = density / (deviation * math.sqrt(2 * math.pi))
    p = win(u)
    mean = torch.trapezoid(p * density, u)
    return float(torch.trapezoid((p - mean).square() * density, u))


@pytest.mark.parametrize("centers", [ONE, SEVERAL], ids=["Gaussian", "mixture"])
@pytest.mark.parametrize("scale", [0.01, 0.5, 20.0])
@pytest.mark.parametrize("link", ["probit", "logit"])
def test_against_quadrature(
    centers: Tensor, scale: float, link: str, linear_utility
) -> None:
    if link == "probit":
        likelihood = PairwiseProbitLikelihood(noise=0.25)

        def win(u: Tensor) -> Tensor:
            return torch.from_numpy(ndtr(u.numpy() / math.sqrt(2 * 0.25)))

    else:
        likelihood = PairwiseLogitLikelihood()

        def win(u: Tensor) -> Tensor:
            return torch.from_numpy(expit(u.numpy()))

    X = points(6, 1)
    values = DuelingMUC(linear_utility(centers, scale, likelihood), X_REF)(X)
    for x, value in zip(X[:, 0], values, strict=True):
        step = x - X_REF[0]
        truth = spread(win, centers @ step, scale * float(step.norm()))
        assert float(value) == pytest.approx(truth, rel=1e-6)


def test_skew_posterior_against_sampling(skew_model: SkewPreferenceGP) -> None:
    generator = torch.Generator().manual_seed(1)
    count = 200_000
    for pair in points(3, 2, seed=5):
        posterior = skew_model.posterior(pair)
        means = posterior.component_means.detach()
        covariance = posterior.component_covariance.detach()
        component = torch.randint(len(means), (count,), generator=generator)
        normal = torch.randn(count, 2, generator=generator, dtype=torch.double)
        f = means[component] + normal @ torch.linalg.cholesky(covariance).mT
        noise = float(skew_model.likelihood.noise)
        p = torch.from_numpy(ndtr(((f[:, 0] - f[:, 1]) / math.sqrt(2 * noise)).numpy()))
        square = (p - p.mean()).square()
        error = float(square.std()) / math.sqrt(count)
        value = DuelingMUC(skew_model, pair[1:])(pair[:1])
        assert float(value.detach()) == pytest.approx(
            float(square.mean()), abs=4 * error
        )


@pytest.mark.parametrize("link", [ProbitLink(0.5), LogitLink()])
def test_the_judges_noise_is_not_counted(link: DuelLink, linear_utility) -> None:
    """A certain duel of near equals is a coin toss that nothing can be learned from."""
    certain = DuelingMUC(linear_utility(ONE, 0.0), X_REF, link=link)
    assert float(certain(points(6, 1)).abs().max()) == 0.0
    open_question = DuelingMUC(linear_utility(0 * ONE, 1e8), X_REF, link=link)
    torch.testing.assert_close(
        open_question(points(6, 1)), torch.full((6,), 0.25).double(), rtol=1e-6, atol=0
    )


def test_the_least_sure_duel_is_not_with_a_copy(linear_utility) -> None:
    value = DuelingMUC(linear_utility(SEVERAL), X_REF, link=ProbitLink(0.5))
    assert float(value(X_REF)) == pytest.approx(0.0, abs=1e-15)
    assert bool((value(points(20, 1)) > 1e-3).all())
    assert bool((value(points(20, 1)) < 0.25).all())
