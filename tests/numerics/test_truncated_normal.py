"""Truncated normal draws against their distribution function and its moments."""

import math

import pytest
import torch
from cases import in_turn
from scipy import integrate

from botorch_pref.numerics.normal import sample_truncated_normal

INF = math.inf

# mean, variance, lower, upper
INTERVALS = [
    (0.0, 1.0, 0.0, INF),
    (3.0, 2.0, 0.0, INF),
    (-3.0, 0.5, -INF, 0.0),
    (50.0, 4.0, 0.0, INF),  # the bound hardly matters
    (-4.99, 1.0, 0.0, INF),  # either side of where the tail begins
    (-5.01, 1.0, 0.0, INF),
    (-35.0, 1.0, 0.0, INF),
    (-800.0, 1.0, 0.0, INF),
    (800.0, 1.0, -INF, 0.0),
    (-1.0, 1e-6, 0.0, INF),
    (0.0, 1.0, -0.5, 0.5),
    (0.3, 1.0, 0.3, 0.301),  # narrow
    (40.0, 1.0, -0.5, 0.5),  # both bounds far in one tail
    (-20.0, 1.0, 0.0, 1e-6),  # narrow and far
    (6.0, 1.0, 0.0, 11.0),
    (0.0, 1.0, -20.0, 20.0),
]


def draw(interval, count, dtype, seed=0):
    mean, variance, lower, upper = (
        torch.full((count,), value, dtype=dtype) for value in interval
    )
    generator = torch.Generator().manual_seed(seed)
    return sample_truncated_normal(mean, variance, lower, upper, generator)


def distance_moments(interval):
    """Computes mean and sd of the distance to the nearest bound, by quadrature."""
    mean, variance, lower, upper = interval
    bound = lower if abs(mean - lower) <= abs(mean - upper) else upper
    gap = abs(mean - bound) * (1 if lower <= mean <= upper else -1)
    length = upper - lower
    width = min(length, max(gap, 0.0) + 40 * math.sqrt(variance))
    if gap < 0:
        width = min(length, 60 * variance / max(-gap, math.sqrt(variance)))

    def density(t):
        return math.exp((gap * t - 0.5 * t * t) / variance - peak)

    peak = 0.5 * max(gap, 0.0) ** 2 / variance
    points = [gap] if 0 < gap < width else None
    moments = [
        integrate.quad(
            lambda t, k=k: t**k * density(t), 0, width, points=points, limit=500
        )[0]
        for k in range(3)
    ]
    first, second = moments[1] / moments[0], moments[2] / moments[0]
    return bound, first, math.sqrt(second - first**2)


@in_turn("dtype", [torch.float64, torch.float32])
@in_turn("interval", INTERVALS)
def test_moments_agree_with_quadrature(interval, dtype) -> None:
    count = 40_000
    bound, mean, deviation = distance_moments(interval)
    draws = draw(interval, count, dtype)
    ends = torch.tensor(interval[2:], dtype=dtype)
    assert bool(((draws >= ends[0]) & (draws <= ends[1])).all())
    distance = (draws.double() - bound).abs()
    # Rounding of the draws themselves counts where the interval is narrow.
    rounding = 2 * torch.finfo(dtype).eps * abs(bound)
    error = deviation / math.sqrt(count)
    assert float(distance.mean()) == pytest.approx(mean, abs=4.5 * error + rounding)
    # A truncated normal has at most the kurtosis of the exponential, 9.
    assert float(distance.std()) == pytest.approx(
        deviation, abs=4.5 * math.sqrt(2.0) * error + rounding
    )


def test_broadcasts_and_repeats_with_the_seed() -> None:
    mean = torch.tensor([-700.0, 0.0, 5.0], dtype=torch.float64).repeat(2, 4, 1)
    variance = torch.tensor([1.0, 2.0, 0.1], dtype=torch.float64)
    lower = torch.tensor([0.0, -INF, -1.0], dtype=torch.float64)
    upper = torch.tensor([INF, 0.0, 1.0], dtype=torch.float64)
    first, second = (
        sample_truncated_normal(
            mean, variance, lower, upper, torch.Generator().manual_seed(3)
        )
        for _ in range(2)
    )
    assert torch.equal(first, second)
    # Element by element the same draw as one interval at a time.
    generator = torch.Generator().manual_seed(3)
    order, within = (
        torch.rand(2, 4, 3, dtype=torch.float64, generator=generator) for _ in range(2)
    )
    uniform = (order.argsort(0) + within) / 2
    # The half normal below 0: Phi(x / sqrt 2) = (1 - u) / 2.
    expected = 2**0.5 * torch.special.ndtri(0.5 * (1 - uniform[..., 1]))
    torch.testing.assert_close(first[..., 1], expected)


def test_draws_are_a_latin_hypercube() -> None:
    """One in each of as many equally probable parts, and in another order each."""
    zero = torch.zeros(64, 3, dtype=torch.float64)
    bound = zero + INF
    generator = torch.Generator().manual_seed(0)
    draws = sample_truncated_normal(zero, zero + 1, -bound, bound, generator)
    parts = (64 * torch.special.ndtr(draws)).long()
    strata = torch.arange(64).unsqueeze(-1).expand(64, 3)
    assert torch.equal(parts.sort(0).values, strata)
    # Correlations of two orders have a standard deviation of 1 / sqrt(63).
    correlation = torch.corrcoef(parts.double().mT)
    assert float((correlation - torch.eye(3)).abs().max()) < 4.5 / 63**0.5
