"""The variance of a probit win probability, against 30 digits and its limits."""

import math
from functools import cache

import pytest
import torch
from cases import in_turn
from mpmath import mp
from scipy.special import ndtr
from torch import Tensor

from botorch_pref.numerics.normal import probit_win_variance


def double(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.double)


def moments_at_thirty_digits(mean: float, deviation: float) -> float:
    """Computes ``Var[Phi(u)]`` by quadrature over u, split where it bends."""
    with mp.workdps(30):
        m, t = mp.mpf(mean), mp.mpf(deviation)
        ends = m - 14 * t, m + 14 * t
        bends = [m + k * t for k in (-8, -4, -2, -1, 0, 1, 2, 4, 8)]
        bends += [mp.mpf(k) for k in range(-12, 13, 3)]
        cuts = sorted({*ends, *(b for b in bends if ends[0] < b < ends[1])})

        @cache  # the nodes of one integral are those of the other
        def node(u):
            return mp.ncdf(u), mp.npdf(u, m, t)

        def expect(function):
            def weighed(u):
                win, density = node(u)
                return function(win) * density

            return mp.quad(weighed, cuts, method="gauss-legendre", maxdegree=6)

        win = expect(lambda p: p)
        return float(expect(lambda p: (p - win) ** 2))


@in_turn("deviation", [1e-5, 0.3, 3.0, 1e3])
@in_turn("mean", [0.0, -1.5, 6.0])
def test_against_thirty_digits(mean: float, deviation: float) -> None:
    truth = moments_at_thirty_digits(mean, deviation)
    ours = probit_win_variance(double(mean), double(deviation**2), 1.0)
    assert float(ours) == pytest.approx(truth, rel=1e-11, abs=0.0)


def test_limits_of_small_and_large_deviations() -> None:
    """First ``tau^2 g'(mu)^2``, to ``tau^2`` of itself; last ``P (1 - P)``."""
    mean = double(0.0, 0.7, -3.0, 20.0)
    slope = torch.exp(-0.5 * mean.square() / 2) / math.sqrt(2 * math.pi * 2)
    small = probit_win_variance(mean, double(1e-20), 2.0)
    torch.testing.assert_close(small, 1e-20 * slope.square(), rtol=1e-12, atol=0.0)
    assert float(probit_win_variance(double(3.0), double(0.0), 2.0)) == 0.0
    ratio = double(-2.0, 0.0, 1.0)
    large = probit_win_variance(ratio * 1e10, double(1e20), 2.0)
    win = torch.from_numpy(ndtr(ratio.numpy()))
    torch.testing.assert_close(large, win * (1 - win), rtol=1e-9, atol=0.0)


@in_turn("scale", [1e-3, 1.0, 1e3])
def test_gradients_match_finite_differences(scale: float) -> None:
    mean = double(-3.0, -0.2, 0.0, 1.0, 8.0) * math.sqrt(scale)
    variance = double(1e-3, 1.0, 30.0).unsqueeze(-1) * scale
    mean.requires_grad_()
    variance.requires_grad_()
    assert torch.autograd.gradcheck(
        lambda m, v: probit_win_variance(m, v, scale),
        (mean, variance),
        eps=1e-7 * scale,
        atol=1e-6 / scale,
    )


def test_gradients_are_finite_wherever_the_value_underflows() -> None:
    mean = double(0.0, 0.0, 100.0, 1e4, 1e150, -1e8).requires_grad_()
    variance = double(0.0, 1e-300, 0.0, 1.0, 1.0, 1e300).requires_grad_()
    value = probit_win_variance(mean, variance, 1.0)
    for slope in torch.autograd.grad(value.sum(), (mean, variance)):
        assert bool(slope.isfinite().all())
    assert bool((value >= 0).all())
