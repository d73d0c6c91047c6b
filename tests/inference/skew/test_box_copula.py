"""Boxed values through their quantiles, against SciPy's and by definition."""

import math
from typing import Any

import pytest
import torch
from draws import seeded
from scipy import stats
from torch import Tensor
from truths.engines import expectation_propagation

from botorch_pref.inference.skew.coordinates import BoxCopula, Target, box_log_ratio
from botorch_pref.likelihoods.factors import BoxFactors
from botorch_pref.linalg import SparseDesign

INF = math.inf
MEAN = torch.tensor([0.4, -0.3, 0.1, 0.2], dtype=torch.float64)
# A win, a loss, a tie, and a row that nothing was said about.
LOWER = torch.tensor([0.0, -INF, -0.3, -INF], dtype=torch.float64)
UPPER = torch.tensor([INF, 0.5, 0.4, INF], dtype=torch.float64)


def covariances(*batch: int) -> Tensor:
    """Makes covariances of four utilities, and one row of each."""
    root = torch.randn(*batch, 4, 6, generator=seeded(3), dtype=torch.float64)
    return root @ root.mT / 6


def factors_of(noise: Any, lower: Tensor = LOWER, upper: Tensor = UPPER) -> BoxFactors:
    size = lower.shape[-1]
    places = torch.arange(size).unsqueeze(-1)
    rows = SparseDesign(places, torch.ones(size, 1, dtype=torch.float64), size)
    return BoxFactors(rows, torch.zeros_like(lower) + noise, lower, upper)


def copula_of(covar: Tensor, mean: Tensor, factors: BoxFactors) -> BoxCopula:
    approximation = expectation_propagation(covar, mean, factors)
    means = approximation.row_means(mean)
    copula = BoxCopula.from_solution(factors, (mean, covar), approximation, means)
    assert copula is not None
    return copula


def by_definition(covar: Tensor, mean: Tensor, factors: BoxFactors, s: Tensor) -> Any:
    """Computes values, and their log density in ``s`` over that of the Gaussian.

    The cavities are those of the solution; SciPy has the truncated normals.
    """
    solution = expectation_propagation(covar, mean, factors)
    tau, nu = solution.sites
    root = solution.factor.row_root()
    variance = root.square().sum(-1)
    cavity = 1 / (1 / variance - tau)
    centre = cavity * (solution.row_means(mean) / variance - nu)
    scale = (cavity + factors.variance).sqrt()
    ends = [(end - centre) / scale for end in (factors.lower, factors.upper)]
    box = stats.truncnorm(*(end.numpy() for end in ends), centre.numpy(), scale.numpy())
    v = torch.from_numpy(box.ppf(stats.norm.cdf(s.numpy())))
    slopes = torch.from_numpy(stats.norm.logpdf(s.numpy()) - box.logpdf(v.numpy()))
    prior = stats.multivariate_normal(
        mean.numpy(), (covar + torch.diag(factors.variance)).numpy()
    )
    # The posterior covariance of v is that of Gaussian sites of its own.
    site = tau / (1 - factors.variance * tau)
    gamma = covar + torch.diag(factors.variance)
    joint = torch.linalg.inv(torch.linalg.inv(gamma) + torch.diag(site))
    deviation = joint.diagonal().sqrt()
    near = stats.multivariate_normal(
        None, (joint / deviation / deviation.unsqueeze(-1)).numpy()
    )
    log_density = prior.logpdf(v.numpy()) - near.logpdf(s.numpy())
    return v, torch.from_numpy(log_density) + slopes.sum(-1)


