"""The logistic function of a Gaussian against dense quadrature."""

import math

import torch
from cases import in_turn
from torch import Tensor
from torch.nn.functional import logsigmoid

from botorch_pref.numerics.logistic_normal import (
    expected_sigmoid_entropy,
    log_expected_sigmoid,
)

MEANS = [-800.0, -40.0, -5.0, -0.3, 0.0, 0.3, 5.0, 40.0]
DEVIATIONS = [1e-3, 0.03, 0.5, 1.0, 3.0, 20.0, 1e3]


def double(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.double)


def log_integral(log_function, mean: float, deviation: float) -> Tensor:
    """Integrates over twelve deviations around both ends of where it may peak.

    Log slopes of at most 1 move the peak by at most the variance, and not across 0.
    """
    variance = deviation**2
    peak_up = max(0.0, min(variance, -mean))
    peak_down = min(0.0, max(-variance, -mean))
    low, high = peak_down - 12 * deviation, peak_up + 12 * deviation
    shift = torch.linspace(low, high, 50_001, dtype=torch.double)
    log_density = -0.5 * (shift / deviation).square()
    step = (high - low) / 50_000 / (deviation * math.sqrt(2 * math.pi))
    return torch.logsumexp(log_function(mean + shift) + log_density, 0) + math.log(step)


def log_entropy(u: Tensor) -> Tensor:
    """Computes the entropy of a logistic answer, to relative precision in tails."""
    t = u.abs()
    return torch.log(torch.log1p(torch.exp(-t)) + t * torch.sigmoid(-t))


@in_turn("deviation", DEVIATIONS)
@in_turn("mean", MEANS)
def test_probability_and_entropy_are_right_to_rounding_in_every_regime(
    mean: float, deviation: float
) -> None:
    moments = double(mean), double(deviation**2)
    truth = log_integral(logsigmoid, mean, deviation)
    torch.testing.assert_close(
        log_expected_sigmoid(*moments)[0], truth, rtol=1e-13, atol=1e-12
    )
    if mean != MEANS[0]:
        truth = log_integral(log_entropy, mean, deviation).exp()
        torch.testing.assert_close(
            expected_sigmoid_entropy(*moments)[0], truth, rtol=1e-11, atol=0.0
        )


def test_certainty_is_the_link_itself() -> None:
    mean = double(*MEANS)
    zero = torch.zeros_like(mean)
    torch.testing.assert_close(
        log_expected_sigmoid(mean, zero), logsigmoid(mean), rtol=1e-15, atol=0
    )
    torch.testing.assert_close(
        expected_sigmoid_entropy(mean[1:], zero[1:]),
        log_entropy(mean[1:]).exp(),
        rtol=1e-13,
        atol=0,
    )


@in_turn("function", [log_expected_sigmoid, expected_sigmoid_entropy])
def test_the_two_formulas_meet(function) -> None:
    """On either side of the deviation of 1e-3 where one takes over from the other."""
    mean = torch.linspace(-30, 30, 61).double()
    below, above = (
        function(mean, torch.full_like(mean, variance))
        for variance in (1e-6 * (1 - 1e-9), 1e-6 * (1 + 1e-9))
    )
    torch.testing.assert_close(below, above, rtol=1e-11, atol=1e-14)


@in_turn("function", [log_expected_sigmoid, expected_sigmoid_entropy])
def test_gradients_match_finite_differences(function) -> None:
    mean, variance = torch.meshgrid(
        double(-30.0, -2.0, 0.5, 6.0), double(0.01, 1.0, 25.0, 400.0), indexing="ij"
    )
    arguments = (mean.clone().requires_grad_(), variance.clone().requires_grad_())
    assert torch.autograd.gradcheck(function, arguments, eps=1e-6, atol=1e-7)


@in_turn("variance", [0.0, 1e-8, 1.0, 1e6])
def test_gradient_of_a_difference_of_800(variance: float) -> None:
    mean = double(-800.0, 800.0).requires_grad_()
    spread = double(variance, variance).requires_grad_()
    value = log_expected_sigmoid(mean, spread)
    slopes = torch.autograd.grad(value.sum(), (mean, spread))
    assert all(bool(slope.isfinite().all()) for slope in (value, *slopes))
    if variance <= 1.0:
        # log E[e^u] = mu + variance / 2 far to the left.
        torch.testing.assert_close(slopes[0][0], double(1.0)[0])
        torch.testing.assert_close(slopes[1][0], double(0.5)[0])


def test_float32() -> None:
    mean, variance = torch.meshgrid(
        double(-40.0, -3.0, 0.0, 3.0, 40.0), double(0.0, 0.1, 10.0, 1e4), indexing="ij"
    )
    for function in (log_expected_sigmoid, expected_sigmoid_entropy):
        single = function(mean.float(), variance.float())
        assert single.dtype == torch.float32
        torch.testing.assert_close(
            single.double(), function(mean, variance), rtol=3e-5, atol=1e-6
        )
