import math

import pytest
import torch
from cases import in_turn
from draws import normal
from hypothesis import example, given
from hypothesis import strategies as st
from torch import Tensor

from botorch_pref.numerics import mixtures as mixture

F64 = torch.float64


def _mixture(
    count: int, *batch: int, seed: int = 0, dtype: torch.dtype = F64
) -> tuple[Tensor, Tensor]:
    """Draws skewed means and variances of order 1."""
    generator = torch.Generator().manual_seed(seed)
    means = torch.randn(count, *batch, generator=generator, dtype=F64).exp()
    variance = 0.1 + torch.rand(batch, generator=generator, dtype=F64)
    return means.to(dtype), variance.to(dtype)


def test_moments_agree_with_quadrature():
    means, variance = _mixture(7, 3)
    x = torch.linspace(-8, 30, 20_001, dtype=F64).unsqueeze(-1)
    density = mixture.log_density(x, means, variance).exp()

    def integral(values: Tensor) -> Tensor:
        return torch.trapezoid(values * density, x, dim=0)

    torch.testing.assert_close(integral(torch.ones_like(x)), torch.ones(3, dtype=F64))
    mean = integral(x)
    total, skewness = mixture.central_moments(means, variance)
    torch.testing.assert_close(total, integral((x - mean).square()))
    third = integral((x - mean).pow(3)) / total.pow(1.5)
    torch.testing.assert_close(skewness, third)
    below = torch.cumulative_trapezoid(density, x, dim=0)
    cumulative = mixture.cdf(x, means, variance)[1:]
    torch.testing.assert_close(cumulative, below, rtol=0, atol=1e-6)


def test_tails_keep_their_relative_precision():
    # Mills' ratio in the far tail: log Phi(-z) = log phi(z) - log z - log1p(z^-2 ..).
    means, variance = torch.tensor([[0.0], [1.0]], dtype=F64), torch.ones(1, dtype=F64)
    x = torch.tensor([-30.0], dtype=F64)
    expected = torch.special.log_ndtr(x - means[:, 0]).logsumexp(0) - math.log(2)
    torch.testing.assert_close(mixture.cdf(x, means, variance).log()[0], expected)
    far = torch.tensor([1e4], dtype=F64)
    torch.testing.assert_close(
        mixture.log_density(far, means, variance),
        -0.5 * (far - 1).square() - 0.5 * math.log(2 * math.pi) - math.log(2),
    )


@in_turn("dtype", [torch.float32, torch.float64])
def test_one_component_is_the_gaussian_closed_form(dtype):
    means = torch.tensor([[0.5, -2.0, 1e3]], dtype=dtype)
    variance = torch.tensor([1.0, 1e-10, 4.0], dtype=dtype)
    for p in (1e-12, 0.1, 0.5, 0.97):
        z = torch.special.ndtri(torch.tensor(p, dtype=dtype))
        expected = means[0] + z * variance.sqrt()
        torch.testing.assert_close(
            mixture.quantile(p, means, variance),
            expected,
            rtol=4 * torch.finfo(dtype).eps,
            atol=0,
        )


@given(
    count=st.integers(1, 40),
    seed=st.integers(0, 10_000),
    log_ratio=st.floats(-6, 3),
    log_scale=st.floats(-8, 8),
    shift=st.floats(-10, 10),
    p=st.floats(1e-12, 1 - 1e-9),
)
# A third of the components ends at a gap, where the slope changes along a step.
@example(count=39, seed=0, log_ratio=-2.0, log_scale=0.0, shift=0.0, p=1 / 3)
def test_quantile_inverts_the_cdf(count, seed, log_ratio, log_scale, shift, p):
    spread = normal(count, 3, seed=seed)
    scale = 10.0**log_scale
    means = scale * (spread.square() + shift)
    variance = torch.full((3,), (scale * 10.0**log_ratio) ** 2, dtype=F64)
    x = mixture.quantile(p, means, variance)
    # A quantile is known to rounding of the means; the probability then is to the
    # density times that, and to a few roundings of the sum over components.
    rounding = 8 * torch.finfo(F64).eps
    slope = mixture.log_density(x, means, variance).exp()
    size = x.abs() + means.abs().amax(0)
    error = (mixture.cdf(x, means, variance) - p).abs()
    upper = (mixture.cdf(-x, -means, variance) - (1 - p)).abs()
    allowed = slope * size * rounding
    assert (
        torch.minimum(error, upper) <= allowed + 1e-14 * min(p, 1 - p) + 1e-16
    ).all()


