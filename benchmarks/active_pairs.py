"""Duels that find the scores of items, chosen by their information and at random.

    python benchmarks/active_pairs.py [--runs 5] [--noise 1] [--large] [--trees]

Prints how many comparisons of 200 items it takes until the root mean square error of
the scores is 0.15, as Mikhailiuk et al. (2021) simulate it: true scores are uniform in
[0, 5], the first item wins with probability Phi(difference / 1.4865) (--noise has
another deviation), true and estimated scores have mean 0 and deviation 1 before they
are compared, and each batch is a spanning tree of 199 pairs, after which the model is
fitted anew. They state 7,065 comparisons for ASAP, for a noise and a range that they do
not state. --large prints the seconds in which 30,000 pairs of 10,000 items
are chosen. --trees prints the processor seconds of one tree of 500, 1,000, 1,025 and
2,000 items without features, under Thurstone's noise and Bradley and Terry's.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import torch
from botorch.fit import fit_gpytorch_mll
from botorch.utils.probability.utils import ndtr
from gpytorch.kernels import LinearKernel
from report import print_table, seconds, start
from torch import Generator, Tensor

from botorch_pref import (
    EPPreferenceGP,
    LaplacePreferenceGP,
    PairwiseLogitLikelihood,
    PairwiseProbitLikelihood,
    PreferenceMarginalLogLikelihood,
    SparsePreferenceGP,
)
from botorch_pref.acquisition import informative_pairs

ITEMS, RANGE, ERROR_TO_REACH = 200, 5.0, 0.15
NOISE = 1.4865
PUBLISHED = "ASAP: 7,065"
MOST_BATCHES = 150
TREE_SIZES = (500, 1000, 1025, 2000)
MANY_ITEMS, MANY_PAIRS, TO_REACH_PER_SECOND = 10_000, 30_000, 30_000

Choose = Callable[[EPPreferenceGP, Generator], Tensor]


def by_information(model: EPPreferenceGP, generator: Generator) -> Tensor:
    """The best spanning tree.

    Args:
        model: Fitted.
        generator: Not used.
    """
    return informative_pairs(model)


def at_random(model: EPPreferenceGP, generator: Generator) -> Tensor:
    """As many pairs of two different items, each as likely as any other.

    Args:
        model: Not used.
        generator: Of the draws.
    """
    first = torch.randint(ITEMS, (ITEMS - 1,), generator=generator)
    step = torch.randint(1, ITEMS, (ITEMS - 1,), generator=generator)
    return torch.stack([first, (first + step) % ITEMS], dim=-1)


def answered(
    scores: Tensor, pairs: Tensor, noise: float, generator: Generator
) -> Tensor:
    """The pairs, winner first.

    Args:
        scores: True ones.
        pairs: ``m x 2``.
        noise: Deviation of what is heard of a difference.
        generator: Of the errors.
    """
    gap = scores[pairs[:, 0]] - scores[pairs[:, 1]]
    draws = torch.rand(len(pairs), generator=generator, dtype=gap.dtype)
    won = draws < ndtr(gap / noise)
    return torch.where(won.unsqueeze(-1), pairs, pairs.flip(-1))


def fitted(points: Tensor, answers: Tensor, noise: float) -> EPPreferenceGP:
    """A model of items without features.

    Args:
        points: One-hot.
        answers: ``m x 2``, winner first.
        noise: Deviation of what is heard of a difference.
    """
    likelihood, kernel = PairwiseProbitLikelihood(noise**2 / 2), LinearKernel()
    # Laplace's evidence is the fast one and has nearly the same scales.
    quick = LaplacePreferenceGP(
        points, answers, likelihood=likelihood, covar_module=kernel
    )
    fit_gpytorch_mll(PreferenceMarginalLogLikelihood(quick.likelihood, quick))
    model = EPPreferenceGP(points, answers, likelihood=likelihood, covar_module=kernel)
    return model.eval()


def standardised(scores: Tensor) -> Tensor:
    """Scores of mean 0 and deviation 1.

    Args:
        scores: At least two.
    """
    return (scores - scores.mean()) / scores.std()


def comparisons_needed(choose: Choose, seed: int, noise: float) -> float:
    """Comparisons until the error is small; infinite where it stays large.

    Args:
        choose: The next batch of pairs.
        seed: Of scores and answers.
        noise: Deviation of what is heard of a difference.
    """
    generator = Generator().manual_seed(seed)
    scores = RANGE * torch.rand(ITEMS, generator=generator, dtype=torch.float64)
    points = torch.eye(ITEMS, dtype=torch.float64)
    model = EPPreferenceGP(points, covar_module=LinearKernel()).eval()
    answers = torch.zeros(0, 2, dtype=torch.long)
    for _ in range(MOST_BATCHES):
        new = answered(scores, choose(model, generator), noise, generator)
        answers = torch.cat([answers, new])
        model = fitted(points, answers, noise)
        with torch.no_grad():
            posterior: Any = model.posterior(points)
        mean = posterior.mean.squeeze(-1)
        error = (standardised(mean) - standardised(scores)).square().mean().sqrt()
        if float(error) < ERROR_TO_REACH:
            return len(answers)
    return float("inf")


def mean_and_error(needed: list[float]) -> str:
    """Mean of the runs with its standard error, where there are two runs or more.

    Args:
        needed: Comparisons of each run.
    """
    told = f"{sum(needed) / len(needed):,.0f}"
    if len(needed) < 2:
        return told
    return f"{told} ± {torch.tensor(needed).std() / len(needed) ** 0.5:,.0f}"


def large_row() -> list[str]:
    """Pairs of a large catalogue in a second, under a sparse model with features."""
    generator = Generator().manual_seed(0)
    points = torch.rand(MANY_ITEMS, 4, generator=generator, dtype=torch.float64)
    pairs = torch.randint(MANY_ITEMS, (2000, 2), generator=generator)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    pairs = answered(points.sum(-1), pairs, NOISE, generator)
    model = SparsePreferenceGP(points, pairs, num_inducing=128).eval()
    with torch.no_grad():
        model.posterior(points[:2])
    took = seconds(lambda: informative_pairs(model, MANY_PAIRS))
    rate = f"{MANY_PAIRS / took:,.0f} a second"
    return [f"{MANY_ITEMS:,}", f"{took:.2f}", rate, f"{TO_REACH_PER_SECOND:,}"]


def tree_row(count: int, likelihood: Any) -> list[str]:
    """Processor seconds of the best spanning tree of items without features.

    Args:
        count: Number of items.
        likelihood: Of the model.
    """
    generator = Generator().manual_seed(0)
    scores = RANGE * torch.rand(count, generator=generator, dtype=torch.float64)
    pairs = torch.randint(count, (2 * count, 2), generator=generator)
    pairs = answered(scores, pairs[pairs[:, 0] != pairs[:, 1]], NOISE, generator)
    points, kernel = torch.eye(count, dtype=torch.float64), LinearKernel()
    model = LaplacePreferenceGP(
        points, pairs, likelihood=likelihood, covar_module=kernel
    ).eval()
    with torch.no_grad():
        model.posterior(points[:2])
    begin = time.process_time()
    informative_pairs(model)
    took = f"{time.process_time() - begin:.2f}"
    return [f"{count:,}", type(likelihood).__name__, took]


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--noise", type=float, default=NOISE)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--trees", action="store_true")
    options = parser.parse_args()
    start("Pairs of a catalogue")
    if options.large:
        head = ["items", "choice, s", "pairs", "to reach"]
        print_table(head, [large_row()])
        print()
    if options.trees:
        links = PairwiseProbitLikelihood(), PairwiseLogitLikelihood()
        rows = [tree_row(n, link) for link in links for n in TREE_SIZES]
        print_table(["items", "likelihood", "a tree, processor s"], rows)
        return
    rows = []
    for name, choose in (("information", by_information), ("random", at_random)):
        needed = [
            comparisons_needed(choose, seed, options.noise)
            for seed in range(options.runs)
        ]
        each = ", ".join(f"{number:,.0f}" for number in sorted(needed))
        rows.append([name, mean_and_error(needed), each, PUBLISHED])
    print(f"{ITEMS} items, comparisons until the error is {ERROR_TO_REACH}")
    print_table(["pairs by", "mean and its error", "each run", "to reach"], rows)


if __name__ == "__main__":
    main()
