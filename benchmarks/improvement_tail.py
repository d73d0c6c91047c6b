"""Improvement of the most hopeless challenger: whether it must be taken in logarithms.

    python benchmarks/improvement_tail.py

Prints, after noise-free duels of which half are near the best point of the problem, how
many deviations below the incumbent the most hopeless of 2,560 challengers is, half of
them uniform and half near the incumbent, and its expected improvement (`DuelingEUBO`
with a reference).
"""

from __future__ import annotations

import torch
from report import print_table, start
from torch import Tensor

from benchmarks.suite.runs.registry import make_fit
from botorch_pref.acquisition import DuelingEUBO, incumbent
from botorch_pref.feedback import Comparisons
from botorch_pref.simulation.duel_loop import index_pairs
from botorch_pref.simulation.problems import make_problem

ANSWERS = {"sixhumpcamel": 60, "hartmann6": 60, "branin": 150}
CHALLENGERS, NEAR = 2560, 0.05


def around(centre: Tensor, number: int, generator: torch.Generator) -> Tensor:
    """Points of which half are uniform and half near a point, ``number x d``."""
    shape = number, centre.shape[-1]
    points = torch.rand(shape, generator=generator, dtype=torch.double)
    near = torch.randn(shape, generator=generator, dtype=torch.double)
    near = (centre + NEAR * near).clamp(0, 1)
    return torch.where((torch.arange(number) % 2 == 0).unsqueeze(-1), points, near)


@torch.no_grad()
def row(name: str, answers: int) -> list[object]:
    """The furthest challenger, and the least improvement.

    Args:
        name: Of the problem.
        answers: How many duels.
    """
    problem = make_problem(name)
    generator = torch.Generator().manual_seed(0)
    pool = torch.rand(2**14, problem.dim, generator=generator, dtype=torch.double)
    best = pool[problem.utility(pool).argmax()]
    shown = around(best, 2 * answers, generator)
    order = torch.randperm(2 * answers, generator=generator)
    first, second = shown[order].chunk(2)
    won = (problem.utility(first) >= problem.utility(second)).unsqueeze(-1)
    pairs = torch.where(won, first, second), torch.where(won, second, first)
    points, indices = index_pairs(*pairs)
    with torch.enable_grad():
        model = make_fit("ep")(points, Comparisons(indices))
    reference = incumbent(model)
    challengers = around(reference, CHALLENGERS, generator).unsqueeze(-2)
    both = torch.cat([challengers, reference.expand_as(challengers)], dim=-2)
    law = model.posterior(both).distribution
    gap = law.mean[:, 0] - law.mean[:, 1]
    C = law.covariance_matrix
    spread = (C[:, 0, 0] + C[:, 1, 1] - 2 * C[:, 0, 1]).sqrt()
    improvement = DuelingEUBO(model, reference)(challengers)
    below = float((gap / spread).min())
    return [name, answers, below, float(improvement.min())]


def main() -> None:
    """Prints the table."""
    start(f"the most hopeless of {CHALLENGERS} challengers, EP")
    rows = [row(name, answers) for name, answers in ANSWERS.items()]
    print_table(["problem", "answers", "deviations", "improvement"], rows)


if __name__ == "__main__":
    main()
