"""Effective draws a second of four samplers of the truncated ``v``.

    python benchmarks/sampler_efficiency.py

Prints the effective sample size of the worst row, per second, from a cold start.
Burn-in, and for ours the choice of coordinates, diagnostics and the draws of ``v``,
count as time; the EP solution that ours starts from, which every fit has, is a column
of its own. The others run at their better number of chains of those tried.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from botorch.utils.probability.lin_ess import LinearEllipticalSliceSampler
from known_models import known_model
from report import print_table, seconds, start
from synthetic_problems import NOISES, SIZES, ComparisonProblem, synthetic_comparisons
from torch import Tensor
from truth import exact_hamiltonian, gibbs

from botorch_pref import SkewPreferenceGP
from botorch_pref.inference import (
    ExpectationPropagation,
    GaussianSolution,
    UtilityPrior,
)
from botorch_pref.inference.skew.posterior import BoxProblem
from botorch_pref.inference.skew.sampler import effective_sample_size
from botorch_pref.likelihoods.factors import BoxFactors

NUM_DRAWS = 4096
REPEATS = 3
# Steps to burn in, steps that count, and the numbers of chains that are tried.
GIBBS = (50, 100, (64, 1024))
HAMILTONIAN = (8, 16, (32, 256))
BOTORCH = (200, 600, (1, 64))
OTHERS = ("Gibbs", "Hamiltonian", "BoTorch")
COSTS = ("EP s", "accepted", "kicks")

Sampler = Callable[[Tensor, Tensor, int, torch.Generator], Tensor]


def slices(
    covariance: Tensor, start_at: Tensor, num_steps: int, generator: torch.Generator
) -> Tensor:
    """BoTorch's sampler in the shape of :mod:`truth`; it draws from torch's own seed.

    Args:
        covariance: ``m x m``.
        start_at: ``num_chains x m``; it takes the first for all chains.
        num_steps: Steps of each chain.
        generator: Unused.

    Returns:
        ``num_steps x num_chains x m``.
    """
    del generator
    m = len(covariance)
    sampler = LinearEllipticalSliceSampler(
        inequality_constraints=(
            -torch.eye(m).to(covariance),
            covariance.new_zeros(m, 1),
        ),
        covariance_matrix=covariance,
        interior_point=start_at[0].unsqueeze(-1),
        num_chains=len(start_at),
    )
    return sampler.draw(num_steps).view(num_steps, len(start_at), m)


def effective_per_second(
    sampler: Sampler,
    covariance: Tensor,
    burn_in: int,
    steps: int,
    chain_counts: tuple[int, ...],
) -> float:
    """The better figure over the numbers of chains, all started at ones.

    Args:
        sampler: One of :mod:`truth`, or :func:`slices`.
        covariance: Of ``v``.
        burn_in: Steps left out.
        steps: Steps that count.
        chain_counts: Numbers of chains to try.
    """
    best = 0.0
    for chains in chain_counts:
        generator = torch.Generator().manual_seed(0)
        ones = covariance.new_ones(chains, len(covariance))
        begin = time.process_time()
        draws = sampler(covariance, ones, burn_in + steps, generator)[burn_in:]
        elapsed = time.process_time() - begin
        best = max(best, float(effective_sample_size(draws).min()) / elapsed)
    return best


def boxes(problem: ComparisonProblem) -> BoxFactors:
    """The comparisons as factors.

    Args:
        problem: What was answered.
    """
    model = known_model(SkewPreferenceGP, problem)
    return model.factors()


def ours_per_second(problem: ComparisonProblem) -> tuple[float, float, float, int]:
    """Effective draws a second, seconds of EP, acceptance rate, gradients a step.

    Args:
        problem: What was answered.
    """
    covar, factors = problem.point_covariance(), boxes(problem)
    mean = covar.new_zeros(len(covar))
    prior = UtilityPrior(mean.unsqueeze(-1), mean, covar)

    def solve() -> GaussianSolution:
        return ExpectationPropagation().solve(prior, factors)

    approximation = solve()
    ep_seconds = min(seconds(solve) for _ in range(REPEATS))
    problem_of_boxes = BoxProblem(covar, mean, factors)
    effective, elapsed = 0.0, 0.0
    for seed in range(REPEATS):
        generator = torch.Generator().manual_seed(seed)
        begin = time.process_time()
        latent = problem_of_boxes.sample(approximation, NUM_DRAWS, generator).latent
        elapsed += time.process_time() - begin
        effective += float(latent.effective_sample_size)
    return (
        effective / elapsed,
        ep_seconds,
        float(latent.acceptance_rate),
        latent.num_kicks,
    )


def efficiency_table() -> None:
    """Prints effective draws a second in every cell, the figure to reach beside it."""
    rows = []
    for m in SIZES:
        for name, noise in NOISES.items():
            problem = synthetic_comparisons(m, noise, seed=0)
            covariance = problem.row_covariance()
            others = [
                effective_per_second(gibbs, covariance, *GIBBS),
                effective_per_second(exact_hamiltonian, covariance, *HAMILTONIAN),
                effective_per_second(slices, covariance, *BOTORCH),
            ]
            ours, ep_seconds, acceptance, kicks = ours_per_second(problem)
            to_reach = max(*others[:2], 100 * others[2])
            reached = "yes" if ours >= to_reach else "no"
            cost = (ep_seconds, acceptance, kicks)
            rows.append((m, name, ours, to_reach, reached, *others, *cost))
    print("Smallest effective sample size a second over the rows of v")
    print_table(
        ["m", "noise", "ours", "to reach", "reached", *OTHERS, *COSTS],
        rows,
    )


def main() -> None:
    """Prints the table."""
    start(__doc__.splitlines()[0])
    torch.manual_seed(0)
    efficiency_table()


if __name__ == "__main__":
    main()
