"""Answers that are far more precise than the prior, and how far an engine is off."""

import random
from collections.abc import Callable
from typing import Any, NamedTuple

import mpmath as mp
import torch
from torch import Tensor
from truths import many_digits

from botorch_pref.inference import GaussianSolution
from botorch_pref.likelihoods.factors import BoxFactors
from botorch_pref.linalg import SparseDesign

Engine = Callable[[Tensor, Tensor, BoxFactors], GaussianSolution]
# Points and rows; where rows outnumber points they are solved in another space.
SIZES = {"one level": (1, 1), "levels": (5, 4), "near-copies": (4, 3),
         "contradictory levels": (2, 6), "ties": (3, 5), "wins": (4, 5)}  # fmt: skip


class Problem(NamedTuple):
    """A prior of utilities at points of answers and one more, and boxed answers."""

    covar: Tensor
    mean: Tensor
    factors: BoxFactors


class Errors(NamedTuple):
    """Errors of a posterior, at the worst point, and of its log evidence."""

    mean_in_deviations: float
    variance_share: float
    log_evidence: float


def problem(name: str, ratio: float, dtype: torch.dtype, seed: int = 1) -> Problem:
    """Makes answers heard with unit noise.

    Args:
        name: Of ``SIZES``.
        ratio: The output scale, so that of prior variance to noise.
        dtype: Of all numbers.
        seed: Of points and answers.
    """
    num_points, num_rows = SIZES[name]
    draw = random.Random(seed)
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(num_points + 1, 1, generator=generator, dtype=torch.float64)
    if name == "near-copies":
        x[1] = x[0] + 1e-4
    covar = ratio * torch.exp(-2 * (x - x.mT).square())
    values, vectors = torch.linalg.eigh(covar)
    normal = torch.randn(num_points + 1, generator=generator, dtype=torch.float64)
    utility = vectors @ (values.clamp_min(0).sqrt() * normal)
    rows, lower, upper = [], [], []
    differences = name in ("ties", "wins")
    for i in range(num_rows):
        a, b = (
            draw.sample(range(num_points), 2) if differences else [i % num_points] * 2
        )
        rows.append([a, b])
        truth = utility[a] - utility[b] if differences else utility[a]
        value = truth.item() + draw.gauss(0, 1)
        width, share = draw.choice([0.3, 1.0, 3.0]), draw.random()
        if name == "wins":
            lower.append(0.0 if value > 0 else -torch.inf)
            upper.append(torch.inf if value > 0 else 0.0)
        else:
            lower.append(value - width * share)
            upper.append(value + width * (1 - share))
    signs = torch.tensor([1.0, -1.0 if differences else 0.0], dtype=dtype)
    design = SparseDesign(torch.tensor(rows), signs.expand(num_rows, 2), num_points)
    factors = BoxFactors(
        design,
        torch.full((num_rows,), 2.0 if differences else 1.0, dtype=dtype),
        torch.tensor(lower, dtype=dtype),
        torch.tensor(upper, dtype=dtype),
    )
    mean = torch.full((num_points,), 0.3 * ratio**0.5, dtype=dtype)
    return Problem(covar.to(dtype), mean, factors)


def solve(engine: Engine, problem: Problem) -> GaussianSolution:
    """Returns what the engine finds."""
    return engine(problem.covar[:-1, :-1], problem.mean, problem.factors)


def errors(problem: Problem, solution: GaussianSolution, by: str) -> Errors:
    """Computes how far a result is from that of the same engine in many digits.

    Args:
        problem: The problem.
        solution: What the engine made of it.
        by: ``"ep"`` or ``"laplace"``.
    """
    factors = problem.factors
    eye = torch.eye(factors.rows.num_points, dtype=problem.covar.dtype)
    with mp.workdps(many_digits.DIGITS):
        covar = many_digits.exact(problem.covar)
        design = many_digits.exact(factors.rows.apply_matrix(eye))
        inner, size = covar[: eye.shape[0], : eye.shape[0]], eye.shape[0]
        rows = design * inner * design.T
        prior = list(design * mp.matrix(many_digits.exact(problem.mean)))
        ends = [
            many_digits.exact(v)
            for v in (factors.lower, factors.upper, factors.variance)
        ]

        def partition(i: int, mean: Any, variance: Any) -> Any:
            return many_digits.box_partition(*(e[i] for e in ends), mean, variance)

        if by == "ep":
            start = solution.sites
            sites = [many_digits.exact(v) for v in start]
            truth = many_digits.expectation_propagation(rows, prior, partition, *sites)
        else:
            weights = mp.matrix(many_digits.exact(solution.weights))
            truth = many_digits.laplace(
                rows,
                prior,
                lambda i, z: partition(i, z, mp.mpf(0)),
                list(design * (inner * weights)),
            )
        cross = covar[:, :size]
        variances = [covar[i, i] for i in range(covar.rows)]
        want = many_digits.predict(truth, rows, design, cross, variances)
        got = cross * mp.matrix(many_digits.exact(solution.terms.weights[:, 0]))
        mean = max(abs(g - m) / mp.sqrt(v) for g, m, v in zip(got, *want, strict=True))
        spread = problem.covar[:, :size] @ solution.terms.root
        variance = problem.covar.diagonal() - spread.square().sum(-1)
        share = max(
            abs(g / v - 1)
            for g, v in zip(many_digits.exact(variance), want.variance, strict=True)
        )
        evidence = abs(mp.mpf(solution.log_evidence.item()) - truth.log_evidence)
        return Errors(float(mean), float(share), float(evidence))