@pytest.mark.parametrize("noise", [1e-4, 0.3])
def test_values_and_ratio(noise: float) -> None:
    covar, factors = covariances(), factors_of(noise)
    s = 1.5 * torch.randn(50, 4, generator=seeded(), dtype=torch.float64)
    copula = copula_of(covar, MEAN, factors)
    v, expected = by_definition(covar, MEAN, factors, s)
    torch.testing.assert_close(copula.values(s), v, rtol=1e-9, atol=1e-9)
    value, slope = copula(s)
    # Up to a constant.
    torch.testing.assert_close(
        value - value[0], expected - expected[0], rtol=1e-8, atol=1e-8
    )
    torch.testing.assert_close(copula.gradient(s), slope)
    step = 1e-5
    for i in range(4):
        moved = torch.zeros(4, dtype=torch.float64)
        moved[i] = step
        difference = (copula(s + moved)[0] - copula(s - moved)[0]) / (2 * step)
        torch.testing.assert_close(slope[:, i], difference, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("noise", [1e-8, 1.0])
@pytest.mark.parametrize("bound", [-20.0, 0.0, 3.0, 30.0])
@pytest.mark.parametrize("wins", [True, False])
def test_one_row_is_normal(noise: float, bound: float, wins: bool) -> None:
    """Nothing is left to sample, however unlikely the answer was."""
    ends = torch.tensor([[bound if wins else -INF], [INF if wins else -bound]]).double()
    factors = factors_of(noise, *ends)
    covar = torch.ones(1, 1, dtype=torch.float64)
    copula = copula_of(covar, torch.zeros(1, dtype=torch.float64), factors)
    s = torch.linspace(-5, 5, 41, dtype=torch.float64).unsqueeze(-1)
    value, slope = copula(s)
    # The quantile at -5 is known to 1e-16 / 3e-7 of the box's mass.
    torch.testing.assert_close(value, value[:1].expand(41), rtol=0, atol=1e-6)
    assert float(slope.abs().max()) < 1e-6
    v = copula.values(s)
    assert bool(((v >= ends[0]) & (v <= ends[1])).all())


def test_batches_equal_one_at_a_time() -> None:
    """Also where a row is won in one element and lost in the next."""
    covar = covariances(2, 3)
    mean = torch.randn(2, 3, 4, generator=seeded(1), dtype=torch.float64)
    lower = LOWER.expand(2, 3, 4).clone()
    upper = UPPER.expand(2, 3, 4).clone()
    lower[1, :, 0], upper[1, :, 0] = -INF, 0.2
    factors = factors_of(1e-2, lower, upper)
    copula = copula_of(covar, mean, factors)
    s = torch.randn(7, 2, 3, 4, generator=seeded(2), dtype=torch.float64)
    value, slope = copula(s)
    assert copula.target.root.shape == (2, 3, 4, 4)
    for i, j in [(0, 0), (1, 2)]:
        alone = copula_of(
            covar[i, j], mean[i, j], factors_of(1e-2, lower[i, j], upper[i, j])
        )
        latent = s[:, i, j]
        torch.testing.assert_close(copula.values(s)[:, i, j], alone.values(latent))
        one_value, one_slope = alone(latent)
        torch.testing.assert_close(value[:, i, j], one_value)
        torch.testing.assert_close(slope[:, i, j], one_slope)


class Linear:
    """A log ratio ``a' x``: a Gaussian that is moved."""

    def __init__(self, slope: Tensor) -> None:
        self.slope = slope

    def __call__(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x @ self.slope, self.gradient(x)

    def gradient(self, x: Tensor) -> Tensor:
        return self.slope.expand_as(x)


def test_divergence_of_a_gaussian_that_is_moved() -> None:
    """By ``H H' a``, whose squared length in its deviations is ``|H' a|^2``."""
    root = torch.randn(2, 4, 3, generator=seeded(), dtype=torch.float64)
    slope = torch.tensor([1.0, -2.0, 0.5, 3.0], dtype=torch.float64)
    target = Target(Linear(slope), torch.zeros(2, 4, dtype=torch.float64), root)
    expected = (root.mT @ slope).square().sum(-1)
    torch.testing.assert_close(target.divergence(seeded()), expected)


def suits(covar: Tensor, design: Tensor, noise: float) -> bool:
    """Tells whether rows of a dense design that were all won go through quantiles."""
    size, num_points = design.shape
    index = torch.arange(num_points).expand(size, -1)
    ends = torch.zeros(size, dtype=torch.float64), torch.full((size,), INF).double()
    factors = BoxFactors(
        SparseDesign(index, design, num_points), ends[0] + noise, *ends
    )
    mean = covar.new_zeros(num_points)
    solution = expectation_propagation(covar, mean, factors)
    rows = Target(
        box_log_ratio(
            factors.variance, *ends, solution.sites.shift, solution.sites.precision
        ),
        solution.row_means(mean),
        solution.factor.row_root(),
    )
    prior = factors.rows.apply(mean), factors.rows.congruence(covar)
    copula = BoxCopula.from_solution(factors, prior, solution, rows.mean)
    return copula is not None and copula.suits(rows, seeded())


def test_it_suits_rows_of_little_noise_that_do_not_determine_each_other() -> None:
    points = torch.rand(20, 3, generator=seeded(5), dtype=torch.float64)
    covar = 10 * (-2 * torch.cdist(points, points).square()).exp()
    eye = torch.eye(20, dtype=torch.float64)
    apart = eye[:10] - eye[10:]
    assert suits(covar, apart, 1e-3)
    # Noise blurs the walls.
    assert not suits(covar, apart, 30.0)
    # All pairs of five points: ten differences of four numbers.
    first, second = torch.combinations(torch.arange(5)).unbind(-1)
    assert not suits(covar, eye[first] - eye[second], 1e-3)
    # The same answer twice, with noise that rounding of the covariance hides.
    assert not suits(covar, apart[[0, 0]], 1e-18)
