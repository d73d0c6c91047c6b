"""Quadratic bounds of logistic functions, against mpmath and the functions."""

import math

import mpmath as mp
import pytest
import torch
from cases import in_turn
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import logsigmoid

from botorch_pref.inference.lower_bounds import (
    bound_curvature,
    bound_intercept,
    profile_slopes,
    stage_bound,
)

EPS = torch.finfo(torch.float64).eps
each_xi = pytest.mark.parametrize(
    "xi", [0.0, 1e-300, 1e-9, 1.4e-8, 1.6e-8, 1e-4, 0.1, 1.0, 7.0, 40.0, 800.0, 1e150]
)


def double(*values):
    return torch.tensor(values, dtype=torch.float64)


@each_xi
@pytest.mark.parametrize("sign", [1, -1])
def test_curvature_and_intercept(xi, sign) -> None:
    with mp.workdps(40):
        x = mp.mpf(xi)
        lam = mp.tanh(x / 2) / (4 * x) if xi else mp.mpf("0.125")
        intercept = -mp.log1p(mp.exp(-x)) - x / 2 + lam * x**2
        got = bound_curvature(double(sign * xi)), bound_intercept(double(sign * xi))
        assert abs(got[0].item() - lam) <= 4 * EPS * lam
        assert abs(got[1].item() - intercept) <= 8 * EPS * (1 + x)


def test_single_precision_is_flat_at_zero_too() -> None:
    xi = torch.tensor([0.0, 1e-30, 1e-4, 1e-3], dtype=torch.float32)
    torch.testing.assert_close(
        bound_curvature(xi), bound_curvature(xi.double()).float(), rtol=3e-7, atol=0
    )


@given(y=st.floats(-60, 60), xi=st.floats(-60, 60))
def test_the_bound_is_below_and_touches(y, xi) -> None:
    y, xi = double(y), double(xi)

    def bound(parameters):
        return (
            bound_intercept(xi)
            + 0.5 * parameters
            - bound_curvature(xi) * parameters.square()
        )

    slack = 20 * EPS * (1 + y.square() + xi.square())
    assert bool((bound(y) <= logsigmoid(y) + slack).all())
    for touching in (xi, -xi):
        assert bool(((bound(touching) - logsigmoid(touching)).abs() <= slack).all())


@in_turn("variance", [0.0, 1e-6, 0.3, 20.0])
def test_profile_slopes_are_differences(variance) -> None:
    x = torch.linspace(-9.0, 9.0, 37, dtype=torch.float64)

    def profile(x):
        xi = (variance + x.square()).sqrt()
        return -(xi / 2 + torch.log1p((-xi).exp()))

    h = 1e-3
    # Where the variance is tiny, log cosh(|x| / 2) is smooth but its profile has a
    # fourth derivative of up to 1/8: h^2 / 12 of that, and rounding / h^2.
    second = (profile(x + h) - 2 * profile(x) + profile(x - h)) / h**2
    slope, curvature = profile_slopes(x, double(variance))
    torch.testing.assert_close(curvature, -second, rtol=0, atol=1e-7)
    first = (profile(x + h) - profile(x - h)) / (2 * h)
    torch.testing.assert_close(slope * x, -first, rtol=0, atol=1e-7)


def test_profile_slopes_at_a_certain_zero() -> None:
    assert torch.stack(profile_slopes(double(0.0), double(0.0))).eq(0.25).all()
    slope, far = profile_slopes(double(900.0), double(0.0))
    assert slope.item() == 1 / 1800
    assert 0.0 <= far.item() < math.exp(-700)


def test_parameters_are_the_best_from_wherever_they_are_sought() -> None:
    """A pair, a set of three and one of five; the expected bound falls all around."""
    stages = torch.tensor([[0, 1, -1, -1, -1], [2, 0, 3, -1, -1], [4, 3, 2, 1, 0]])
    bound = stage_bound(stages, 5, double())
    generator = torch.Generator().manual_seed(0)
    m = bound.rows.num_rows
    mean = 3 * torch.randn(20, m, generator=generator, dtype=torch.float64)
    variance = torch.rand(20, m, generator=generator, dtype=torch.float64).square()
    best = bound.best(mean, variance)
    step = torch.randn(best.shape, generator=generator, dtype=torch.float64)
    largest = bound.expected(best, mean, variance)
    for size in (1e-3, 1e-1):
        assert (bound.expected(best + size * step, mean, variance) < largest).all()
    for near in (best, best + step, best + 1e3, best - 1e8):
        parameters = bound.best(mean, variance, near)
        torch.testing.assert_close(parameters, best, rtol=1e-9, atol=1e-9)
