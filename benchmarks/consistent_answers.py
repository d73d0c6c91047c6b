"""Boards of items in perfect order, beside long runs of a sampler.

    python benchmarks/consistent_answers.py

Every item has beaten every lower one once. Prints, of the item at the top, the
deviation of its utility above the mean of all by ``rank_items`` as a share of the
sampler's, both 95 % intervals, and the share of the sampler's draws in ours. The
sampler is Hamiltonian, in chains that all start from the prior, and has the variance
of the fit.
"""

from __future__ import annotations

import itertools
import math

import pandas as pd
import torch
from report import print_table, start
from torch import Generator, Tensor

from botorch_pref.evaluation import rank_items

SIZES = (3, 5, 10, 20)
CHAINS, STEPS, WARM_UP = 256, 800, 160
FEWEST_LEAPS, MOST_LEAPS = 6, 18
LEVEL = 0.95


def sampled(design: Tensor, variance: float) -> Tensor:
    """Draws of utilities above their mean, ``draws x n``.

    Args:
        design: ``m x n``, 1 for the winner and -1 for the loser of each answer.
        variance: Of the independent prior of each utility.
    """
    count = design.shape[-1]
    generator = Generator().manual_seed(0)
    size = 0.4 / math.sqrt(1 / variance + count / 4)

    def normal() -> Tensor:
        return torch.randn(CHAINS, count, generator=generator, dtype=design.dtype)

    def log_density(f: Tensor) -> Tensor:
        answers = torch.nn.functional.logsigmoid(f @ design.mT).sum(-1)
        return answers - f.square().sum(-1) / (2 * variance)

    def slope(f: Tensor) -> Tensor:
        return torch.sigmoid(-(f @ design.mT)) @ design - f / variance

    state, draws = math.sqrt(variance) * normal(), []
    for step in range(STEPS):
        momentum = normal()
        energy = log_density(state) - momentum.square().sum(-1) / 2
        leaps = torch.randint(FEWEST_LEAPS, MOST_LEAPS, (), generator=generator)
        moved, momentum = state, momentum + size / 2 * slope(state)
        for _ in range(int(leaps)):
            moved = moved + size * momentum
            momentum = momentum + size * slope(moved)
        momentum = momentum - size / 2 * slope(moved)
        gain = log_density(moved) - momentum.square().sum(-1) / 2 - energy
        chance = torch.rand(CHAINS, generator=generator, dtype=design.dtype)
        state = torch.where((chance.log() < gain).unsqueeze(-1), moved, state)
        if step >= WARM_UP:
            draws.append(state - state.mean(-1, keepdim=True))
    return torch.cat(draws)


def row(count: int) -> list[str]:
    """The item at the top of so many in perfect order.

    Args:
        count: Number of items.
    """
    pairs = torch.combinations(torch.arange(count))
    design = torch.zeros(len(pairs), count, dtype=torch.float64)
    design.scatter_(1, pairs[:, :1], 1.0).scatter_(1, pairs[:, 1:], -1.0)
    names = [f"item {number:02d}" for number in range(count)]
    said = itertools.combinations(names, 2)
    ranking = rank_items(pd.DataFrame(said, columns=["winner", "loser"]))
    top = ranking.board().loc[names[0]]
    kernel = ranking.model.covar_module
    draws = sampled(design, float(kernel.variance.detach()))[:, 0]
    half = 0.5 * (top["upper"] - top["lower"])
    deviation = half / math.sqrt(2) / float(torch.erfinv(torch.tensor(LEVEL)))
    tail = (1 - LEVEL) / 2
    ends = [float(draws.quantile(level)) for level in (tail, 1 - tail)]
    inside = ((draws >= top["lower"]) & (draws <= top["upper"])).double().mean()
    return [
        str(count),
        f"{deviation / float(draws.std()):.2f}",
        f"{top['lower']:.2f} to {top['upper']:.2f}",
        f"{ends[0]:.2f} to {ends[1]:.2f}",
        f"{100 * float(inside):.1f} %",
    ]


def main() -> None:
    """Prints the table."""
    start("Boards of items in perfect order")
    head = ["items", "deviation of the top, share", "interval", "sampled", "holds"]
    print_table(head, [row(count) for count in SIZES])


if __name__ == "__main__":
    main()
