"""Draws of the latent rows against quadrature, rejection and Gibbs sampling."""

import math

import pytest
import torch
from draws import seeded

from botorch_pref.inference.skew.coordinates import Target, box_log_ratio
from botorch_pref.inference.skew.sampler import sample_latent
from botorch_pref.numerics.normal import interval_derivatives, sample_truncated_normal

INF = math.inf


def tensor(values, dtype=torch.float64):
    return torch.tensor(values, dtype=dtype)


def moment_matching(root, variance, lower, upper, sweeps=60):
    """Runs a small EP on the rows, damped: mean, root, shifts and precisions."""
    precision = torch.full_like(variance, 1e-3)
    shift = torch.zeros_like(variance)
    eye = torch.eye(root.shape[-1], dtype=root.dtype)
    for _ in range(sweeps):
        cholesky = torch.linalg.cholesky(
            eye + root.mT @ (precision.unsqueeze(-1) * root)
        )
        half = torch.linalg.solve_triangular(cholesky, root.mT, upper=False).mT
        mean = (half @ (half.mT @ shift.unsqueeze(-1))).squeeze(-1)
        marginal = half.square().sum(-1)
        cavity = 1 / (1 / marginal - precision)
        centre = cavity * (mean / marginal - shift)
        scale = (cavity + variance).sqrt()
        _, first, second, _ = interval_derivatives(
            (lower - centre) / scale, (upper - centre) / scale
        )
        first, second = -first / scale, second / scale.square()
        new_precision = -second / (1 + cavity * second)
        new_shift = (first - second * centre) / (1 + cavity * second)
        precision = 0.5 * (precision + new_precision)
        shift = 0.5 * (shift + new_shift)
    return mean, half, shift, precision


def sample_boxes(root, variance, lower, upper, num_draws):
    mean, half, shift, precision = moment_matching(root, variance, lower, upper)
    ratio = box_log_ratio(variance, lower, upper, shift, precision)
    target = Target(ratio, mean, half)
    return sample_latent(target, num_draws=num_draws, generator=seeded())


def assert_same_moments(draws, truth, draws_size, truth_size) -> None:
    """Compares means and deviations of rows, by 5 standard errors of both samples."""
    deviation = truth.std(0)
    error = deviation * math.sqrt(1 / draws_size + 1 / truth_size)
    assert ((draws.mean(0) - truth.mean(0)).abs() < 5 * error).all()
    # Near-normal rows: the standard error of a deviation is that of a mean / sqrt 2;
    # skew ones have up to twice that.
    assert ((draws.std(0) - deviation).abs() < 5 * 2**0.5 * error).all()


@pytest.mark.slow
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_three_rows_against_rejection(rank) -> None:
    """A win, a tie and an upper bound on rows that share one to three directions.

    Rank one moves in whitened coordinates, the others in those of the rows.
    """
    root = torch.randn(3, rank, generator=seeded(1), dtype=torch.float64)
    variance = tensor([0.5, 0.2, 0.3])
    lower, upper = tensor([0.0, -0.5, -INF]), tensor([INF, 0.5, 0.3])
    white = torch.randn(300_000, rank, generator=seeded(2), dtype=torch.float64)
    z = white @ root.mT
    noise = torch.randn(z.shape, generator=seeded(3), dtype=torch.float64)
    v = z + variance.sqrt() * noise
    inside = ((v > lower) & (v < upper)).all(-1)
    result = sample_boxes(root, variance, lower, upper, 30_000)
    assert result.converged
    assert_same_moments(result.draws, z[inside], 15_000, int(inside.sum()))
    boxed = sample_truncated_normal(result.draws, variance, lower, upper, seeded(4))
    assert_same_moments(boxed, v[inside], 15_000, int(inside.sum()))
    # Products tell whether rows are drawn jointly.
    pairs = [(0, 1), (0, 2), (1, 2)]
    for i, j in pairs:
        mine, theirs = boxed[:, i] * boxed[:, j], v[inside][:, i] * v[inside][:, j]
        error = theirs.std() * math.sqrt(1 / 15_000 + 1 / len(theirs))
        assert float((mine.mean() - theirs.mean()).abs()) < 5 * float(error)


def test_far_from_the_prior() -> None:
    """An answer 30 deviations away from what the prior expects."""
    variance, lower, upper = tensor([1.0]), tensor([30.0]), tensor([INF])
    result = sample_boxes(tensor([[1.0]]), variance, lower, upper, 4_000)
    # v = z + e is normal with variance 2 kept above 30, and z given v has mean v / 2
    # and variance 1 / 2; v exceeds 30 by t with density exp(-15 t - t^2 / 4).
    t = torch.linspace(0, 3, 300_001, dtype=torch.float64)
    weight = torch.softmax(-15 * t - t.square() / 4, 0)
    v_mean = 30 + (weight * t).sum()
    v_variance = (weight * (t + 30 - v_mean).square()).sum()
    deviation = (0.5 + 0.25 * v_variance).sqrt()
    z = result.draws[:, 0]
    assert float((z.mean() - 0.5 * v_mean).abs() / deviation) < 5 / math.sqrt(2_000)
    assert float(z.std() / deviation) == pytest.approx(1, abs=5 / math.sqrt(2_000))


def test_a_row_without_variance_stays_put() -> None:
    """Two equal points compared: z is known, and does not spoil the diagnostics."""
    variance, lower, upper = tensor([0.5, 0.5]), tensor([0.0, 0.0]), tensor([INF, INF])
    root = tensor([[1.0], [0.0]])
    ratio = box_log_ratio(variance, lower, upper, tensor([0, 0]), tensor([0, 0]))
    result = sample_latent(
        Target(ratio, tensor([0.0, 0.0]), root), num_draws=500, generator=seeded()
    )
    assert result.converged
    assert (result.draws[:, 1] == 0).all()
