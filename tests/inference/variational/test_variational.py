"""The variational posterior and its lower bound, against brute force."""

import itertools
import math

import numpy as np
import pytest
import torch
from torch.nn.functional import logsigmoid
from truths.engines import solver_of, variational

from botorch_pref.errors import UnsupportedFeedbackError
from botorch_pref.feedback import Choices, Comparisons, Rankings, Validity
from botorch_pref.inference import VariationalBound
from botorch_pref.inference.lower_bounds import bound_of
from botorch_pref.inference.variational import BoundStep, ascend, bound_problem
from botorch_pref.likelihoods import (
    AffineProbitLikelihood,
    PairwiseLogitLikelihood,
    PlackettLuceLikelihood,
)
from botorch_pref.likelihoods.factors import joint_factors

DOUBLE = torch.float64
N = 4
PAIRS = torch.tensor([[0, 1], [2, 1], [3, 2], [0, 1]])
SETS = Choices(torch.tensor([[0, 1, 2, -1], [3, 2, 1, 0], [1, 3, -1, -1]]),
               torch.tensor([2, 3, 1]))  # fmt: skip
ORDERS = Rankings(torch.tensor([[2, 0, 1, 3], [3, 2, 0, -1]]))
POINTS = torch.tensor([[0.0], [0.3], [0.8], [1.0]], dtype=DOUBLE)
MEAN = torch.tensor([0.2, -0.4, 0.0, 0.7], dtype=DOUBLE)
ANSWERS = {
    "pairs": [Comparisons(PAIRS)],
    "sets": [SETS],
    "rankings": [ORDERS],
    "all": [Comparisons(PAIRS), SETS, ORDERS],
}
each_answers = pytest.mark.parametrize("blocks", ANSWERS.values(), ids=ANSWERS.keys())
each_scale = pytest.mark.parametrize("scale", [0.5, 1000.0])


def covariance(scale=4.0, points=POINTS):
    return scale * torch.exp(-0.5 * ((points - points.mT) / 0.5).square())


def factors_of(blocks, dtype=DOUBLE):
    parts = []
    for block in blocks:
        pairs = isinstance(block, Comparisons)
        likelihood = PairwiseLogitLikelihood() if pairs else PlackettLuceLikelihood()
        parts.append(likelihood.to(dtype).factors(block, N))
    return joint_factors(parts)


def stages_of(blocks):
    """Lists every choice, the chosen item first."""
    stages = []
    for block in blocks:
        table = block.pairs if isinstance(block, Comparisons) else block.stages()
        stages += [[i for i in row if i >= 0] for row in table.tolist()]
    return stages


def log_likelihood(stages, f):
    """Computes log likelihoods, ``... x n`` to ``...``."""
    total = torch.zeros(f.shape[:-1], dtype=DOUBLE)
    for stage in stages:
        total = total + f[..., stage[0]] - torch.logsumexp(f[..., stage], -1)
    return total


def posterior(covar, mean, result):
    explained = covar @ result.factor.root()
    return mean + covar @ result.weights, covar - explained @ explained.mT


def lam(xi):
    return torch.tanh(xi / 2) / (4 * xi)


def bouchard_alpha(mu, v):
    """Equations 22 and 23 in turn until nothing moves."""
    alpha = mu.mean()
    for _ in range(20_000):
        xi, old = (v + (mu - alpha).square()).sqrt(), alpha
        alpha = ((len(mu) - 2) / 4 + (lam(xi) * mu).sum()) / lam(xi).sum()
        if (alpha - old).abs() < 1e-13:
            break
    return alpha, (v + (mu - alpha).square()).sqrt()


def equations_17_to_25(blocks, covar, mean, mu, s):
    """Takes one turn of algorithm 1 in dense matrices: bound, mean and covariance."""
    identity = torch.eye(N, dtype=DOUBLE)
    prior = torch.linalg.inv(covar)
    precision, linear = prior.clone(), prior @ mean
    constants = torch.zeros((), dtype=DOUBLE)
    for stage in stages_of(blocks):
        if len(stage) == 2:
            x = identity[stage[0]] - identity[stage[1]]
            zeta = (x @ (s + torch.outer(mu, mu)) @ x).sqrt()
            precision += 2 * lam(zeta) * torch.outer(x, x)
            linear += x / 2
            constants += logsigmoid(zeta) - zeta / 2 + lam(zeta) * zeta**2
        else:
            alpha, xi = bouchard_alpha(mu[stage], s.diagonal()[stage])
            linear += identity[stage[0]]
            for j, xi_j in zip(stage, xi, strict=True):
                precision += 2 * lam(xi_j) * torch.outer(identity[j], identity[j])
                linear += (2 * lam(xi_j) * alpha - 0.5) * identity[j]
                constants += logsigmoid(xi_j) - xi_j / 2
                constants += lam(xi_j) * (xi_j**2 - alpha**2)
            constants += (len(stage) - 2) * alpha / 2
    s = torch.linalg.inv(precision)
    mu = s @ linear
    value = constants + 0.5 * (torch.logdet(s) - torch.logdet(covar))
    return value + 0.5 * (mu @ precision @ mu - mean @ prior @ mean), mu, s


@each_answers
@each_scale
def test_the_fixed_point_is_that_of_algorithm_1(blocks, scale) -> None:
    covar = covariance(scale)
    result = variational(covar, MEAN, factors_of(blocks))
    mu, s = posterior(covar, MEAN, result)
    value, next_mu, next_s = equations_17_to_25(blocks, covar, MEAN, mu, s)
    assert result.converged
    # The inverse of the prior is good to eps times its condition.
    close = {"rtol": 1e-6, "atol": 1e-7 * math.sqrt(scale)}
    torch.testing.assert_close(mu, next_mu, **close)
    torch.testing.assert_close(s, next_s, **close)
    torch.testing.assert_close(result.log_evidence, value, rtol=1e-9, atol=1e-9)


