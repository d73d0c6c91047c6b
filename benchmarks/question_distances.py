"""Distances of the options of each question, with a judge who errs.

    python benchmarks/question_distances.py [--starts 2] [--duels 40]

Six-Hump Camel on [-2, 2] x [-1, 1] in the unit square, a probit judge with a deviation
of 0.2 per item, five random duels, EP at the library's noise of 1. Prints the distances
of challenger and incumbent, question by question: for EIIG with ``k = 0.5``, which ends
by asking about the incumbent and itself, and for the rule of the command line.
"""

from __future__ import annotations

import argparse
from functools import partial

import torch
from report import print_table, start
from torch import Generator

from botorch_pref.acquisition import (
    DistinctOptions,
    DuelingEIIG,
    DuelingExploringEIIG,
)
from botorch_pref.commands.registry import make_fit
from botorch_pref.simulation.duel_loop import ChosenDuels, MakeAcquisition, run_duels
from botorch_pref.simulation.judges import ProbitJudge
from botorch_pref.simulation.problems import make_problem

NUM_RANDOM = 5
DEVIATION = 0.2
NEAR = 0.01
RULES: dict[str, MakeAcquisition] = {
    "EIIG, k = 0.5": partial(DuelingEIIG, k=0.5),
    "exploring, distinct": lambda model, X_ref: DistinctOptions(
        DuelingExploringEIIG(model, X_ref)
    ),
}


def distances(rule: str, seed: int, num_duels: int) -> tuple[list[float], float]:
    """Distances of the options of each chosen question, and the regret at the end.

    Args:
        rule: One of `RULES`.
        seed: Of the random duels, the judge and all that is drawn later.
        num_duels: Random ones included.
    """
    problem = make_problem("sixhumpcamel-narrow")
    propose = ChosenDuels(
        dim=problem.dim,
        num_random=NUM_RANDOM,
        acquisition=rule,
        make_acquisition=RULES[rule],
        generator=Generator().manual_seed(seed),
    )
    # torch reads the lowest 32 bits of a seed: the judge's is another of these.
    errors = Generator().manual_seed(2**31 + seed)
    judge = ProbitJudge(problem.utility, DEVIATION**2, errors)
    duels = list(run_duels(propose, judge, make_fit("ep", errs=True), num_duels))
    apart = [
        float(torch.dist(duel.proposal.challenger, duel.proposal.opponent))
        for duel in duels[NUM_RANDOM:]
    ]
    return apart, float(problem.regret(duels[-1].incumbent))


def main() -> None:
    """Prints the distances and a table of what is nearly the same."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int, default=2)
    parser.add_argument("--duels", type=int, default=40)
    options = parser.parse_args()
    start("distances of the options of each question, in the unit square")
    rows = []
    for rule in RULES:
        for seed in range(options.starts):
            apart, regret = distances(rule, seed, options.duels)
            print(f"{rule}, start {seed}:", " ".join(f"{r:.3f}" for r in apart))
            late = apart[len(apart) // 2 :]
            near = sum(r < NEAR for r in late)
            rows.append([rule, seed, min(apart), near, len(late), regret])
    print_table(
        ["rule", "start", "smallest", f"late, < {NEAR}", "late", "regret"], rows
    )


if __name__ == "__main__":
    main()
