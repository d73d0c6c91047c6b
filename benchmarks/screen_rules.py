"""Regret of rules for questions, from many starts at once.

    python benchmarks/screen_rules.py [--starts 50] [--setting hartmann6:0.3]
        [--prior duel] [--rule exploring-eiig] [--record FILE.csv]

Five random and 25 chosen duels of one problem with one judge, all starts in one batch:
expectation propagation on duels, the hyper-parameters' maximum and the acquisition
function's are found for all starts by one batched L-BFGS-B. Fifty starts of a rule take
some ten seconds, a twentieth of what `python -m benchmarks.suite` takes; both use the
same formulas and have the same random duels from a seed, draw other errors of the
judge, and start their optimisers from other points. ``--record`` appends a row for
each run. A setting is a problem and the judge's deviation per item; 0 never errs,
and the model then has the noise of the command line, else 1. The committed record has
200 starts of the default where that deviation is 0.3 or 0.2, and 50 of all else.
"""

from __future__ import annotations

import argparse
import csv
import math
from collections.abc import Callable
from pathlib import Path

import torch
from batched_duels import BatchedDuels, Prior, improvement_in_logs, maximise
from report import chosen_settings, print_table, start
from torch import Generator, Tensor

from botorch_pref.likelihoods import ProbitLink
from botorch_pref.likelihoods.base import win_and_information
from botorch_pref.numerics.mixtures import tailed_positive_part
from botorch_pref.simulation.problems import Problem, make_problem

NUM_RANDOM, NUM_CHOSEN = 5, 25
SETTINGS = (
    ("hartmann6", 0.0),
    ("sixhumpcamel-narrow", 0.0),
    ("hartmann6", 0.3),
    ("sixhumpcamel-narrow", 0.2),
)
EXACT_NOISE, HUMAN_NOISE = 1e-3, 1.0
EPSILON, K = 1 / 3, 0.2
FAR = 0.4
"""Regret of Six-Hump Camel beyond which a run is at a wrong hump."""

COLUMNS = ("prior", "rule", "problem", "deviation", "start", "regret", "unclear")


def information(model: BatchedDuels, X: Tensor, X_ref: Tensor) -> Tensor:
    """Value of `DuelingEIIG` with ``k = 0.2``, ``num_runs x num_points``."""
    means, variance = model.difference(X, X_ref)
    log_win, gain = win_and_information(
        ProbitLink(model.noise), means.unsqueeze(0), variance
    )
    return K * log_win + gain


def improvement(model: BatchedDuels, X: Tensor, X_ref: Tensor) -> Tensor:
    """Logarithm of `DuelingEUBO` against a reference."""
    return improvement_in_logs(*model.difference(X, X_ref))


def tailed(model: BatchedDuels, X: Tensor, X_ref: Tensor) -> Tensor:
    """Logarithm of `DuelingTailedEI`."""
    means, variance = model.difference(X, X_ref)
    value = tailed_positive_part(means.unsqueeze(0), variance)
    return value.clamp_min(torch.finfo(value.dtype).tiny).log()


Value = Callable[[BatchedDuels, Tensor, Tensor], Tensor]


Ask = Callable[[BatchedDuels, Tensor, Generator], Tensor]
"""From models and references, ``num_runs x 1 x d``, to ``num_runs x d`` challengers."""


def asking(value: Value) -> Ask:
    """The rule that asks where an acquisition function is largest.

    Args:
        value: Of the acquisition function.
    """
    return lambda model, X_ref, generator: maximise(value, model, X_ref, generator)


def exploring(refining: Value) -> Ask:
    """The rule of `DuelingExploringEIIG`, with a draw for each start.

    Args:
        refining: Value of the questions that do not explore.
    """

    def ask(model: BatchedDuels, X_ref: Tensor, generator: Generator) -> Tensor:
        explores = torch.rand(model.runs, generator=generator) < EPSILON
        challengers = torch.empty_like(X_ref[:, 0])
        for value, which in ((tailed, explores), (refining, ~explores)):
            runs = which.nonzero().flatten()
            if len(runs):
                some = maximise(value, model.of(runs), X_ref[runs], generator)
                challengers[runs] = some
        return challengers

    return ask


def believing(model: BatchedDuels, X_ref: Tensor, generator: Generator) -> Tensor:
    """The rule of `DuelingHBEI`."""
    model.believe(generator)
    challengers = maximise(improvement, model, X_ref, generator)
    model.forget()
    return challengers


RULES: dict[str, Ask] = {
    "exploring-eiig": exploring(information),
    "eiig": asking(information),
    "eubo": asking(improvement),
    "hbei": believing,
    "tailed-ei": asking(tailed),
}
RANDOM = "random"
"""Rule whose challengers are random points."""