@pytest.mark.slow
@given(seed=st.integers(0, 1000), p=st.floats(1e-4, 1 - 1e-3))
def test_float32_quantile_agrees_with_float64(seed, p):
    means, variance = _mixture(30, 4, seed=seed)
    single = mixture.quantile(p, means.float(), variance.float())
    double = mixture.quantile(p, means, variance)
    # Conditioning: rounding of p counts 1 / density, at p or 1 - p.
    density = mixture.log_density(double, means, variance).exp()
    scale = 1 + means.abs().amax(0) + max(p, 1 - p) / density
    assert (
        (single - double).abs() <= 20 * torch.finfo(torch.float32).eps * scale
    ).all()


def test_quantile_broadcasts_probabilities_against_the_batch():
    means, variance = _mixture(9, 2, 3)
    p = torch.tensor([0.01, 0.4, 0.9, 0.99], dtype=F64)
    x = mixture.quantile(p.reshape(4, 1, 1), means, variance)
    for i in range(4):
        for j in range(2):
            single = mixture.quantile(float(p[i]), means[:, j], variance[j])
            torch.testing.assert_close(x[i, j], single, rtol=1e-13, atol=1e-13)


@in_turn("count", [1, 2, 20])
def test_quantile_gradient_agrees_with_finite_differences(count):
    means, variance = _mixture(count, 3)
    p = torch.tensor([0.02, 0.5, 0.93], dtype=F64, requires_grad=True)
    arguments = (p, means.requires_grad_(), variance.requires_grad_())
    assert torch.autograd.gradcheck(mixture.quantile, arguments)


@in_turn("function", [mixture.cdf, mixture.log_density])
def test_cdf_and_density_gradients_agree_with_finite_differences(function):
    means, variance = _mixture(4, 3)
    x = torch.tensor([[0.1], [2.0]], dtype=F64, requires_grad=True)
    arguments = (x, means.requires_grad_(), variance.requires_grad_())
    assert torch.autograd.gradcheck(function, arguments)


@in_turn("function", [mixture.central_moments, mixture.expected_positive_part])
def test_moment_gradients_agree_with_finite_differences(function):
    means, variance = _mixture(4, 3)
    arguments = ((means - 2).requires_grad_(), variance.requires_grad_())
    assert torch.autograd.gradcheck(function, arguments)


def test_extreme_probabilities_follow_the_outermost_component():
    # Far out the outermost of S components is alone: F(x) = Phi(u_1) / S.
    means = torch.tensor([[-1.0], [0.0], [5.0], [9.0]], dtype=F64)
    variance = torch.tensor([0.01], dtype=F64)
    for p in (1e-290, 1e-100, 1e-20):
        z = (mixture.quantile(p, means, variance) + 1) / 0.1
        assert z.isfinite().all()
        expected = torch.tensor([math.log(4 * p)], dtype=F64)
        torch.testing.assert_close(torch.special.log_ndtr(z), expected)


def test_point_mass_is_its_own_quantile_with_finite_gradients():
    means = torch.full((6, 2), 0.7, dtype=F64, requires_grad=True)
    variance = torch.zeros(2, dtype=F64, requires_grad=True)
    x = mixture.quantile(0.9, means, variance)
    x.sum().backward()
    assert (x == 0.7).all()
    torch.testing.assert_close(means.grad, torch.full((6, 2), 1 / 6, dtype=F64))
    assert (variance.grad == 0).all()
    total, skewness = mixture.central_moments(means, variance)
    (gradient,) = torch.autograd.grad(skewness.sum() + total.sum(), means)
    assert (skewness == 0).all()
    assert gradient.isfinite().all()


