"""Gradients of SkewGP's posterior in the points of its answers, against the truth.

    python benchmarks/conditioned_gradients.py

Prints, for 30 answers with human noise, how far the gradients of a mean and of a
variance at a new point are from the truth, relative to its norm, with 1,024 and with
20,000 draws; and the same of an unbiased estimate, the score function, with as many
draws. The truth is the score function on long runs of `reference_posterior`, and its
two halves say how well it is known.
"""

from __future__ import annotations

import torch
from known_models import known_kernel
from reference_posterior import long_rows
from report import print_table, start
from synthetic_problems import NOISES, ComparisonProblem, synthetic_comparisons
from torch import Tensor

from botorch_pref import PairwiseProbitLikelihood, SkewPreferenceGP

ANSWERS = 30
DRAWS = (1024, 20_000)
TRUE_DRAWS = 400_000
SEEDS = (0, 1, 2)


def new_point() -> Tensor:
    """Point where mean and variance are wanted, ``1 x d``."""
    generator = torch.Generator().manual_seed(1)
    return torch.rand(1, 6, generator=generator, dtype=torch.float64)


def by_flow(problem: ComparisonProblem, draws: int, seed: int) -> list[Tensor]:
    """Gradients of SkewGP, of the mean and of the variance.

    Args:
        problem: Its data.
        draws: How many the model takes.
        seed: Of the draws.
    """
    points = problem.points.clone().requires_grad_(True)
    model = SkewPreferenceGP(
        points,
        problem.pairs,
        likelihood=PairwiseProbitLikelihood(problem.noise),
        covar_module=known_kernel(problem),
        num_draws=draws,
        seed=seed,
    )
    posterior = model.eval().posterior(new_point())
    values = posterior.mean.sum(), posterior.variance.sum()
    return [torch.autograd.grad(v, points, retain_graph=True)[0] for v in values]


def by_score(problem: ComparisonProblem, rows: Tensor) -> list[Tensor]:
    """The same by the score function of draws of the rows.

    Args:
        problem: Its data.
        rows: ``s x m`` draws of ``v`` given the answers.
    """
    points = problem.points.clone().requires_grad_(True)
    moved = ComparisonProblem(points, problem.pairs, problem.noise, problem.lengthscale)
    winner, loser = problem.pairs.unbind(-1)
    cross = moved.kernel(new_point(), points)
    cross = cross[:, winner] - cross[:, loser]
    covariance = moved.row_covariance()
    law = torch.distributions.MultivariateNormal(
        rows.new_zeros(rows.shape[1]), covariance
    )
    weights = _shares(law.log_prob(rows))
    gain = torch.linalg.solve(covariance, cross.mT).squeeze(-1)
    means = rows @ gain
    mean = weights @ means
    left = 1 - (cross @ gain).squeeze(-1)
    variance = weights @ (means - mean).square() + left.sum()
    return [
        torch.autograd.grad(v, points, retain_graph=True)[0] for v in (mean, variance)
    ]


def _shares(log_density: Tensor) -> Tensor:
    """Equal weights, which move as the density does."""
    return (log_density - log_density.detach()).softmax(0)


def off(found: list[Tensor], truth: list[Tensor]) -> list[float]:
    """Relative errors of both gradients, in percent."""
    return [
        100 * float((mine - true).norm() / true.norm())
        for mine, true in zip(found, truth, strict=True)
    ]


def main() -> None:
    """Prints the table."""
    start(f"gradients in the points of {ANSWERS} answers, percent off")
    problem = synthetic_comparisons(ANSWERS, NOISES["human"], seed=0)
    rows = long_rows(problem, TRUE_DRAWS, seed=0)
    truth = by_score(problem, rows)
    halves = [by_score(problem, half) for half in rows.chunk(2)]
    table: list[list[object]] = [["half of the truth, to the other", *off(*halves)]]
    other = long_rows(problem, max(DRAWS) * len(SEEDS), seed=1)
    for draws in DRAWS:
        few = [other[i * draws : (i + 1) * draws] for i in range(len(SEEDS))]
        ways = {
            "SkewGP": [by_flow(problem, draws, seed) for seed in SEEDS],
            "score function": [by_score(problem, rows) for rows in few],
        }
        for name, runs in ways.items():
            errors = torch.tensor([off(run, truth) for run in runs]).mean(0).tolist()
            table.append([f"{name}, {draws} draws", *errors])
    print_table(["gradient", "of a mean", "of a variance"], table)


if __name__ == "__main__":
    main()
