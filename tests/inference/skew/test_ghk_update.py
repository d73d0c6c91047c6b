"""Continued draws against integrals of the truncated Gaussian on a grid."""

import itertools

import numpy as np
import pytest
import torch

from botorch_pref.inference.ep import assumed_density_sites
from botorch_pref.inference.skew.posterior import ghk_update
from botorch_pref.likelihoods.factors import BoxFactors
from botorch_pref.linalg import pair_rows
from botorch_pref.numerics.normal import sample_truncated_normal

DOUBLE = torch.float64
COVARIANCE = torch.tensor(
    [[1.0, 0.6, -0.5], [0.6, 1.5, 0.2], [-0.5, 0.2, 0.8]], dtype=DOUBLE
)
MEAN = torch.tensor([0.2, -0.3, 0.1], dtype=DOUBLE)
LOWER = torch.tensor([0.0, 0.0, -0.4], dtype=DOUBLE)
UPPER = torch.tensor([torch.inf, torch.inf, 0.5], dtype=DOUBLE)
COUNT = 40_000


def on_grid(size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Makes Gauss-Legendre nodes in the box's first dimensions, with probabilities."""
    nodes, weights = map(torch.from_numpy, np.polynomial.legendre.leggauss(48))
    highs = UPPER[:size].clamp_max(9.0)
    half = 0.5 * (highs - LOWER[:size])
    axes = [LOWER[i] + half[i] * (1 + nodes) for i in range(size)]
    points = torch.cartesian_prod(*axes).reshape(-1, size)
    weight = torch.cartesian_prod(*[weights] * size).reshape(-1, size).prod(-1)
    gap = points - MEAN[:size]
    inverse = torch.linalg.inv(COVARIANCE[:size, :size])
    weight = weight * (-0.5 * ((gap @ inverse) * gap).sum(-1)).exp()
    return points, weight / weight.sum()


def earlier(generator: torch.Generator) -> torch.Tensor:
    """Draws the first row given its own answer."""
    ends = LOWER[0], UPPER[0]
    mean = MEAN[0].expand(COUNT)
    return sample_truncated_normal(mean, COVARIANCE[0, 0], *ends, generator)


def given(first: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Computes the other rows given the first: the normal regression."""
    slope = COVARIANCE[1:, 0] / COVARIANCE[0, 0]
    means = MEAN[1:] + slope * (first - MEAN[0]).unsqueeze(-1)
    return means, COVARIANCE[1:, 1:] - torch.outer(slope, COVARIANCE[0, 1:])


@pytest.mark.parametrize("count", [1, 2])
def test_continued_draws_have_the_moments_of_the_truncated_gaussian(count) -> None:
    generator = torch.Generator().manual_seed(3)
    first = earlier(generator)
    means, covariance = given(first)
    draws = ghk_update(
        means[:, :count],
        covariance[:count, :count],
        LOWER[1 : count + 1],
        UPPER[1 : count + 1],
        generator,
    )
    all_draws = torch.cat([first[draws.chosen].unsqueeze(-1), draws.further], dim=-1)
    assert bool(
        (all_draws >= LOWER[: count + 1]).all()
        & (all_draws <= UPPER[: count + 1]).all()
    )
    points, weight = on_grid(count + 1)
    share = float(draws.share)
    assert 0.3 < share < 0.999
    for powers in itertools.product(range(3), repeat=count + 1):
        exponents = torch.tensor(powers, dtype=DOUBLE)
        ours, theirs = ((x**exponents).prod(-1) for x in (all_draws, points))
        truth = (weight * theirs).sum()
        spread = (weight * (theirs - truth).square()).sum().sqrt()
        # Five standard errors of the effective draws.
        error = 5 * spread / (share * COUNT) ** 0.5
        assert abs(float(ours.mean() - truth)) <= float(error) + 1e-12, (
            f"the moment of powers {powers} is {float(ours.mean())}, by the grid "
            f"{float(truth)}, within five standard errors of {float(error) / 5:.1e}"
        )


def test_the_effective_share_is_that_of_the_probabilities() -> None:
    """With one further row: (E p)^2 / E p^2 over the earlier draws."""
    generator = torch.Generator().manual_seed(3)
    first = earlier(generator)
    means, covariance = given(first)
    draws = ghk_update(
        means[:, :1], covariance[:1, :1], LOWER[1:2], UPPER[1:2], generator
    )
    p = torch.special.ndtr(means[:, 0] / covariance[0, 0].sqrt())
    expected = p.mean().square() / p.square().mean()
    torch.testing.assert_close(draws.share, expected, rtol=1e-6, atol=0)
    # Systematic: as often as the probability says, rounded up or down.
    often = torch.bincount(draws.chosen, minlength=COUNT)
    assert float((often - p / p.mean()).abs().max()) < 1 + 1e-6


def test_elements_of_a_batch_do_not_depend_on_each_other() -> None:
    means, covariance = given(earlier(torch.Generator().manual_seed(3))[:500])
    flipped = torch.stack([means, -means, means + 1], dim=1)
    lower, upper = LOWER[1:].expand(3, 2), UPPER[1:].expand(3, 2)
    new = torch.Generator().manual_seed
    batch = ghk_update(flipped, covariance, lower, upper, new(0))
    for i in range(3):
        single = ghk_update(flipped[:, i], covariance, LOWER[1:], UPPER[1:], new(0))
        assert torch.equal(batch.chosen[:, i], single.chosen)
        torch.testing.assert_close(batch.further[:, i], single.further)
        torch.testing.assert_close(batch.share[i], single.share)


def test_an_answer_that_nobody_expected_leaves_few_draws() -> None:
    means = torch.tensor([[-9.0], [-30.0], [-40.0], [-50.0]], dtype=DOUBLE)
    unit = torch.ones(1, dtype=DOUBLE)
    draws = ghk_update(
        means, unit[:, None], 0 * unit, torch.inf * unit, torch.Generator()
    )
    assert draws.chosen.tolist() == [0] * 4
    assert float(draws.share) == pytest.approx(0.25)
    assert bool((draws.further >= 0).all())
    assert float(draws.further.max()) < 2


def test_assumed_density_sites_match_the_moments_of_one_answer() -> None:
    """Of each answer alone, by a grid."""
    mean = torch.tensor([0.3, -0.2, 0.5], dtype=DOUBLE)
    root = torch.tensor([[1.0, 0, 0], [0.4, 0.9, 0], [-0.3, 0.5, 0.7]], dtype=DOUBLE)
    covariance = root @ root.mT
    pairs = torch.tensor([[0, 1], [2, 0]])
    variance, lower = torch.tensor([0.4, 0.1]).double(), torch.tensor([0.0, -0.3])
    upper = torch.tensor([torch.inf, 0.3], dtype=DOUBLE)
    rows = pair_rows(pairs, 3, mean)
    factors = BoxFactors(rows, variance, lower.double(), upper)
    precision, shift = assumed_density_sites(factors, mean, covariance)
    z = torch.linspace(-12, 12, 200_001, dtype=DOUBLE)
    for i, (a, b) in enumerate(pairs.tolist()):
        m = mean[a] - mean[b]
        s = covariance[a, a] + covariance[b, b] - 2 * covariance[a, b]
        scale = variance[i].sqrt()
        likelihood = torch.special.ndtr((upper[i] - z) / scale)
        likelihood = likelihood - torch.special.ndtr((lower[i] - z) / scale)
        weight = likelihood * (-0.5 * (z - m).square() / s).exp()
        weight = weight / weight.sum()
        tilted = (weight * z).sum()
        spread = (weight * (z - tilted).square()).sum()
        # Prior times site.
        posterior = 1 / (1 / s + precision[i])
        torch.testing.assert_close(posterior, spread, rtol=1e-6, atol=0)
        got = posterior * (m / s + shift[i])
        torch.testing.assert_close(got, tilted, rtol=0, atol=1e-6)
