"""The motion of draws behind an exact posterior."""

from dataclasses import replace

import pytest
import torch
from draws import normal
from torch import Tensor
from truths.engines import expectation_propagation

from botorch_pref.inference import UtilityPrior
from botorch_pref.inference.gaussian_solution import GaussianTangent
from botorch_pref.inference.skew.posterior import BoxProblem, SkewResult, SkewTangent
from botorch_pref.likelihoods.factors import BoxFactors
from botorch_pref.linalg import pair_rows

DOUBLE = torch.float64
LIKE = torch.ones((), dtype=DOUBLE)


def prior(n: int, *batch: int) -> tuple[Tensor, Tensor]:
    root = normal(*batch, n, n, seed=1)
    return root @ root.mT + 0.1 * torch.eye(n), normal(*batch, n, seed=2)


def factors(pairs: list[list[int]], n: int) -> BoxFactors:
    m = len(pairs)
    lower, upper = torch.full((m,), 0.2), torch.full((m,), torch.inf)
    upper[::2] = 1.5
    variance = torch.linspace(0.3, 0.8, m, dtype=DOUBLE)
    rows = pair_rows(torch.tensor(pairs), n, LIKE)
    return BoxFactors(rows, variance, lower.double(), upper.double())


def dense(boxes: BoxFactors) -> Tensor:
    n = boxes.rows.num_points
    return boxes.rows.apply_matrix(torch.eye(n, dtype=DOUBLE))


def solve(
    covar: Tensor, mean: Tensor, boxes: BoxFactors, num_draws: int
) -> tuple[SkewResult, SkewTangent, GaussianTangent]:
    """Makes draws with the mean and the covariance of EP, exactly."""
    with torch.no_grad():
        result = expectation_propagation(covar, mean, boxes)
        generator = torch.Generator().manual_seed(3)
        draws = BoxProblem(covar, mean, boxes).sample(result, num_draws, generator)
        a, r = dense(boxes), boxes.variance
        centre = mean @ a.T
        gamma = a @ covar @ a.T + torch.diag(r)
        cavity_ratio = 1 - r * result.sites.precision
        tau, nu = (
            result.sites.precision / cavity_ratio,
            result.sites.shift / cavity_ratio,
        )
        spread = torch.linalg.inv(torch.linalg.inv(gamma) + torch.diag_embed(tau))
        centre = centre + (spread @ (nu - tau * centre).unsqueeze(-1)).squeeze(-1)
        v = draws.truncated.movedim(0, -1)
        v = v - v.mean(-1, keepdim=True)
        root = torch.linalg.cholesky(v @ v.mT / num_draws)
        v = torch.linalg.cholesky(spread) @ torch.linalg.solve(root, v)
        v = v + centre.unsqueeze(-1)
        centred = v - (mean @ a.T).unsqueeze(-1)
        weights = a.T @ torch.linalg.solve(gamma, centred)
        draws = replace(draws, truncated=v.movedim(-1, 0), weights=weights)
        motion = SkewTangent(boxes, mean, result, draws)
        return draws, motion, GaussianTangent(mean, result)


def moved_prior(covar: Tensor, mean: Tensor) -> UtilityPrior:
    """Makes a prior of points that nothing asks for."""
    return UtilityPrior(mean.new_empty(0), mean, covar)


def spread_change(draws: SkewResult, change: Tensor) -> Tensor:
    """Computes the change of the covariance of the weights of the draws."""
    w = draws.weights - draws.weights.mean(-1, keepdim=True)
    half = w @ change.mT / w.shape[-1]
    return half + half.mT


def test_one_answer_in_closed_form() -> None:
    """The moments of a truncated normal, moved."""
    boxes, (covar, mean) = factors([[1, 0]], 3), prior(3)
    root = normal(3, 3, seed=4)
    by_covar, by_mean = root + root.mT, normal(3, seed=5)
    a = torch.tensor([-1.0, 1.0, 0.0], dtype=DOUBLE)
    standard = torch.distributions.Normal(LIKE * 0, LIKE)

    def terms(t: Tensor) -> tuple[Tensor, Tensor]:
        k, m = covar + t * by_covar, mean + t * by_mean
        gamma, prior_mean = a @ k @ a + boxes.variance[0], a @ m
        low, high = (
            (end[0] - prior_mean) / gamma.sqrt() for end in (boxes.lower, boxes.upper)
        )
        mass = standard.cdf(high) - standard.cdf(low)
        at_low, at_high = standard.log_prob(low).exp(), standard.log_prob(high).exp()
        first = (at_low - at_high) / mass
        variance = 1 + (low * at_low - high * at_high) / mass - first.square()
        return a * first / gamma.sqrt(), torch.outer(a, a) * (1 - variance) / gamma

    t = torch.zeros((), dtype=DOUBLE)
    weights, precision = torch.autograd.functional.jacobian(terms, t)
    draws, motion, _ = solve(covar, mean, boxes, 50)
    t.requires_grad_()

    def total(t: Tensor) -> tuple[Tensor, Tensor]:
        change = motion(moved_prior(covar + t * by_covar, mean + t * by_mean))
        assert not change.weights.any()
        assert not change.precision.any()
        moved = change.precision - spread_change(draws, change.weights)
        return change.weights.mean(-1), moved

    actual = torch.autograd.functional.jacobian(total, t)
    # Expectation propagation stops at 1e-7 deviations.
    torch.testing.assert_close(actual, (weights, precision), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("batch", [(), (2,)], ids=["alone", "batch"])
def test_moments_move_as_those_of_expectation_propagation(
    batch: tuple[int, ...],
) -> None:
    pairs = [[0, 1], [1, 2], [4, 3], [0, 3], [2, 0], [3, 1], [4, 2], [4, 2]]
    covar, mean = prior(5, *batch)
    draws, motion, gaussian = solve(covar, mean, factors(pairs, 5), 64)
    root = normal(*covar.shape, seed=6)
    by_covar, by_mean = root + root.mT, normal(*mean.shape, seed=7)

    def total(t: Tensor) -> tuple[Tensor, Tensor]:
        change = motion(moved_prior(covar + t * by_covar, mean + t * by_mean))
        moved = change.precision - spread_change(draws, change.weights)
        return change.weights.mean(-1), moved

    def expected(t: Tensor) -> tuple[Tensor, Tensor]:
        change = gaussian(moved_prior(covar + t * by_covar, mean + t * by_mean))
        return change.weights.squeeze(-1), change.precision

    t = torch.zeros((), dtype=DOUBLE)
    torch.testing.assert_close(
        torch.autograd.functional.jacobian(total, t),
        torch.autograd.functional.jacobian(expected, t),
    )


def test_what_draws_share_moves_as_gaussian_regression() -> None:
    boxes, (covar, mean) = factors([[1, 0], [1, 2]], 3), prior(3)
    _, motion, _ = solve(covar, mean, boxes, 200)
    root = normal(3, 3, seed=6)
    by_covar = root + root.mT

    def shared(t: Tensor) -> Tensor:
        return motion(moved_prior(covar + t * by_covar, mean)).precision

    a = torch.tensor([[-1.0, 1.0, 0.0], [0.0, 1.0, -1.0]], dtype=DOUBLE)

    def regression(t: Tensor) -> Tensor:
        gamma = a @ (covar + t * by_covar) @ a.T + torch.diag(boxes.variance)
        return a.T @ torch.linalg.solve(gamma, a)

    t = torch.zeros((), dtype=DOUBLE)
    torch.testing.assert_close(
        torch.autograd.functional.jacobian(shared, t),
        torch.autograd.functional.jacobian(regression, t),
    )
