"""Partitions of logistic factors under Gaussians of any width, against mpmath."""

import math
from functools import cache

import mpmath as mp
import pytest
import torch

from botorch_pref.likelihoods.logit import LogitFactors
from botorch_pref.linalg.sparse_design import pair_rows

VARIANCES = [1e-6, 1.0, 900.0, 1030.0, 1e5, 1e6, 1e9, 1e12]


def logit_partition(mean, variance):
    """The log integral and two derivatives, of one win each."""
    rows = pair_rows(torch.tensor([[0, 1]] * len(mean)), 2, mean)
    return LogitFactors(rows).log_partition(mean, variance)[:3]


def exact(mean: float, variance: float) -> tuple[float, ...]:
    """The tilted density's moments, in pieces as wide as the bend and the Gaussian."""
    mu, s = mp.mpf(mean), mp.mpf(variance)

    def loss(z):
        return 1 / (1 + mp.exp(z))

    def log_density(z):
        log_win = -mp.log1p(mp.exp(-z)) if z > 0 else z - mp.log1p(mp.exp(z))
        return log_win - (z - mu) ** 2 / (2 * s)

    low, high = mu, mu + s
    for _ in range(120):
        middle = (low + high) / 2
        up = loss(middle) > (middle - mu) / s
        low, high = (middle, high) if up else (low, middle)
    peak, width = log_density(low), mp.sqrt(s)
    ends = low - 14 * width, low + 14 * width
    edges = {low + k * width for k in range(-14, 15, 2)}
    bend = [mp.mpf(8 * k) for k in range(12)] + [150, 250, 500, 1000, 5000]
    edges |= {
        sign * e for e in bend for sign in (1, -1) if ends[0] < sign * e < ends[1]
    }
    pieces = sorted(edges)

    @cache  # the nodes of one integral are those of the others
    def node(z):
        return loss(z), mp.exp(log_density(z) - peak)

    def integral(function):
        def weighed(z):
            slope, weight = node(z)
            return function(slope) * weight

        return mp.quad(weighed, pieces, method="gauss-legendre")

    mass = integral(lambda loss: mp.mpf(1))
    slope = integral(lambda loss: loss) / mass
    bent = integral(lambda loss: (loss - slope) ** 2 - loss * (1 - loss)) / mass
    value = peak + mp.log(mass) - mp.log(2 * mp.pi * s) / 2
    return float(value), float(slope), float(bent)


@pytest.mark.parametrize("variance", VARIANCES)
@pytest.mark.parametrize("deviations", [-40, -3, 0, 1, 5])
def test_right_at_any_variance(variance: float, deviations: int) -> None:
    mean = deviations * math.sqrt(variance)
    with mp.workdps(25):
        truth = exact(mean, variance)
    tensors = (torch.tensor([x], dtype=torch.float64) for x in (mean, variance))
    for found, expected in zip(logit_partition(*tensors), truth, strict=True):
        assert float(found) == pytest.approx(expected, rel=1e-8, abs=1e-15)


def test_derivatives_where_wide_and_narrow_stand_together() -> None:
    mean = torch.tensor([-3000.0, -50.0, 0.0, 400.0, 2.0], dtype=torch.float64)
    variance = torch.tensor([2e3, 1e4, 5e3, 1e6, 3.0], dtype=torch.float64)
    mean.requires_grad_(), variance.requires_grad_()
    value, slope, bent = logit_partition(mean, variance)
    by_mean, by_variance = torch.autograd.grad(value.sum(), (mean, variance))
    torch.testing.assert_close(by_mean, slope, rtol=1e-12, atol=1e-15)
    # The heat equation.
    heat = 0.5 * (bent + slope.square())
    torch.testing.assert_close(by_variance, heat, rtol=1e-9, atol=1e-15)
    for place, unit in enumerate((1.0, 1e2, 1e4)):
        assert torch.autograd.gradcheck(
            lambda m, v, place=place, unit=unit: unit * logit_partition(m, v)[place],
            (mean, variance), eps=1e-3, atol=1e-7, rtol=1e-5,
        )  # fmt: skip
    single = logit_partition(mean.detach().float(), variance.detach().float())
    for found, expected in zip(single, (value, slope, bent), strict=True):
        assert found.dtype == torch.float32
        torch.testing.assert_close(
            found.double(), expected.detach(), rtol=3e-5, atol=1e-6
        )
