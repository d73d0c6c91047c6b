"""The motion of solutions with the prior, against solving anew for a moved prior."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from truths.engines import expectation_propagation, laplace, variational

from botorch_pref.inference import UtilityPrior
from botorch_pref.inference.gaussian import GaussianSolution, GaussianTangent
from botorch_pref.likelihoods.beta import BetaFactors
from botorch_pref.likelihoods.factors import (
    BoxFactors,
    CorrelatedBoxFactors,
    Factors,
    joint_factors,
)
from botorch_pref.likelihoods.logit import LogitFactors, PlackettLuceFactors
from botorch_pref.linalg.sparse_design import NoiseBlocks, pair_rows

DOUBLE = torch.float64
POINTS = 5
LIKE = torch.ones((), dtype=DOUBLE)


def random(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=DOUBLE)


def pairs(m: int, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    drawn = [torch.randperm(POINTS, generator=generator)[:2] for _ in range(m)]
    return torch.stack(drawn)


def boxes(m: int) -> BoxFactors:
    """Wins, ties and, last, one interval far out in the tail."""
    lower = torch.zeros(m, dtype=DOUBLE)
    upper = torch.full((m,), torch.inf, dtype=DOUBLE)
    lower[1], upper[1] = -0.3, 0.4
    lower[-1] = 4.0
    variance = 0.3 + 0.2 * random(m, seed=2).square()
    return BoxFactors(pair_rows(pairs(m), POINTS, LIKE), variance, lower, upper)


def correlated(m: int) -> CorrelatedBoxFactors:
    """Boxed rows of which the first three, and two others, share noise."""
    b = boxes(m)
    root = random(2, 3, 3, seed=3) * torch.tensor([[[1.0]], [[0.5]]])
    root[1, 2] = 0
    noise = NoiseBlocks(torch.tensor([[0, 1, 2], [3, 4, m]]), root @ root.mT, m)
    return CorrelatedBoxFactors(b.rows, b.variance, b.lower, b.upper, noise=noise)


def logits(m: int) -> LogitFactors:
    return LogitFactors(pair_rows(pairs(m), POINTS, LIKE))


def betas(m: int) -> BetaFactors:
    answers = torch.sigmoid(2.0 * random(m, seed=4))
    rows = pair_rows(pairs(m), POINTS, LIKE)
    return BetaFactors(rows, answers, LIKE * 6.0, LIKE * 0.4)


def sets(m: int) -> PlackettLuceFactors:
    stages = torch.tensor([[0, 1, 2, 3], [2, 4, -1, -1], [4, 1, 0, -1]])
    return PlackettLuceFactors(stages[: 3 if m > POINTS else 1], POINTS, LIKE)


def mixed(m: int) -> Factors:
    return joint_factors([logits(m), sets(m)])


def several(m: int) -> Factors:
    return joint_factors([correlated(5), logits(2), betas(m - 4)])


Engine = Callable[..., GaussianSolution]
KINDS = [
    *[(laplace, kind) for kind in (boxes, logits, betas, sets, mixed)],
    *[(expectation_propagation, kind) for kind in (boxes, correlated, logits, betas)],
    (expectation_propagation, several),
    *[(variational, kind) for kind in (logits, sets, mixed)],
]


def terms(result: GaussianSolution) -> tuple[Tensor, Tensor]:
    return result.weights, result.factor.precision()


def prior(*batch: int) -> tuple[Tensor, Tensor]:
    root = random(*batch, POINTS, POINTS, seed=6)
    return root @ root.mT + 0.1 * torch.eye(POINTS), random(*batch, POINTS, seed=7)


def differences(function: Callable[[float], Any], step: float = 1e-3) -> list[Tensor]:
    """Derivatives at zero from four values: errors of the fourth power of the step."""
    far = [function(k * step) for k in (-2, -1, 1, 2)]
    return [
        (a - 8 * b + 8 * c - d) / (12 * step) for a, b, c, d in zip(*far, strict=True)
    ]


def assert_moves_as_solutions_do(
    engine: Engine, factors: Factors, covar: Tensor, mean: Tensor
) -> None:
    half = random(*covar.shape, seed=8)
    by_covar, by_mean = half + half.mT, random(*mean.shape, seed=9)

    def solve(t: float) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            result = engine(covar + t * by_covar, mean + t * by_mean, factors)
        assert result.converged
        return terms(result)

    with torch.no_grad():
        motion = GaussianTangent(mean, engine(covar, mean, factors))
    t = torch.zeros((), dtype=DOUBLE, requires_grad=True)
    points = mean.unsqueeze(-1)
    moved = UtilityPrior(points, mean + t * by_mean, covar + t * by_covar)
    change = motion(moved)
    assert not change.weights.any()
    assert not change.precision.any()
    expected = differences(solve)
    for values, truth in zip(
        (change.weights.squeeze(-1), change.precision), expected, strict=True
    ):
        for seed in range(3):
            probe = random(*truth.shape, seed=seed) / truth.norm()
            (slope,) = torch.autograd.grad((probe * values).sum(), t, retain_graph=True)
            # Engines stop within 1e-7 deviations, over a step of 1e-3.
            torch.testing.assert_close(slope, (probe * truth).sum(), rtol=0, atol=2e-5)


@pytest.mark.parametrize(("m", "batch"), [(5, (2,)), (9, ())], ids=["rows", "points"])
@pytest.mark.parametrize(
    ("engine", "kind"), KINDS, ids=lambda value: str(value.__name__)
)
def test_motion_is_that_of_solutions(
    engine: Engine, kind: Callable[[int], Factors], m: int, batch: tuple[int, ...]
) -> None:
    assert_moves_as_solutions_do(engine, kind(m), *prior(*batch))


@pytest.mark.parametrize("engine", [laplace, expectation_propagation])
def test_motion_of_sites_with_negative_precisions(engine: Engine) -> None:
    # Answers that a narrow prior does not believe bend the log likelihood up.
    factors, (covar, mean) = betas(9), prior()
    with torch.no_grad():
        result = engine(0.02 * covar, mean, factors)
    assert (result.sites.precision < 0).any()
    assert_moves_as_solutions_do(engine, factors, 0.02 * covar, mean)
