"""Draws that are moved to the moments that their forces know."""

import pytest
import torch
from draws import normal, seeded
from gpytorch.kernels import RBFKernel, ScaleKernel
from torch import Tensor

from botorch_pref import PairwiseProbitLikelihood, SkewPreferenceGP
from botorch_pref.inference.skew.coordinates import Target
from botorch_pref.inference.skew.sampler import sample_latent, with_control_variates
from botorch_pref.numerics.normal import log_ndtr, log_ndtr_derivatives

# An effective number of draws with which any mean is as expected.
FEW = torch.ones((), dtype=torch.float64)


class Quadratic:
    """A log ratio ``a' x - k x' C^-1 x / 2``: a Gaussian of mean and variance known."""

    def __init__(self, slope: Tensor, precision: Tensor) -> None:
        self.slope, self.precision = slope, precision

    def __call__(self, x: Tensor) -> tuple[Tensor, Tensor]:
        bent = x @ self.precision
        return x @ self.slope - 0.5 * (x * bent).sum(-1), self.slope - bent

    def gradient(self, x: Tensor) -> Tensor:
        return self(x)[1]


def moments(draws: Tensor) -> tuple[Tensor, Tensor]:
    return draws.mean(0), torch.cov(draws.mT, correction=0)


@pytest.mark.parametrize("k", [0.0, 0.5])
def test_moments_of_a_gaussian_are_exact(k: float) -> None:
    """Whatever the draws are: those of the prior, which scatter about another mean."""
    root = normal(3, 3, seed=1) + 2 * torch.eye(3, dtype=torch.float64)
    covar, slope = root @ root.mT, torch.tensor([0.3, -0.1, 0.2], dtype=torch.float64)
    ratio = Quadratic(slope, k * torch.linalg.inv(covar))
    target = Target(ratio, torch.zeros(3, dtype=torch.float64), root)
    draws = normal(200, 3, seed=2) @ root.mT
    steady = with_control_variates(
        draws[::2], draws, ratio.gradient(draws) @ covar, target, FEW
    )
    mean, covariance = moments(steady)
    torch.testing.assert_close(mean, covar @ slope / (1 + k), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(covariance, covar / (1 + k), rtol=1e-9, atol=1e-9)


def test_few_draws_and_rows_that_follow_from_others_keep_their_covariance() -> None:
    slope = torch.tensor([0.3, -0.1, 0.2], dtype=torch.float64)
    for root, count in ((normal(3, 2, seed=1), 100), (normal(3, 3, seed=1), 3)):
        covar = root @ root.mT
        ratio = Quadratic(slope, torch.zeros_like(covar))
        target = Target(ratio, torch.zeros(3, dtype=torch.float64), root)
        draws = normal(count, root.shape[-1], seed=2) @ root.mT
        steady = with_control_variates(
            draws, draws, ratio.gradient(draws) @ covar, target, FEW
        )
        torch.testing.assert_close(moments(steady)[0], covar @ slope)
        torch.testing.assert_close(moments(steady)[1], moments(draws)[1])


def test_batches_and_fixed_rows() -> None:
    root = normal(2, 3, 3, seed=1)
    root[1, 2] = 0.0
    covar, mean = root @ root.mT, normal(2, 3, seed=4)
    draws = mean + normal(50, 2, 1, 3, seed=2).matmul(root.mT).squeeze(-2)
    forces = 0.3 * normal(50, 2, 1, 3, seed=3).matmul(covar).squeeze(-2)
    target = Target(Quadratic(mean[0], covar[0]), mean, root)
    together = with_control_variates(draws[:30], draws, forces, target, FEW.expand(2))
    for i in range(2):
        element_target = Target(target.log_ratio, mean[i], root[i])
        alone = with_control_variates(
            draws[:30, i], draws[:, i], forces[:, i], element_target, FEW
        )
        torch.testing.assert_close(together[:, i], alone)
    torch.testing.assert_close(together[:, 1, 2], mean[1, 2].expand(30))


class Win:
    """One win, ``log Phi(x / sd)``, beside a Gaussian site that has its moments."""

    def __init__(self, sd: float) -> None:
        self.sd = sd

    def __call__(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return log_ndtr(x / self.sd).sum(-1), self.gradient(x)

    def gradient(self, x: Tensor) -> Tensor:
        return log_ndtr_derivatives(x / self.sd)[1] / self.sd


def test_the_error_of_a_mean_and_a_variance_is_that_of_the_force() -> None:
    """A normal variable that won a duel of the same noise, by sums over a grid."""
    grid = torch.linspace(-9, 9, 20_001, dtype=torch.float64)
    weight = torch.softmax(log_ndtr(grid) - 0.5 * grid.square(), 0)
    mean = (weight * grid).sum()
    variance = (weight * (grid - mean).square()).sum()
    force = Win(1.0).gradient(grid.unsqueeze(-1)).squeeze(-1)
    # x - force has the variance that the share of the control leaves of x.
    apart = grid - force
    apart = apart - (weight * apart).sum()
    remainder = (
        variance
        - (weight * apart * (grid - mean)).sum().square()
        / (weight * apart.square()).sum()
    )
    assert float(remainder) < 0.02 * float(variance)
    unit = torch.ones(1, dtype=torch.float64)
    target = Target(Win(1.0), 0 * unit, unit.unsqueeze(-1))
    means, variances = [], []
    for seed in range(20):
        latent = sample_latent(target, num_draws=256, generator=seeded(seed)).draws
        means.append(latent.mean())
        variances.append(latent.var(correction=0))
    means, variances = torch.stack(means), torch.stack(variances)
    # Runs have 512 draws; five standard errors of the mean of 20 runs.
    assert float((means.mean() - mean).abs()) < 5 * float((remainder / 512 / 20).sqrt())
    assert float(means.std()) < 1.5 * float((remainder / 512).sqrt())
    # Of as many independent draws a variance scatters by sqrt(2 / n) of itself.
    plain = float(variance) * (2 / 256) ** 0.5
    assert float(variances.std()) < 0.3 * plain
    assert float((variances.mean() - variance).abs()) < 0.3 * plain


def test_a_wall_that_no_draw_felt_moves_nothing() -> None:
    """Positive values of a Gaussian, where only the force of its site was felt."""
    unit, draws = torch.ones(1, 1).double(), normal(4000, 1).abs()
    site = Quadratic(0.5 * unit[0], 0.5 * unit)
    target = Target(site, torch.zeros(1).double(), unit)
    size = torch.tensor(2000.0).double()
    steady = with_control_variates(draws, draws, site.gradient(draws), target, size)
    torch.testing.assert_close(steady, draws)


def test_thin_walls_leave_draws_where_they_are() -> None:
    """Of a million draws of the prior that agree, weighted: mean -6.94, variance 70."""
    X = torch.tensor([[0.2228], [0.9720], [0.9509], [0.1631], [0.8487]]).double()
    kernel = ScaleKernel(RBFKernel())
    kernel.outputscale, kernel.base_kernel.lengthscale = 100.0, 0.3
    model = SkewPreferenceGP(
        X,
        torch.tensor([[4, 3], [2, 4], [1, 0], [4, 0]]),
        covar_module=kernel,
        likelihood=PairwiseProbitLikelihood(1e-8),
        num_draws=512,
        seed=0,
    )
    with torch.no_grad():
        posterior = model.posterior(X[:1])
    # Four standard errors of some two hundred effective draws, and of their variance.
    assert abs(float(posterior.mean) + 6.94) < 4 * (70 / 200) ** 0.5
    assert abs(float(posterior.variance) - 70) < 4 * 70 * (2 / 200) ** 0.5