@each_answers
@pytest.mark.parametrize("scale", [0.05, 0.5, 4.0])
def test_the_bound_is_below_the_evidence(blocks, scale) -> None:
    covar = covariance(scale)
    x, w = (torch.tensor(t) for t in np.polynomial.hermite_e.hermegauss(14))
    grid = torch.cartesian_prod(*[x] * N)
    weight = torch.cartesian_prod(*[w / w.sum()] * N).prod(-1)
    f = MEAN + grid @ torch.linalg.cholesky(covar).mT
    truth = (weight * log_likelihood(stages_of(blocks), f).exp()).sum().log()
    bound = variational(covar, MEAN, factors_of(blocks)).log_evidence
    assert bound < truth
    # Jaakkola and Jordan's bound is good to second order in the prior variance of a
    # difference; Bouchard's loses even without any, at most log(4 / e) for three.
    if blocks is ANSWERS["pairs"]:
        assert truth - bound < 0.02 * len(PAIRS) * scale


@each_answers
@each_scale
def test_the_bound_never_falls(blocks, scale) -> None:
    covar, factors = covariance(scale), factors_of(blocks)
    bound = bound_of(factors)
    problem = bound_problem(bound, MEAN, covar)
    # A poor start, so that there is a way to go.
    start = torch.full((bound.num_parameters,), 3.0, dtype=DOUBLE)
    steps = list(ascend(problem, start, 1e-7))
    values = torch.stack([step.value for step in steps])
    # Means of rows are differences of numbers as large as their prior variances.
    size = 20 * (1 + values.abs().max()) + problem.solver.variance.max()
    rounding = torch.finfo(DOUBLE).eps * size
    assert len(values) >= 4
    assert bool((values.diff() >= -rounding).all())
    for step, after in itertools.pairwise(steps):
        assert step.gain >= -rounding
        assert after.value >= step.value + step.gain - rounding


@pytest.mark.slow
def test_newton_steps_that_lower_the_bound_are_not_taken(monkeypatch) -> None:
    """With steps in the wrong direction what is left is algorithm 1."""
    covar, factors = covariance(), factors_of(ANSWERS["pairs"])
    want = variational(covar, MEAN, factors)
    right = BoundStep.newton_step.func
    wrong = property(lambda step: -3 * right(step))
    monkeypatch.setattr(BoundStep, "newton_step", wrong)
    got = variational(covar, MEAN, factors)
    # Steps that lower the bound by less than its rounding cannot be told to be wrong.
    assert got.residual <= 1e-5
    assert got.iterations > want.iterations
    torch.testing.assert_close(got.log_evidence, want.log_evidence, rtol=0, atol=1e-9)


def test_duplicates_and_warm_starts() -> None:
    covar = covariance(points=POINTS[[0, 1, 1, 3]])
    factors = factors_of(ANSWERS["all"])
    cold = variational(covar, MEAN, factors)
    warm = variational(covar, MEAN, factors, cold.sites)
    assert cold.converged
    assert warm.iterations == 1
    torch.testing.assert_close(warm.log_evidence, cold.log_evidence)
    merged = factors_of(ANSWERS["all"])
    for block in merged.blocks:
        block.reindex(torch.tensor([0, 1, 1, 2]), 3)
    merged = joint_factors(merged.blocks)
    keep = [0, 1, 3]
    same_mean = MEAN.clone()
    same_mean[2] = same_mean[1]
    large = variational(covar, same_mean, factors)
    small = variational(covar[keep][:, keep], same_mean[keep], merged)
    torch.testing.assert_close(small.log_evidence, large.log_evidence)
    torch.testing.assert_close(
        posterior(covar[keep][:, keep], same_mean[keep], small)[0],
        posterior(covar, same_mean, large)[0][keep],
    )


@pytest.mark.parametrize("scale", [4.0, 1e4])
def test_single_precision_agrees_with_double(scale) -> None:
    """Also along the level of all utilities, which sets leave to a wide prior."""
    covar, mean = covariance(scale).float(), MEAN.float()
    single = variational(covar, mean, factors_of(ANSWERS["sets"], torch.float32))
    covar, mean = covar.double(), mean.double()
    double = variational(covar, mean, factors_of(ANSWERS["sets"]))
    assert single.converged
    assert single.log_evidence.dtype == single.terms.weights.dtype == torch.float32
    posteriors = [posterior(covar, mean, result) for result in (single, double)]
    deviation = posteriors[1][1].diagonal().sqrt()
    assert (
        float(((posteriors[0][0] - posteriors[1][0]) / deviation).abs().max()) <= 1e-6
    )
    evidence = single.log_evidence.double()
    torch.testing.assert_close(evidence, double.log_evidence, rtol=1e-7, atol=0)


def test_unfinished_ascents_say_so() -> None:
    solve = solver_of(VariationalBound(max_iterations=2), "two turns")
    result = solve(covariance(1e4), MEAN, factors_of(ANSWERS["all"]))
    assert not result.converged
    assert result.residual > 1e-7
    assert result.iterations == 2


def test_other_factors_are_refused() -> None:
    validity = Validity(torch.tensor([0]), torch.tensor([True]))
    factors = AffineProbitLikelihood().double().factors(validity, N)
    with pytest.raises(UnsupportedFeedbackError, match="BoxFactors has no Gaussian"):
        variational(covariance(), MEAN, factors)