def test_no_variance_is_the_discrete_distribution_on_the_means():
    means = torch.tensor([[3.0], [1.0], [2.0], [4.0]], dtype=F64)
    variance = torch.zeros(1, dtype=F64)
    for p, expected in ((0.2, 1.0), (0.3, 2.0), (0.6, 3.0), (0.9, 4.0)):
        assert mixture.quantile(p, means, variance) == expected
    steps = mixture.cdf(torch.tensor([[0.5], [1.0], [2.5]]).to(F64), means, variance)
    assert steps.flatten().tolist() == [0.0, 0.25, 0.5]


HALF_LOG_2_PI = 0.5 * math.log(2 * math.pi)
Z = torch.tensor([-37.0, -20.0, -6.0, -1.0, 0.0, 0.3, 4.0, 20.0, 37.0], dtype=F64)


def _tail(z: float) -> float:
    """Computes ``E[max(N(z, 1), 0)]``, ``z <= 0``, without the small factor."""
    # exp(z t) falls below 1e-17 where t > 40 / |z|.
    t = torch.linspace(0, min(40 / max(-z, 1e-9), 12.0), 400_001, dtype=F64)
    kernel = t * torch.exp(z * t - 0.5 * t.square())
    # Euler-Maclaurin: the slope of the kernel is 1 at 0 and nothing at the other end.
    integral = float(torch.trapezoid(kernel, t)) + float(t[1]) ** 2 / 12
    return integral * math.exp(-0.5 * z * z - HALF_LOG_2_PI)


@in_turn("scale", [1e-5, 0.3, 1e100])
def test_expected_positive_part_keeps_its_digits_in_the_tail(scale: float):
    # Of a sign and the other: E[max(u, 0)] - E[max(-u, 0)] = E[u].
    truth = [_tail(-abs(z)) + max(z, 0.0) for z in Z.tolist()]
    value = mixture.expected_positive_part(
        scale * Z.unsqueeze(0), torch.full_like(Z, scale**2)
    )
    expected = scale * torch.tensor(truth, dtype=F64)
    # Two terms cancel to 1 / z^2 of themselves: z^2 roundings, 3e-13 at 37.
    torch.testing.assert_close(value, expected, rtol=1e-12, atol=0.0)


def test_slopes_of_the_expected_positive_part_keep_their_digits():
    scale = 0.3
    means = (scale * Z).unsqueeze(0).requires_grad_()
    variance = torch.full_like(Z, scale**2).requires_grad_()
    value = mixture.expected_positive_part(means, variance)
    slopes = torch.autograd.grad(value.sum(), (means, variance))
    probability = 0.5 * torch.erfc(-Z / math.sqrt(2))
    density = torch.exp(-0.5 * Z.square() - HALF_LOG_2_PI)
    torch.testing.assert_close(slopes[0][0], probability, rtol=1e-11, atol=0.0)
    torch.testing.assert_close(slopes[1], density / (2 * scale), rtol=1e-11, atol=0.0)


@in_turn("small", [0.0, 1e-320, 1e-30])
def test_expected_positive_part_of_what_is_certain(small: float):
    means = torch.tensor([[-1e200, -1.0, 0.0, 1.0, 1e200]], dtype=F64)
    means.requires_grad_()
    variance = torch.full((5,), small, dtype=F64, requires_grad=True)
    value = mixture.expected_positive_part(means, variance)
    expected = means.detach()[0].clamp_min(0.0)
    torch.testing.assert_close(value.detach(), expected, rtol=1e-14, atol=1e-15)
    slopes = torch.autograd.grad(value.sum(), (means, variance))
    assert slopes[0][0].tolist() == [0.0, 0.0, 0.5, 1.0, 1.0]
    far = torch.tensor([True, True, small == 0.0, True, True])
    assert (slopes[1][far] == 0).all()
