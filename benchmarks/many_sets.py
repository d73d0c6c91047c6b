"""Thousands of rankings and choices among 100 items, with Thurstone noise.

    python benchmarks/many_sets.py

Prints seconds of one EP evidence with its gradient. The rows of an answer share noise,
which is integrated out answer by answer, so the work stays in the space of the 100
points. 5,000 comparisons are what that costs without.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from many_comparisons import ITEMS, NOISE, many_answers
from report import fastest, print_table, start

from botorch_pref import (
    Choices,
    Comparisons,
    EPPreferenceGP,
    PairwiseProbitLikelihood,
    Rankings,
)
from botorch_pref.feedback import Feedback

LENGTH = 10
COUNTS = (200, 1000, 5000)


def heard_orders(count: int, utilities: torch.Tensor) -> torch.Tensor:
    """Rankings of random items by what was heard, ``count x LENGTH``.

    Args:
        count: How many.
        utilities: Of the items.
    """
    generator = torch.Generator().manual_seed(1)
    items = torch.stack(
        [torch.randperm(ITEMS, generator=generator)[:LENGTH] for _ in range(count)]
    )
    noise = torch.randn(count, LENGTH, generator=generator, dtype=utilities.dtype)
    heard = utilities[items] + NOISE**0.5 * noise
    return items.gather(-1, heard.argsort(dim=-1, descending=True))


def cost(points: torch.Tensor, feedback: Feedback) -> Callable[[], None]:
    """One evidence with its gradient, from scratch.

    Args:
        points: The items.
        feedback: The answers.
    """
    model = EPPreferenceGP(
        points, feedback=[feedback], likelihood=PairwiseProbitLikelihood(NOISE)
    )

    def evidence() -> None:
        model.set_train_data(points)
        model.log_evidence().backward()

    return evidence


def main() -> None:
    """Prints the table."""
    start(f"EP evidence and gradient among {ITEMS} items, sets of {LENGTH}")
    problem = many_answers()
    utilities = problem.points.sum(-1).sin() * 3
    rows: list[list[str | float]] = []
    duels = Comparisons(problem.pairs)
    rows.append(["comparisons", 5000, 5000, fastest(cost(problem.points, duels), 2)])
    for count in COUNTS:
        orders = heard_orders(count, utilities)
        kinds = {"choices": Choices(orders, orders[:, 0]), "rankings": Rankings(orders)}
        for name, feedback in kinds.items():
            seconds = fastest(cost(problem.points, feedback), 2)
            rows.append([name, count, count * (LENGTH - 1), seconds])
    print_table(["answers", "how many", "rows", "seconds"], rows)


if __name__ == "__main__":
    main()
