"""Integrals of log-concave functions times Gaussians against adaptive quadrature."""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy import integrate, optimize, special

from botorch_pref.numerics.log_concave_quadrature import (
    log_concave_integral,
    tilted_mode,
)

MEANS = [-800.0, -30.0, -2.0, 0.0, 0.7, 5.0, 800.0]
VARIANCES = [1e-6, 1e-2, 1.0, 14.0, 16.0, 256.0, 1e4, 240.0**2, 1e6]


def log_sigmoid(z):
    """``log sigma(z)`` and its first two derivatives."""
    win, loss = torch.sigmoid(z), torch.sigmoid(-z)
    return torch.nn.functional.logsigmoid(z), loss, -win * loss


def integral(mean, variance, dtype=torch.float64):
    mean = torch.as_tensor(mean, dtype=dtype)
    variance = torch.as_tensor(variance, dtype=dtype).expand_as(mean)
    mode = tilted_mode(lambda z: log_sigmoid(z)[1:], mean, variance)
    return log_concave_integral(log_sigmoid, mean, variance, mode, strip=math.pi)


def exact_mode(mean, variance):
    """Root of ``p(loss | z) = (z - mu) / s``, which lies in [mu, mu + s]."""
    return optimize.brentq(
        lambda z: special.expit(-z) - (z - mean) / variance,
        mean - 1e-9,
        mean + variance + 1e-9,
        xtol=1e-12 * (1 + abs(mean)),
        rtol=1e-14,
    )


def adaptive(mean, variance):
    """Log integral and its mean derivatives, from the tilted density's moments."""
    mode, scale = exact_mode(mean, variance), math.sqrt(variance)

    def log_integrand(z):
        return special.log_expit(z) - 0.5 * (z - mean) ** 2 / variance

    peak = log_integrand(mode)
    low, high = mode - 14 * scale, mode + 14 * scale
    edges = {low, high, mode}
    edges |= {e for e in np.arange(-40.0, 41.0, 8.0) if low < e < high}
    edges |= {mode + k * scale for k in range(-6, 7, 2)}
    edges = sorted(edges)

    def expectation(function):
        pieces = [
            integrate.quad(
                lambda z: function(z) * math.exp(log_integrand(z) - peak),
                a,
                b,
                epsabs=1e-15 * scale,
                epsrel=1e-13,
                limit=200,
            )[0]
            for a, b in itertools.pairwise(edges)
        ]
        return math.fsum(pieces)

    mass = expectation(lambda z: 1.0)
    slope = expectation(lambda z: special.expit(-z)) / mass
    curvature = (
        expectation(
            lambda z: (
                (special.expit(-z) - slope) ** 2 - special.expit(z) * special.expit(-z)
            )
        )
        / mass
    )
    value = peak + math.log(mass) - 0.5 * math.log(2 * math.pi * variance)
    return value, slope, curvature


def documented_error(variance):
    """Rounding up to a standard deviation of 120, 3e-8 at 240 and 1e-3 at 1,000."""
    return {240.0**2: 3e-8, 1e6: 1e-3}.get(variance, 1e-13)


@pytest.mark.parametrize("variance", VARIANCES)
@pytest.mark.parametrize("mean", MEANS)
def test_logistic_integral_has_the_documented_accuracy(mean, variance) -> None:
    expected = adaptive(mean, variance)
    tolerance = documented_error(variance)
    for value, want in zip(integral(mean, variance), expected, strict=True):
        # Of the exponent, and of nodes whose spacing is small beside the mean.
        rounding = 4e-16 * (abs(expected[0]) + abs(mean) / math.sqrt(variance))
        assert float(value) == pytest.approx(want, abs=tolerance + rounding)


@pytest.mark.parametrize("variance", VARIANCES)
@pytest.mark.parametrize("mean", MEANS)
def test_mode_is_the_mode(mean, variance) -> None:
    mode = tilted_mode(
        lambda z: log_sigmoid(z)[1:],
        torch.tensor(mean, dtype=torch.float64),
        torch.tensor(variance, dtype=torch.float64),
    )
    assert float(mode) == pytest.approx(
        exact_mode(mean, variance), abs=1e-2 * math.sqrt(variance)
    )


def test_gaussian_factor_in_closed_form() -> None:
    """With g = -(z - c)^2 / (2 t): log N(c; mu, s + t) + log(2 pi t) / 2."""
    centre, t = 1.3, 0.4

    def function(z):
        return (
            -0.5 * (z - centre) ** 2 / t,
            -(z - centre) / t,
            torch.full_like(z, -1 / t),
        )

    mean = torch.tensor([-3.0, 0.0, 2.0], dtype=torch.float64)
    s = torch.tensor([0.1, 1.0, 7.0], dtype=torch.float64)
    mode = (mean * t + centre * s) / (s + t)
    value, slope, curvature = log_concave_integral(function, mean, s, mode, strip=1.0)
    expected = -0.5 * (centre - mean) ** 2 / (s + t) + 0.5 * torch.log(t / (s + t))
    torch.testing.assert_close(value, expected, rtol=0, atol=1e-13)
    torch.testing.assert_close(slope, (centre - mean) / (s + t), rtol=0, atol=1e-12)
    torch.testing.assert_close(curvature, -1 / (s + t), rtol=0, atol=1e-12)


def test_value_is_differentiable_in_mean_and_variance() -> None:
    """d/d mu is the slope; d/d s is (curvature + slope^2) / 2 (the heat equation)."""
    mean = torch.tensor([-6.0, 0.0, 2.0], dtype=torch.float64, requires_grad=True)
    variance = torch.tensor([0.3, 4.0, 9.0], dtype=torch.float64, requires_grad=True)
    mode = tilted_mode(lambda z: log_sigmoid(z)[1:], mean.detach(), variance.detach())
    value, slope, curvature = log_concave_integral(
        log_sigmoid, mean, variance, mode, strip=math.pi
    )
    by_mean, by_variance = torch.autograd.grad(value.sum(), (mean, variance))
    torch.testing.assert_close(by_mean, slope.detach(), rtol=0, atol=1e-10)
    heat = 0.5 * (curvature + slope.square()).detach()
    torch.testing.assert_close(by_variance, heat, rtol=0, atol=1e-9)


def test_single_precision_and_batches() -> None:
    mean = torch.tensor([[-800.0, -1.0, 3.0], [0.0, 30.0, 800.0]])
    variance = torch.tensor([0.5, 4.0, 9.0]).expand(2, 3)
    together = integral(mean, variance, torch.float32)
    for i in range(2):
        for j in range(3):
            expected = adaptive(float(mean[i, j]), float(variance[i, j]))
            for value, want in zip(together, expected, strict=True):
                assert value.dtype == torch.float32
                assert float(value[i, j]) == pytest.approx(want, rel=2e-5, abs=2e-6)
