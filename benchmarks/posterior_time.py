"""Posteriors after the fit, in units of the least that prediction could cost.

    python benchmarks/posterior_time.py

Prints mean and variance at 512 x 2 points for each engine and size. The unit is one
kernel evaluation between the 1,024 new points and the n training points
plus one n x n triangular solve for them: what an exact Gaussian process regression on
the same points pays.
"""

from __future__ import annotations

import torch
from botorch.models.pairwise_gp import PairwiseGP
from known_models import fresh_mll, known_kernel, known_model
from report import fastest, print_table, start
from synthetic_problems import DIMENSION, ComparisonProblem, synthetic_comparisons
from torch import Tensor

from botorch_pref import EPPreferenceGP, LaplacePreferenceGP, SkewPreferenceGP

SIZES = (100, 300, 1000)
PAIRWISE_GP_SIZES = (100, 300)
BATCH, Q = 512, 2
REPEATS = 5
TO_REACH = 2.0
MODELS = {
    "Laplace": LaplacePreferenceGP,
    "EP": EPPreferenceGP,
    "SkewGP, 1,024 draws": SkewPreferenceGP,
}


@torch.no_grad()
def unit_seconds(problem: ComparisonProblem, x: Tensor) -> float:
    """Seconds of one kernel evaluation plus one triangular solve.

    Args:
        problem: Training points and kernel.
        x: The new points, ``batch x q x d``.
    """
    kernel, points = known_kernel(problem), problem.points
    flat = x.reshape(-1, DIMENSION)
    covariance = kernel(points).to_dense() + 1e-4 * torch.eye(len(points)).to(points)
    cholesky = torch.linalg.cholesky(covariance)

    def least() -> Tensor:
        cross = kernel(points, flat).to_dense()
        return torch.linalg.solve_triangular(cholesky, cross, upper=False)

    return fastest(least, REPEATS)


@torch.no_grad()
def posterior_seconds(
    model: PairwiseGP | EPPreferenceGP, x: Tensor, repeats: int
) -> float:
    """Seconds of mean and variance at the new points, the model being solved.

    Args:
        model: After the fit.
        x: The new points, ``batch x q x d``.
        repeats: How many calls the fastest is taken of.
    """
    model.eval()

    def predict() -> tuple[Tensor, Tensor]:
        posterior = model.posterior(x)
        return posterior.mean, posterior.variance

    return fastest(predict, repeats)


def main() -> None:
    """Prints the table."""
    start(f"posterior mean and variance at {BATCH} x q = {Q} points after the fit")
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(BATCH, Q, DIMENSION, generator=generator, dtype=torch.float64)
    rows = []
    for num_pairs in SIZES:
        problem = synthetic_comparisons(num_pairs, 0.25, seed=0)
        unit = unit_seconds(problem, x)
        theirs: object = "not run"
        if num_pairs in PAIRWISE_GP_SIZES:
            pairwise_gp = fresh_mll(PairwiseGP, problem).model
            theirs = posterior_seconds(pairwise_gp, x, repeats=1) / unit
        for name, model_class in MODELS.items():
            model = known_model(model_class, problem)
            taken = posterior_seconds(model, x, REPEATS)
            rows.append([num_pairs, name, taken, unit, taken / unit, TO_REACH, theirs])
    print_table(
        ["m", "model", "seconds", "unit", "units", "to reach", "PairwiseGP, units"],
        rows,
    )


if __name__ == "__main__":
    main()
