"""Errors that EP states of its evidence, against draws from the prior."""

import math

import pytest
import torch
from cases import in_turn
from gpytorch.kernels import RBFKernel, ScaleKernel

from botorch_pref import (
    Comparisons,
    EPPreferenceGP,
    PairwiseProbitLikelihood,
    SkewPreferenceGP,
)

THRESHOLD = 0.5


def neighbours(num_pairs: int, noise: float, tied: int = 0) -> EPPreferenceGP:
    """Makes points near 0.2, each of which won against one near 0.8, or tied."""
    generator = torch.Generator().manual_seed(0)
    near = 0.02 * torch.rand(2, num_pairs, 1, generator=generator, dtype=torch.double)
    kernel = ScaleKernel(RBFKernel()).double()
    kernel.outputscale, kernel.base_kernel.lengthscale = 10.0, 0.3
    index = torch.arange(num_pairs)
    pairs = torch.stack([index, num_pairs + index], dim=-1)
    won, ties = pairs[tied:], pairs[:tied] if tied else None
    return EPPreferenceGP(
        torch.cat([0.2 + near[0], 0.8 + near[1]]),
        Comparisons(won, ties),
        covar_module=kernel,
        likelihood=PairwiseProbitLikelihood(noise, THRESHOLD if tied else None),
    ).eval()


def log_win(z: torch.Tensor, noise: float, threshold: float = 0.0) -> torch.Tensor:
    return torch.special.log_ndtr((z - threshold) / math.sqrt(2 * noise))


def log_tie(z: torch.Tensor, noise: float) -> torch.Tensor:
    lost, won = log_win(-z, noise, THRESHOLD).exp(), log_win(z, noise, THRESHOLD).exp()
    return (1 - lost - won).log()


@in_turn("num_pairs", [3, 10])
@in_turn("noise", [0.01, 1.0])
def test_answers_that_say_the_same(num_pairs, noise) -> None:
    """Half of the error or all of it; its own error is that of the draws."""
    model = neighbours(num_pairs, noise)
    diagnostics = model.diagnostics()
    covar = model.prior().covar.detach()
    values, vectors = torch.linalg.eigh(covar)
    root = vectors * values.clamp_min(0.0).sqrt()
    generator = torch.Generator().manual_seed(1)
    white = torch.randn(2 * num_pairs, 400_000, generator=generator, dtype=torch.double)
    f = root @ white
    weights = log_win(f[:num_pairs] - f[num_pairs:], noise).sum(0).exp()
    truth = weights.mean().log()
    slack = 4 * weights.std() / weights.mean() / len(weights) ** 0.5
    error, stated = truth - diagnostics["log_evidence"], diagnostics["evidence_error"]
    assert 0.5 * (error - slack) < stated < error + slack


def test_an_exact_evidence_is_not_that_of_expectation_propagation() -> None:
    """Three Gaussian rows are positive with a probability in closed form."""
    ep = neighbours(3, 0.01)
    rows, covar = ep.factors().rows.dense(), ep.prior().covar.detach()
    row_covariance = rows @ covar @ rows.mT + 0.02 * torch.eye(3).double()
    deviation = row_covariance.diagonal().sqrt()
    angles = (row_covariance / deviation / deviation.unsqueeze(-1)).triu(1).asin().sum()
    truth = torch.log(1 / 8 + angles / (4 * math.pi))
    assert truth - ep.diagnostics()["log_evidence"] > 0.1
    exact = SkewPreferenceGP(
        ep.datapoints,
        ep.train_targets,
        covar_module=ep.covar_module,
        likelihood=ep.likelihood,
        exact_evidence=True,
    )
    diagnostics = exact.diagnostics()
    assert abs(diagnostics["log_evidence"] - truth) < 0.02
    assert "evidence_error" not in diagnostics


def test_third_cumulants_by_quadrature() -> None:
    """The sum over pairs of rows, of tilted distributions on a fine grid."""
    noise, tied, num_pairs = 0.05, 1, 5
    model = neighbours(num_pairs, noise, tied)
    stated = model.diagnostics()["evidence_error"].item()
    solution = model.solution()
    rows, (tau, nu) = solution.factor.rows.dense(), solution.sites
    prior = rows @ solution.prior.covar.detach() @ rows.mT
    gain = torch.linalg.solve(prior + torch.diag(1 / tau), prior)
    covariance = prior - prior @ gain
    mean, variance = covariance @ nu, covariance.diagonal()
    cavity = 1 / (1 / variance - tau)
    cavity_mean = cavity * (mean / variance - nu)
    grid = torch.linspace(-12, 12, 20_001, dtype=torch.double)
    skewness = []
    for i in range(num_pairs):
        z = cavity_mean[i] + cavity[i].sqrt() * grid
        # Comparisons have their pairs before their ties.
        is_tie = i >= num_pairs - tied
        log_likelihood = log_tie(z, noise) if is_tie else log_win(z, noise, THRESHOLD)
        log_density = log_likelihood - grid**2 / 2
        weight = (log_density - log_density.max()).exp()
        weight = weight / weight.sum()
        apart = z - (weight * z).sum()
        second, third = ((weight * apart**k).sum() for k in (2, 3))
        assert second.item() == pytest.approx(variance[i].item(), rel=1e-5)
        skewness.append(third / second**1.5)
    gamma, deviation = torch.stack(skewness), variance.sqrt()
    correlation = covariance / deviation / deviation.unsqueeze(-1)
    of_all = gamma * gamma.unsqueeze(-1) * correlation**3
    expected = (of_all.sum() - of_all.diagonal().sum()) / 12
    assert abs(expected) > 1e-3
    assert stated == pytest.approx(expected.item(), rel=1e-4)


def test_one_answer_has_no_error() -> None:
    assert abs(neighbours(1, 0.01).diagnostics()["evidence_error"].item()) < 1e-14


def test_nor_has_the_same_answer_many_times_beside_other_answers() -> None:
    """The other element of the batch has three rows, of which this one has one."""
    points = torch.linspace(0, 1, 4, dtype=torch.double).view(4, 1).expand(2, 4, 1)
    pairs = torch.tensor([[[0, 1], [1, 2], [2, 3]], [[0, 1]] * 3])
    error = EPPreferenceGP(points, pairs).diagnostics()["evidence_error"]
    assert abs(error[1].item()) < 1e-14 < abs(error[0].item())
