import math

import pytest
import torch
from cases import in_turn
from draws import normal
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from botorch_pref.numerics import mixtures as mixture
from botorch_pref.numerics.mixtures import narrowest_interval

F64 = torch.float64


def _skewed(count: int, *batch: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Draws half-normal means, and a variance that keeps the mixture unimodal."""
    generator = torch.Generator().manual_seed(seed)
    means = -torch.randn(count, *batch, generator=generator, dtype=F64).abs()
    return means, 0.3 + torch.rand(batch, generator=generator, dtype=F64)


def _level(lower: Tensor, upper: Tensor, means: Tensor, variance: Tensor) -> Tensor:
    below = mixture.cdf(lower, means, variance)
    return 1 - below - mixture.cdf(-upper, -means, variance)


@in_turn("level", [0.1, 0.5, 0.95, 0.9999])
def test_agrees_with_the_narrowest_of_all_intervals_on_a_grid(level):
    means, variance = _skewed(200, 4)
    lower, upper = narrowest_interval(means, variance, level)
    # Width at 2,001 lower tails: its minimum is quadratic, hence the small error.
    tails = torch.linspace(0, 1 - level, 2_003, dtype=F64)[1:-1].unsqueeze(-1)
    ends = [mixture.quantile(p, means, variance) for p in (tails, tails + level)]
    width = (ends[1] - ends[0]).amin(0)
    assert (upper - lower <= width).all()
    torch.testing.assert_close(upper - lower, width, rtol=1e-5, atol=0)
    torch.testing.assert_close(
        _level(lower, upper, means, variance), torch.full((4,), level, dtype=F64)
    )


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    count=st.integers(2, 60),
    seed=st.integers(0, 10_000),
    log_ratio=st.floats(-2.5, 2),
    log_scale=st.floats(-6, 6),
    level=st.floats(0.05, 0.9999),
    power=st.sampled_from([1, 2, 3]),
)
# Newton's steps end in a minimum that is twice as wide as the central interval.
@example(count=36, seed=6640, log_ratio=-1.52, log_scale=0.0, level=0.05, power=1)
def test_has_the_level_is_stationary_and_no_wider_than_the_central_interval(
    count, seed, log_ratio, log_scale, level, power
):
    scale = 10.0**log_scale
    means = scale * normal(count, 3, seed=seed).pow(power)
    deviation = scale * 10.0**log_ratio
    variance = torch.full((3,), deviation**2, dtype=F64)
    lower, upper = narrowest_interval(means, variance, level)
    # Ends are known to rounding of the means: that much of their density, and of the
    # slope of its logarithm, which is at most the largest distance over the variance.
    rounding = 16 * torch.finfo(F64).eps * means.abs().amax(0)
    heights = [mixture.log_density(end, means, variance) for end in (lower, upper)]
    error = (_level(lower, upper, means, variance) - level).abs()
    assert (error <= 1e-13 + 2 * rounding * heights[0].exp()).all()
    reach = (means.amax(0) - means.amin(0)) / deviation + 10
    slope = rounding / deviation * reach
    assert ((heights[0] - heights[1]).abs() <= 1e-9 + 10 * slope).all()
    tail = 0.5 * (1 - level)
    central = [
        mixture.quantile(tail, means, variance),
        -mixture.quantile(tail, -means, variance),
    ]
    excess = (upper - lower) - (central[1] - central[0])
    assert (excess <= 1e-10 * (central[1] - central[0]) + 4 * rounding).all()


@in_turn("dtype", [torch.float32, torch.float64])
def test_equal_means_give_the_gaussian_closed_form(dtype):
    variance = torch.tensor([1.0, 1e-8, 25.0], dtype=dtype)
    z = torch.special.ndtri(torch.tensor(0.975, dtype=F64)).to(dtype)
    for count in (1, 7):
        means = torch.tensor([0.5, -2.0, 1e3], dtype=dtype).expand(count, 3)
        lower, upper = narrowest_interval(means, variance, 0.95)
        tolerance = 16 * torch.finfo(dtype).eps
        for end, sign in ((lower, -1), (upper, 1)):
            expected = means[0] + sign * z * variance.sqrt()
            torch.testing.assert_close(end, expected, rtol=tolerance, atol=0)


def test_float32_agrees_with_float64():
    means, variance = _skewed(300, 20)
    single = narrowest_interval(means.float(), variance.float(), 0.95)
    double = narrowest_interval(means, variance, 0.95)
    for ours, truth in zip(single, double, strict=True):
        # Rounding eps moves the level and the height at the ends by eps, and the ends
        # by that over the density (about 0.05) and the slope (about 1).
        torch.testing.assert_close(ours.double(), truth, rtol=0, atol=1e-4)


@in_turn("count", [1, 2, 30])
@in_turn("level", [0.5, 0.95])
def test_gradient_agrees_with_finite_differences(count, level):
    means, variance = _skewed(count, 3)
    arguments = (means.requires_grad_(), variance.requires_grad_())
    assert torch.autograd.gradcheck(
        lambda means, variance: narrowest_interval(means, variance, level), arguments
    )


def test_point_mass_is_its_own_interval_with_finite_gradients():
    means = torch.full((6, 2), 0.7, dtype=F64)
    means[:, 1] = torch.arange(6)
    variance = torch.tensor([0.0, 0.5], dtype=F64)
    means.requires_grad_()
    variance.requires_grad_()
    lower, upper = narrowest_interval(means, variance, 0.95)
    assert lower[0] == upper[0] == 0.7
    gradients = torch.autograd.grad(upper.sum(), (means, variance))
    torch.testing.assert_close(gradients[0][:, 0], torch.full((6,), 1 / 6, dtype=F64))
    assert gradients[1][0] == 0
    alone = narrowest_interval(means[:, 1], variance[1], 0.95)[1]
    torch.testing.assert_close(
        gradients[0][:, 1], torch.autograd.grad(alone, means)[0][:, 1]
    )


def test_no_variance_is_the_shortest_interval_with_enough_means():
    means = torch.tensor([[9.0], [0.0], [1.0], [1.5], [2.0]], dtype=F64)
    lower, upper = narrowest_interval(means, torch.zeros(1, dtype=F64), 0.6)
    assert lower.item() == 1.0
    assert upper.item() == 2.0


@in_turn("level", [0.0, 1.0, math.nan])
def test_level_outside_the_unit_interval_is_refused(level):
    with pytest.raises(ValueError, match="between 0 and 1"):
        narrowest_interval(torch.zeros(2, 1), torch.ones(1), level)
