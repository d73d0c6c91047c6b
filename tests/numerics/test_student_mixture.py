"""Positive parts of Student's t, in extended precision and at the ends."""

import math

import mpmath
import pytest
import torch
from cases import in_turn

from botorch_pref.numerics.mixtures import tailed_positive_part

DOUBLE = torch.float64


def exact(mean: float, deviation: float) -> float:
    """Computes the closed form, with 60 digits; `test_the_closed_form` checks it."""
    with mpmath.workdps(60):
        m, a = mpmath.mpf(mean), mpmath.sqrt(3) * mpmath.mpf(deviation)
        angle = mpmath.atan2(a, abs(m))
        return float(max(m, 0) + (a - abs(m) * angle) / mpmath.pi)


@in_turn("mean", [-3.0, -0.2, 0.0, 1.5])
def test_the_closed_form(mean: float) -> None:
    with mpmath.workdps(20):
        density = lambda z: 6 * mpmath.sqrt(3) / (mpmath.pi * (3 + z * z) ** 2)  # noqa: E731
        lower = -mpmath.mpf(mean) / 0.7
        truth = mpmath.quad(
            lambda z: (mean + 0.7 * z) * density(z), [lower, lower + 5, mpmath.inf]
        )
    assert exact(mean, 0.7) == pytest.approx(float(truth), rel=1e-10)


@in_turn("deviation", [1e-6, 0.3, 40.0])
def test_small_values_keep_their_digits(deviation: float) -> None:
    z = torch.cat(
        [torch.logspace(-6, 8, 57, dtype=DOUBLE), torch.tensor([173.2050807])]
    )
    means = deviation * torch.cat([-z, z])
    value = tailed_positive_part(means[None], torch.full_like(means, deviation**2))
    truth = torch.tensor([exact(float(m), deviation) for m in means], dtype=DOUBLE)
    # The difference loses (d/a)^2 roundings, up to 1e4, where the series takes over.
    torch.testing.assert_close(value, truth, rtol=2e-11, atol=0)


def test_slopes_and_the_ends() -> None:
    means = torch.tensor([[-2.0, 0.0, 3.0]], dtype=DOUBLE, requires_grad=True)
    certain = tailed_positive_part(means, torch.zeros(3, dtype=DOUBLE))
    torch.testing.assert_close(certain, torch.tensor([0.0, 0.0, 3.0], dtype=DOUBLE))
    (slope,) = torch.autograd.grad(certain.sum(), means)
    torch.testing.assert_close(slope, torch.tensor([[0.0, 0.5, 1.0]], dtype=DOUBLE))
    two = torch.tensor([[-400.0, -1.0, 0.1], [0.5, 1e-3, -90.0]], dtype=DOUBLE)
    variance = torch.tensor([1.0, 0.3, 2.0], dtype=DOUBLE)
    for argument in (two, variance):
        argument.requires_grad_()
    assert torch.autograd.gradcheck(tailed_positive_part, (two, variance))
    equal = tailed_positive_part(torch.zeros(1, 1, dtype=DOUBLE), torch.ones(1))
    assert float(equal) == pytest.approx(math.sqrt(3) / math.pi)
