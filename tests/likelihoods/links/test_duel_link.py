"""Closed forms of what a duel is expected to answer, against dense quadrature."""

import math

import pytest
import torch
from scipy.stats import norm
from torch import Tensor

from botorch_pref.likelihoods import DuelLink, LogitLink, ProbitLink
from botorch_pref.likelihoods.base import binary_entropy

ENTROPY_ERROR = 8.1e-8
LINKS = [ProbitLink(0.5), LogitLink()]


def link_log_probabilities(link: DuelLink, u: Tensor) -> tuple[Tensor, Tensor]:
    """Log probabilities of a win and a loss at known differences, by SciPy."""
    if isinstance(link, LogitLink):
        return -torch.log1p(torch.exp(-u)), -torch.log1p(torch.exp(u))
    x = (u / math.sqrt(2 * link.noise)).numpy()
    return torch.from_numpy(norm.logcdf(x)), torch.from_numpy(norm.logsf(x))


def quadrature(link: DuelLink, mean: float, deviation: float) -> tuple[float, float]:
    """Win probability and expected entropy by the trapezoidal rule.

    The links change over a width of about 1: where the Gaussian is wider, the nodes
    are those of the strip around 0 in which the entropy lives, and of its rest.
    """
    ends = {mean - 12 * deviation, mean + 12 * deviation}
    ends |= {cut for cut in (-40.0, 40.0) if min(ends) < cut < max(ends)}
    win = entropy = 0.0
    for low, high in zip(sorted(ends)[:-1], sorted(ends)[1:], strict=True):
        u = torch.linspace(low, high, 20_001, dtype=torch.double)
        density = torch.exp(-0.5 * ((u - mean) / deviation).square())
        density = density / (deviation * math.sqrt(2 * math.pi))
        log_p, log_q = link_log_probabilities(link, u)
        win += float(torch.trapezoid(log_p.exp() * density, u))
        h = -(log_p.exp() * log_p + log_q.exp() * log_q).nan_to_num(0.0)
        entropy += float(torch.trapezoid(h * density, u))
    return win, entropy


@pytest.mark.parametrize("deviation", [1e-3, 0.1, 1.0, 10.0, 1e3])
@pytest.mark.parametrize("mean", [-40.0, -2.0, 0.0, 0.7, 40.0])
@pytest.mark.parametrize("link", LINKS, ids=["probit", "logit"])
def test_against_quadrature(link: DuelLink, mean: float, deviation: float) -> None:
    win, entropy = quadrature(link, mean, deviation)
    arguments = torch.tensor([mean, deviation**2], dtype=torch.double)
    assert float(link.win_probability(*arguments)) == pytest.approx(win, abs=1e-8)
    allowed = ENTROPY_ERROR if isinstance(link, ProbitLink) else 1e-9
    assert float(link.expected_entropy(*arguments)) == pytest.approx(
        entropy, abs=allowed + 1e-9
    )


def test_entropy_of_a_known_difference_is_within_the_stated_error() -> None:
    x = torch.linspace(-12, 12, 24_001, dtype=torch.double)
    truth = binary_entropy(*link_log_probabilities(ProbitLink(0.5), x))
    ours = ProbitLink(0.5).expected_entropy(x, torch.zeros_like(x))
    assert float((ours - truth).abs().max()) <= ENTROPY_ERROR


def test_wide_gaussian_sees_the_area_under_the_entropy() -> None:
    """For tau >> s the expectation is the area times the density at 0."""
    x = torch.linspace(-12, 12, 24_001, dtype=torch.double)
    h = binary_entropy(*link_log_probabilities(ProbitLink(0.5), x))
    deviation = 1e5
    limit = float(torch.trapezoid(h, x)) / (deviation * math.sqrt(2 * math.pi))
    ours = ProbitLink(0.5).expected_entropy(
        torch.zeros(1, dtype=torch.double), torch.full((1,), deviation**2).double()
    )
    assert float(ours) == pytest.approx(limit, rel=1e-6)


def test_probit_tail_and_its_gradient_at_differences_of_800() -> None:
    mean = torch.tensor([-800.0, 800.0], dtype=torch.double, requires_grad=True)
    variance = torch.ones(2, dtype=torch.double, requires_grad=True)
    value = ProbitLink(0.5).log_win_probability(mean, variance)
    z = mean.detach() / math.sqrt(2)
    torch.testing.assert_close(
        value.detach(), torch.from_numpy(norm.logcdf(z.numpy())), rtol=1e-13, atol=0
    )
    slopes = torch.autograd.grad(value.sum(), (mean, variance))
    # Mills: the hazard at -x is x + 1 / x to order x^-3.
    hazard = -z[0] - 1 / z[0]
    torch.testing.assert_close(slopes[0][0], hazard / math.sqrt(2), rtol=1e-8, atol=0)
    torch.testing.assert_close(
        slopes[1][0], hazard * -z[0] / (2 * 2.0), rtol=1e-8, atol=0
    )
    assert bool(slopes[1].isfinite().all())


def test_gradients_match_finite_differences_also_in_the_noise() -> None:
    generator = torch.Generator().manual_seed(1)
    mean = torch.randn(3, 4, generator=generator, dtype=torch.double)
    variance = torch.rand(4, generator=generator, dtype=torch.double)
    noise = torch.tensor([0.01, 0.25, 1.0, 4.0], dtype=torch.double)

    def both(m: Tensor, v: Tensor, n: Tensor) -> tuple[Tensor, Tensor]:
        link = ProbitLink(n)
        return link.log_win_probability(m, v), link.expected_entropy(m, v)

    arguments = tuple(t.requires_grad_() for t in (mean, variance, noise))
    assert torch.autograd.gradcheck(both, arguments)


def test_noise_is_broadcast_against_the_batch() -> None:
    mean = torch.linspace(-1, 1, 6, dtype=torch.double).reshape(2, 3)
    variance = torch.full((3,), 0.3, dtype=torch.double)
    noise = torch.tensor([0.1, 1.0, 2.0], dtype=torch.double)
    together = ProbitLink(noise).expected_entropy(mean, variance)
    apart = [
        ProbitLink(float(noise[i])).expected_entropy(mean[:, i], variance[i])
        for i in range(3)
    ]
    torch.testing.assert_close(together, torch.stack(apart, dim=-1))


@pytest.mark.parametrize("link", LINKS, ids=["probit", "logit"])
def test_float32_stays_float32(link: DuelLink) -> None:
    mean = torch.tensor([-30.0, -1.0, 0.0, 1.0, 30.0])
    variance = torch.tensor(2.0)
    for method in (link.log_win_probability, link.expected_entropy):
        value = method(mean, variance)
        assert value.dtype == torch.float32
        torch.testing.assert_close(
            value.double(),
            method(mean.double(), variance.double()),
            rtol=1e-5,
            atol=1e-6,
        )
