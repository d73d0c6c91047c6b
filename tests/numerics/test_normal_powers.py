"""Gaussians times powers of the normal distribution function, by many panels."""

import math

import numpy as np
import pytest
import torch
from scipy.special import log_ndtr, logsumexp
from scipy.stats import norm

from botorch_pref.numerics import normal_powers
from botorch_pref.numerics.normal_powers import NormalPowers

# Wins, losses, mean and variance. Cliffs far from the mean and near it, on either side,
# the narrowest peaks and Gaussians, and Gaussians that lie where the powers are 1.
CASES = [
    (2, 0, 0.0, 1.0),
    (2, 0, -3.0, 1.0),
    (12, 0, 1.5, 2.0),
    (0, 5, 40.0, 30.0),
    (0, 2, -431.0, 5930.0),
    (3, 0, 60.0, 4.0),
    (0, 2, 0.3, 1e8),
    (6, 6, 0.1, 1.0),
    (3, 5, 7.2, 1.0),
    (1, 1, -20.0, 9.0),
    (1, 11, 250.0, 1e6),
    (4, 1, -2e4, 1e9),
    (2, 0, 0.3, 0.135),
    (1, 1, -2.2, 0.14),
]


def by_many_panels(
    wins: int, losses: int, mean: float, variance: float
) -> tuple[float, float, float]:
    """Computes log integral, mean and variance of the product, in deviations.

    By twenty nodes on each panel between quarters of a unit and of a deviation.
    """
    deviation = variance**0.5
    cliff = np.arange(-160, 161) / 4
    ends = np.union1d(cliff, mean + deviation * cliff)
    unit, weight = np.polynomial.legendre.leggauss(20)
    half = np.diff(ends)[:, None] / 2
    t, log_weights = ends[:-1, None] + half * (1 + unit), np.log(half * weight)
    logs = wins * log_ndtr(t) + losses * log_ndtr(-t) + norm.logpdf(t, mean, deviation)
    logs += log_weights
    total = logsumexp(logs)
    product = np.exp(logs - total)
    centre = (product * t).sum()
    spread = (product * (t - centre) ** 2).sum()
    return total, (product * (t - mean)).sum() / deviation, spread / variance


def columns_of(cases: list[tuple]) -> tuple[torch.Tensor, ...]:
    return torch.tensor(cases, dtype=torch.double).unbind(-1)


def test_moments_are_those_of_many_panels() -> None:
    wins, losses, mean, variance = columns_of(CASES)
    powers = NormalPowers(wins, losses)
    assert bool(powers.covers(mean, variance).all())
    every = torch.arange(len(CASES))
    value, first, second, ratio = powers.moments(mean, variance, every)
    expected = torch.tensor(
        [by_many_panels(*case) for case in CASES], dtype=torch.double
    )
    torch.testing.assert_close(value, expected[:, 0], rtol=1e-12, atol=1e-15)
    shift = first * variance.sqrt()
    torch.testing.assert_close(shift, expected[:, 1], rtol=1e-11, atol=1e-15)
    torch.testing.assert_close(ratio, expected[:, 2], rtol=1e-10, atol=0)
    torch.testing.assert_close(second * variance, ratio - 1, rtol=1e-12, atol=1e-15)


def test_moments_by_parts_are_those_taken_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wins, losses, mean, variance = columns_of(CASES)
    powers, every = NormalPowers(wins, losses), torch.arange(len(CASES)).flip(0)
    arguments = mean[every].expand(2, -1), variance[every].expand(2, -1), every
    together = powers.moments(*arguments)
    monkeypatch.setattr(normal_powers, "_AT_ONCE", 7)
    for got, want in zip(powers.moments(*arguments), together, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-14, atol=0)


def test_moments_of_some_rows_of_a_batch() -> None:
    wins, losses, mean, variance = columns_of(CASES)
    powers, rows = NormalPowers(wins, losses), torch.tensor([8, 0, 3])
    batch = torch.stack([mean[rows], mean[rows] + 0.5])
    moments = powers.moments(batch, variance[rows].expand(2, -1), rows)
    for element in range(2):
        alone = powers.moments(batch[element], variance[rows], rows)
        for got, want in zip(moments, alone, strict=True):
            torch.testing.assert_close(got[element], want, rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("part", range(4))
def test_gradients_are_those_of_finite_differences(part: int) -> None:
    gentle = [case for case in CASES if case[3] < 100]
    wins, losses, mean, variance = columns_of(gentle)
    powers, every = NormalPowers(wins, losses), torch.arange(len(gentle))

    def function(mean: torch.Tensor, variance: torch.Tensor) -> torch.Tensor:
        return powers.moments(mean, variance, every)[part]

    leaves = mean.requires_grad_(), variance.requires_grad_()
    assert torch.autograd.gradcheck(function, leaves, rtol=1e-5)


def test_what_the_nodes_are_too_coarse_for_is_not_covered() -> None:
    nan, inf = math.nan, math.inf
    wins, losses, mean, variance = columns_of(
        [
            (7, 7, 0.0, 4.0),
            (2, 0, 0.0, 0.13),
            (2, 0, -8.0, 1.0),
            (0, 1, 6.0, 1.0),
            (2, 0, nan, 4.0),
            (2, 0, inf, 4.0),
            (2, 0, 1.0, inf),
            (2, 0, 1.0, nan),
        ]
    )
    assert not bool(NormalPowers(wins, losses).covers(mean, variance).any())
