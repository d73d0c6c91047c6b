"""Whether posteriors are right where the prior is: simulation-based calibration.

    python -m benchmarks.rank_uniformity --runs 200

Utilities are drawn from a model's prior, and answers about random pairs from its
likelihood. The rank of a true quantity among draws of its posterior is then uniform
(Talts, Betancourt, Simpson, Vehtari and Gelman 2018, theorem 1), if the posterior is
exact. Printed are, of each engine and quantity, the p-value of a chi-squared test of
ten equal bins, how many ranks each bin has, and the share that a central interval of
90 % holds. With known scales the test is of the engine alone; with fitted ones, drawn
from their priors, also of plugging in the most probable scales.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import Any

import torch
from botorch.fit import fit_gpytorch_mll
from scipy.stats import chisquare
from torch import Generator, Tensor

from benchmarks.report import print_table, start
from botorch_pref import (
    DuelKernel,
    EPPreferenceGP,
    LaplacePreferenceGP,
    PreferenceMarginalLogLikelihood,
    SkewPreferenceGP,
)
from botorch_pref.posteriors.gaussian import draw_utilities
from botorch_pref.simulation import ProbitJudge

ENGINES = {
    "laplace": LaplacePreferenceGP,
    "ep": EPPreferenceGP,
    "skew": SkewPreferenceGP,
}
DIM, POINTS, DUELS, DRAWS, BINS = 3, 12, 20, 99, 10
QUANTITIES: dict[str, Callable[[Tensor], Tensor]] = {
    "two options shown": lambda f: f[..., 0] - f[..., 1],
    "two new options": lambda f: f[..., -1] - f[..., -2],
    "best less mean": lambda f: f.amax(-1) - f.mean(-1),
}
"""Of utilities of `POINTS` options that were shown and two that were not."""


def rank_among(truth: Tensor, draws: Tensor) -> Tensor:
    """How many draws are below the truth: of `S` from 0 to `S`.

    Args:
        truth: Of any shape.
        draws: `S` draws of it, in the first dimension.
    """
    return (draws < truth).sum(0)


def uniformity(ranks: Tensor, num_draws: int) -> tuple[float, list[int], float]:
    """P-value of uniform ranks, counts of ten bins, and the share of middle ones.

    The bins are equal, for ranks have one value more than there are draws. The middle
    is that of a central interval of 90 %.

    Args:
        ranks: `n` of them.
        num_draws: Of which they are ranks; one less than a multiple of 20.
    """
    counts = torch.bincount(ranks * BINS // (num_draws + 1), minlength=BINS)
    edge = (num_draws + 1) // 20
    middle = (ranks >= edge) & (ranks < num_draws + 1 - edge)
    p_value = float(chisquare(counts.numpy()).pvalue)
    return p_value, counts.tolist(), float(middle.double().mean())


def simulate(generator: Generator, fit: bool) -> tuple[Tensor, Tensor, Tensor, Any]:
    """Points, true utilities, duels, winner first, and the kernel that made them.

    Args:
        generator: Source of all of them.
        fit: Whether scales are drawn from their priors, or are the modes.
    """
    points = torch.rand(POINTS + 2, DIM, generator=generator, dtype=torch.double)
    kernel = DuelKernel(DIM).double()
    if fit:
        for part, name in (
            (kernel, "outputscale"),
            (kernel.base_kernel, "lengthscale"),
        ):
            prior = getattr(part, f"{name}_prior")
            value = getattr(part, name)
            z = torch.randn(value.shape, generator=generator, dtype=torch.double)
            setattr(part, name, (prior.loc + prior.scale * z).exp())
    with torch.no_grad():
        root = torch.linalg.cholesky(
            kernel(points).to_dense() + 1e-9 * torch.eye(len(points)).double()
        )
    utilities = root @ torch.randn(len(points), generator=generator).double()
    of_points = ProbitJudge(lambda index: utilities[index.long()], 1.0, generator)
    duels = []
    for _ in range(DUELS):
        pair = torch.randperm(POINTS, generator=generator)[:2]
        duels.append(pair[of_points.order(pair)])
    return points, utilities, torch.stack(duels), kernel


def ranks_of(engine: str, seed: int, fit: bool) -> Iterator[tuple[str, int]]:
    """The rank of each quantity in one simulation.

    Args:
        engine: Of `ENGINES`.
        seed: Of all that is random.
        fit: Whether scales are drawn and fitted, or known.
    """
    generator = torch.Generator().manual_seed(seed)
    points, utilities, duels, kernel = simulate(generator, fit)
    covar_module = DuelKernel(DIM).double() if fit else kernel
    model = ENGINES[engine](points[:POINTS], duels, covar_module=covar_module)
    if fit:
        fit_gpytorch_mll(PreferenceMarginalLogLikelihood(model.likelihood, model))
    with torch.no_grad():
        posterior = model.eval().posterior(points)
        draws = draw_utilities(posterior, DRAWS, generator)
    for name, quantity in QUANTITIES.items():
        yield name, int(rank_among(quantity(utilities), quantity(draws)))


def main() -> None:
    """Prints how uniform the ranks of each engine and quantity are."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--engine", action="append", choices=ENGINES)
    parser.add_argument("--fit", action="store_true", help="draw and fit the scales")
    options = parser.parse_args()
    start("ranks of the truth among posterior draws")
    rows = []
    for engine in options.engine or ["ep", "skew"]:
        ranks: dict[str, list[int]] = {name: [] for name in QUANTITIES}
        for seed in range(options.runs):
            for name, rank in ranks_of(engine, seed, options.fit):
                ranks[name].append(rank)
        for name, of_runs in ranks.items():
            p_value, counts, middle = uniformity(torch.tensor(of_runs), DRAWS)
            text = " ".join(map(str, counts))
            rows.append([engine, name, options.runs, p_value, text, middle])
    header = "engine", "quantity", "runs", "p-value", "ranks in tenths", "in 90 %"
    print_table([*header], rows)


if __name__ == "__main__":
    main()
