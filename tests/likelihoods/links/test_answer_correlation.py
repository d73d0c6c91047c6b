"""The correlation of an answer with the difference, against dense quadrature."""

import math

import pytest
import torch
from scipy.stats import norm
from torch import Tensor

from botorch_pref.likelihoods import DuelLink, LogitLink, ProbitLink
from botorch_pref.likelihoods.base import answer_correlation

DOUBLE = torch.double
MEANS = torch.tensor([[0.3], [-2.0], [5.0]], dtype=DOUBLE)


def win(link: DuelLink, u: Tensor) -> Tensor:
    if isinstance(link, LogitLink):
        return torch.sigmoid(u)
    return torch.from_numpy(norm.cdf((u / math.sqrt(2 * link.noise)).numpy()))


def quadrature(link: DuelLink, means: Tensor, variance: float) -> float:
    deviation = math.sqrt(variance)
    ends = float(means.min()) - 12 * deviation, float(means.max()) + 12 * deviation
    u = torch.linspace(*ends, 200_001, dtype=DOUBLE)
    density = torch.exp(-0.5 * ((u - means) / deviation).square()).mean(0)
    density = density / (deviation * math.sqrt(2 * math.pi))

    def mean(values: Tensor) -> float:
        return float(torch.trapezoid(values * density, u))

    y = win(link, u)
    first, wins = mean(u), mean(y)
    covariance = mean((u - first) * y)
    return covariance / math.sqrt(mean((u - first) ** 2) * wins * (1 - wins))


@pytest.mark.parametrize("variance", [1e-4, 0.3, 40.0])
@pytest.mark.parametrize("number", [1, 3])
@pytest.mark.parametrize(
    "link", [ProbitLink(0.2), LogitLink()], ids=["probit", "logit"]
)
def test_against_quadrature(link: DuelLink, number: int, variance: float) -> None:
    means = MEANS[:number]
    found = answer_correlation(link, means, torch.tensor([variance], dtype=DOUBLE))
    # Win probabilities of the logit are right within 1e-8.
    assert float(found) == pytest.approx(quadrature(link, means, variance), abs=1e-6)


def test_without_noise_and_in_the_tails() -> None:
    """An even chance takes 2 / pi of the variance, a certain answer nothing."""
    means = torch.tensor([[0.0, 30.0, 300.0, -300.0]], dtype=DOUBLE, requires_grad=True)
    found = answer_correlation(ProbitLink(0.0), means, torch.ones(4, dtype=DOUBLE))
    assert float(found[0].detach()) ** 2 == pytest.approx(2 / math.pi)
    # phi(z) / sqrt(Phi(z) Phi(-z)), with Phi(-z) = phi(z) / z (1 - 1 / z^2 + ...).
    log = 0.5 * (norm.logpdf(30.0) + math.log(30.0) - math.log1p(-1 / 900))
    assert float(found[1].detach().log()) == pytest.approx(log, abs=1e-4)
    assert found[2:].tolist() == [0.0, 0.0]
    (gradient,) = torch.autograd.grad(found.sum(), means)
    assert bool(gradient.isfinite().all())
