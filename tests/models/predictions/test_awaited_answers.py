"""Utilities once open duels are answered, against quadrature and dense conditioning."""

import math

import pytest
import torch
from scipy.stats import norm
from torch import Tensor

from botorch_pref.likelihoods import ProbitLink
from botorch_pref.models.predictions import awaiting_answers
from botorch_pref.posteriors.difference import shared_covariance_mixture
from botorch_pref.posteriors.gaussian import Moments, gaussian_posterior
from botorch_pref.posteriors.skew_normal import SkewNormalPosterior

DOUBLE = torch.double
LINK = ProbitLink(0.3)
ONE = torch.tensor([0]), torch.tensor([2])
TWO = torch.tensor([0, 1]), torch.tensor([2, 3])


def random_moments(*batch: int, components: int = 1, points: int = 5) -> Moments:
    generator = torch.Generator().manual_seed(3)
    root = torch.randn(*batch, points, points, generator=generator, dtype=DOUBLE)
    means = torch.randn(components, *batch, points, generator=generator, dtype=DOUBLE)
    return Moments(means, root @ root.mT)


def answer_moments(moments: Moments) -> list[tuple[float, Tensor, Tensor]]:
    """Probability, mean and second moment of the utilities for each answer of `ONE`.

    Given the difference of its options the utilities of a component are Gaussian,
    linear in the difference, which is integrated on a grid.
    """
    covariance = moments.covariance
    row = torch.zeros(len(covariance), dtype=DOUBLE)
    row[ONE[0]], row[ONE[1]] = 1.0, -1.0
    variance = float(row @ covariance @ row)
    slope = covariance @ row / variance
    rest = covariance - variance * torch.outer(slope, slope)
    found = []
    for sign in (1, -1):
        parts = []
        for mean in moments.means:
            step = torch.linspace(-12, 12, 2_001, dtype=DOUBLE) * math.sqrt(variance)
            weight = torch.from_numpy(norm.pdf(step, scale=math.sqrt(variance)))
            noise = math.sqrt(2 * LINK.noise)
            said = norm.cdf(sign * (float(mean @ row) + step.numpy()) / noise)
            weight = weight * torch.from_numpy(said)
            f = mean + step.unsqueeze(-1) * slope
            second = f.unsqueeze(-1) * f.unsqueeze(-2) + rest
            integrals = [
                torch.trapezoid(values.flatten(1).T * weight, step)
                for values in (torch.ones_like(f[:, :1]), f, second)
            ]
            parts.append(torch.cat(integrals))
        p, first, second = (
            torch.stack(parts).mean(0).split([1, len(row), len(row) ** 2])
        )
        found.append((float(p), first / p, second.view(len(row), -1) / p))
    return found


def test_one_duel_leaves_the_covariance_that_is_expected_after_its_answer() -> None:
    moments = random_moments()
    expected = sum(
        p * (second - torch.outer(first, first))
        for p, first, second in answer_moments(moments)
    )
    after = awaiting_answers(gaussian_posterior(moments), LINK, *ONE)
    means, covariance = shared_covariance_mixture(after)
    torch.testing.assert_close(means, moments.means)
    torch.testing.assert_close(covariance, expected, rtol=1e-8, atol=1e-9)


def dense_conditioning(moments: Moments, noise: list[float]) -> Tensor:
    """Covariance after differences of `TWO` were seen with Gaussian noise."""
    A = torch.zeros(2, moments.covariance.shape[-1], dtype=DOUBLE)
    A[0, 0] = A[1, 1] = 1.0
    A[0, 2] = A[1, 3] = -1.0
    total = moments.covariance + moments.means.T.cov(correction=0)
    seen = A @ total @ A.T + torch.tensor(noise, dtype=DOUBLE).diag()
    return total - total @ A.T @ seen.inverse() @ A @ total


@pytest.mark.parametrize("components", [1, 4])
def test_several_duels_are_seen_with_noise(components: int) -> None:
    moments = random_moments(components=components)
    noise = []
    for first, second in zip(*TWO, strict=True):
        means = moments.means[:, first] - moments.means[:, second]
        C = moments.covariance
        within = float(C[first, first] + C[second, second] - 2 * C[first, second])
        scale = math.sqrt(2 * LINK.noise + within)
        wins = norm.cdf(means / scale)
        slope = norm.pdf(means / scale).mean() / scale
        shift = float(((means - means.mean()).numpy() * wins).mean()) + within * slope
        variance = within + float(means.var(correction=0))
        learned = shift**2 / (wins.mean() * (1 - wins.mean()))
        noise.append(variance**2 / learned - variance)
    # A sign tells less than the noisy difference itself.
    assert min(noise) > 2 * LINK.noise
    mixture = SkewNormalPosterior(moments.means, moments.covariance)
    before = gaussian_posterior(moments) if components == 1 else mixture
    after = awaiting_answers(before, LINK, *TWO)
    means, covariance = shared_covariance_mixture(after)
    assert isinstance(after, SkewNormalPosterior) == (components > 1)
    torch.testing.assert_close(means.mean(0), moments.mean)
    total = covariance + means.T.cov(correction=0)
    torch.testing.assert_close(total, dense_conditioning(moments, noise))
    assert float(torch.linalg.eigvalsh(covariance).min()) > 0


def test_a_mixture_is_as_sure_of_the_difference_as_the_answer_makes_it() -> None:
    moments = random_moments(components=4)
    row = torch.tensor([1.0, 0.0, -1.0, 0.0, 0.0], dtype=DOUBLE)
    expected = sum(
        p * float(row @ second @ row - (first @ row) ** 2)
        for p, first, second in answer_moments(moments)
    )
    before = SkewNormalPosterior(moments.means, moments.covariance)
    means, covariance = shared_covariance_mixture(awaiting_answers(before, LINK, *ONE))
    found = row @ covariance @ row + (means @ row).var(correction=0)
    assert float(found) == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("components", [1, 3])
def test_each_of_a_batch(components: int) -> None:
    moments = random_moments(2, 3, components=components)
    noise = torch.tensor([0.1, 0.5, 2.0], dtype=DOUBLE)
    before = SkewNormalPosterior(moments.means, moments.covariance)
    after = awaiting_answers(before, ProbitLink(noise), *TWO)
    for i in range(2):
        for j in range(3):
            one = SkewNormalPosterior(moments.means[:, i, j], moments.covariance[i, j])
            alone = awaiting_answers(one, ProbitLink(float(noise[j])), *TWO)
            expected = alone.component_covariance
            torch.testing.assert_close(after.component_covariance[i, j], expected)
            torch.testing.assert_close(
                after.component_means[:, i, j], alone.component_means
            )


def test_the_same_options_and_the_same_duel_again() -> None:
    """A duel of a point with itself teaches nothing; a second answer less."""
    moments = random_moments()
    itself = torch.tensor([0]), torch.tensor([0])
    before = gaussian_posterior(moments)
    for link in (LINK, ProbitLink(0.0)):
        unmoved = awaiting_answers(before, link, *itself).covariance_matrix
        torch.testing.assert_close(unmoved, moments.covariance)
        left = [
            awaiting_answers(before, link, *(x.repeat(n) for x in ONE))
            for n in (1, 2, 3)
        ]
        variances = [
            float(p.variance[0] + p.variance[2] - 2 * p.covariance_matrix[0, 2])
            for p in left
        ]
        taken = -torch.tensor(variances).diff()
        assert bool((taken > 0).all())
        assert taken[1] < taken[0]