PRIORS = {"duel": Prior.of_duel_kernel, "default": Prior.of_default_kernel}


def run(
    problem: Problem, deviation: float, prior: str, rule: str, starts: int
) -> dict[str, Tensor]:
    """The runs of all starts.

    Args:
        problem: What is optimised.
        deviation: Of the judge, per item.
        prior: One of `PRIORS`.
        rule: One of `RULES`, or `RANDOM`.
        starts: How many.

    Returns:
        The ``regret`` of the recommendation, and the share of duels that are
        ``unclear``: the judge names the better point in less than 55 of 100 cases,
        before a third of the duels is left.
    """
    dim, num_duels = problem.dim, NUM_RANDOM + NUM_CHOSEN
    own = [Generator().manual_seed(seed) for seed in range(starts)]
    shape = NUM_RANDOM, 2, dim
    points = torch.stack(
        [torch.rand(shape, generator=g, dtype=torch.double) for g in own]
    )
    errors = deviation * torch.stack(
        [torch.randn(num_duels, 2, generator=g, dtype=torch.double) for g in own]
    )
    generator = Generator().manual_seed(12345)
    noise = HUMAN_NOISE if deviation > 0 else EXACT_NOISE
    winners = losers = torch.zeros(starts, 0, dim, dtype=torch.double)
    model: BatchedDuels | None = None
    unclear = torch.zeros(starts, dtype=torch.double)
    for number in range(num_duels):
        if model is None or number < NUM_RANDOM:
            pair = points[:, number, 0], points[:, number, 1]
        else:
            pair = question(model, rule, generator)
        utility = problem.utility(pair[0]), problem.utility(pair[1])
        if NUM_RANDOM <= number < 2 * num_duels // 3:
            gap = (utility[0] - utility[1]).abs() / (
                math.sqrt(2) * max(deviation, 1e-9)
            )
            unclear += torch.special.ndtr(gap) < 0.55
        heard = (u + errors[:, number, i] for i, u in enumerate(utility))
        won = torch.ge(*heard).unsqueeze(-1)
        winners = torch.cat([winners, torch.where(won, *pair).unsqueeze(1)], 1)
        losers = torch.cat([losers, torch.where(won, *pair[::-1]).unsqueeze(1)], 1)
        if number >= NUM_RANDOM - 1:
            model = BatchedDuels(PRIORS[prior](dim), winners, losers, noise, model)
    assert model is not None
    asked = 2 * num_duels // 3 - NUM_RANDOM
    return {
        "regret": problem.regret(model.incumbent()),
        "unclear": unclear / asked,
    }


def question(
    model: BatchedDuels, rule: str, generator: Generator
) -> tuple[Tensor, Tensor]:
    """The next challengers and the incumbents that they meet."""
    best = model.incumbent()
    if rule == RANDOM:
        return torch.rand(best.shape, generator=generator, dtype=best.dtype), best
    return RULES[rule](model, best.unsqueeze(1), generator), best


def main() -> None:
    """Prints a row for each prior, rule and setting."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int, default=50)
    parser.add_argument("--setting", action="append", help="PROBLEM:DEVIATION")
    parser.add_argument("--prior", action="append", choices=tuple(PRIORS))
    parser.add_argument("--rule", action="append", choices=(*RULES, RANDOM))
    parser.add_argument("--record", type=Path, help="a table to add the runs to")
    options = parser.parse_args()
    start(f"regret after {NUM_RANDOM} random and {NUM_CHOSEN} chosen duels")
    rows = []
    for problem_name, deviation in chosen_settings(options.setting, SETTINGS):
        problem = make_problem(problem_name)
        for prior in options.prior or PRIORS:
            for rule in options.rule or (*RULES, RANDOM):
                found = run(problem, deviation, prior, rule, options.starts)
                what = prior, rule, problem_name, deviation
                if options.record:
                    _record(options.record, what, found)
                regret, unclear = found["regret"], float(found["unclear"].mean())
                middle, far = float(regret.quantile(0.5)), int((regret > FAR).sum())
                rows.append([*what, middle, float(regret.mean()), far, unclear])
    print_table(
        [*COLUMNS[:4], "median", "mean", f"regret > {FAR}", "unclear"],
        rows,
    )


def _record(path: Path, what: tuple[object, ...], found: dict[str, Tensor]) -> None:
    new = not path.exists()
    with path.open("a", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        if new:
            writer.writerow(COLUMNS)
        for number, regret in enumerate(found["regret"].tolist()):
            unclear = float(found["unclear"][number])
            writer.writerow([*what, number, f"{regret:.6g}", f"{unclear:.4g}"])


if __name__ == "__main__":
    main()
