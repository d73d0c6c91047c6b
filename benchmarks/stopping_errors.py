"""Errors of the advice to stop.

    python benchmarks/stopping_errors.py [--starts 50] [--setting hartmann6:0.3]
        [--duels 60] [--candidates near] [--record FILE.csv]
    python benchmarks/stopping_errors.py --read benchmarks/records/stopping_errors.csv

Loops of duels by `DuelingExploringEIIG` under `DuelKernel`, five of them random, with
the noise of the command line; `screen_rules.py` says how fifty starts are played at
once. Every five duels from the tenth, `stopping_advice` is asked about the incumbent
among `stopping_candidates` ("near"), or among 256 points of a Sobol sequence alone
("spread"). It is wrong where it says stop and the true chance of regret, by the
problem's optimum and the judge's own noise, is not below the tolerance.
A judge who never errs prefers whatever is better at all: there the regret at the stop
is what counts. ``--read`` prints the tables of a record. The committed one has 25
starts of "near" and 50 of "spread".
"""

from __future__ import annotations

import argparse
import csv
import math
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from batched_duels import BatchedDuels, Prior
from batched_play import play
from botorch.models.model import Model
from botorch.utils.sampling import draw_sobol_samples
from report import chosen_settings, print_table, start
from screen_rules import EXACT_NOISE, FAR, HUMAN_NOISE, SETTINGS
from torch import Tensor

from botorch_pref.evaluation import stopping_advice, stopping_candidates
from botorch_pref.evaluation.progress.stopping import TOLERANCE
from botorch_pref.likelihoods.links import ProbitLink
from botorch_pref.posteriors.gaussian_posterior import (
    GaussianPosterior,
    gaussian_posterior,
)
from botorch_pref.posteriors.moments import Moments
from botorch_pref.simulation.problems import Problem, make_problem

NUM_RANDOM, NUM_DUELS = 5, 60
FIRST, EVERY = 10, 5
NUM_SPREAD = 256
CONFIDENCES = 0.0, 0.1, 0.5, 0.9, 1.01
COLUMNS = (
    *("problem", "deviation", "candidates", "start", "duel"),
    *("stop", "confidence", "chance", "gain_share", "gain_confidence"),
    *("regret", "among_candidates", "regret_share"),
)


class OneRun(Model):
    """Posterior of one of the batched models.

    Args:
        models: Of all runs.
        run: Which.
    """

    num_outputs = 1
    batch_shape = torch.Size()

    def __init__(self, models: BatchedDuels, run: int) -> None:
        super().__init__()
        self.models = models.of(torch.tensor([run]))

    def posterior(self, X: Tensor, *_: Any, **__: Any) -> GaussianPosterior:
        """See base class."""
        mean, covariance = self.models.joint(X.unsqueeze(0))
        return gaussian_posterior(Moments(mean, covariance[0]))


def spread_candidates(recommended: Tensor, bounds: Tensor) -> Tensor:
    """Points all over a box.

    Args:
        recommended: Not used.
        bounds: ``2 x d``.
    """
    return draw_sobol_samples(bounds, NUM_SPREAD, 1, seed=0).squeeze(-2)


CANDIDATES = {"near": stopping_candidates, "spread": spread_candidates}


def advices(
    problem: Problem, deviation: float, starts: int, num_duels: int, candidates: str
) -> list[dict[str, float]]:
    """One row for each advice.

    Args:
        problem: What is optimised.
        deviation: Of the judge, per item.
        starts: How many runs.
        num_duels: How long they are.
        candidates: Which points stand for the cube, of `CANDIDATES`.
    """
    noise = HUMAN_NOISE if deviation > 0 else EXACT_NOISE

    def make(
        prior: Prior, winners: Tensor, losers: Tensor, before: BatchedDuels | None
    ) -> BatchedDuels:
        return BatchedDuels(prior, winners, losers, noise, before)

    rows = []
    for model in play(problem, deviation, 0.0, make, starts, NUM_RANDOM, num_duels):
        if model.duels >= FIRST and model.duels % EVERY == 0:
            rows += _asked(problem, model, candidates)
    return rows


def _asked(
    problem: Problem, models: BatchedDuels, candidates: str
) -> list[dict[str, float]]:
    cube = torch.tensor([[0.0], [1.0]]).double().expand(2, problem.dim)
    rows = []
    for number, best in enumerate(models.incumbent().split(1)):
        points, shown = CANDIDATES[candidates](best, cube), models.shown()[number]
        advice = stopping_advice(
            OneRun(models, number),
            points,
            recommended=best,
            shown=torch.unique(shown, dim=0),
            link=ProbitLink(models.noise),
        )
        regret = float(problem.regret(best))
        among = max(0.0, regret - float(problem.regret(points).min()))
        row = {"start": number, "duel": models.duels, "stop": int(advice.stop)}
        row |= {"confidence": advice.confidence, "chance": advice.chance_of_regret}
        row |= {"gain_share": advice.gain_share}
        row |= {"gain_confidence": advice.gain_confidence}
        row |= {"regret": regret, "among_candidates": among}
        utility = problem.utility(shown)
        extent = float(utility.max() - utility.min())
        rows.append(row | {"regret_share": regret / extent})
    return rows


def true_chance(regret: Tensor, deviation: float) -> Tensor:
    """Chance that the judge prefers what is better by so much.

    Args:
        regret: Any shape.
        deviation: Of the judge, per item.
    """
    if deviation == 0:
        return torch.where(regret > 0, 1.0, 0.5)
    return torch.special.ndtr(regret / (math.sqrt(2) * deviation))


def main() -> None:
    """Prints what was advised, how often it was wrong, and how sure it was."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int, default=50)
    parser.add_argument("--setting", action="append", help="PROBLEM:DEVIATION")
    parser.add_argument("--duels", type=int, default=NUM_DUELS)
    parser.add_argument("--candidates", choices=tuple(CANDIDATES), default="near")
    parser.add_argument("--record", type=Path, help="a table to add the advices to")
    parser.add_argument("--read", type=Path, help="a table of advices to print")
    options = parser.parse_args()
    start(f"advice to stop, every {EVERY} duels from {FIRST} to {options.duels}")
    if options.read:
        with options.read.open(encoding="utf-8", newline="") as file:
            _print_tables(list(csv.DictReader(file)))
        return
    rows: list[dict[str, str]] = []
    for name, deviation in chosen_settings(options.setting, SETTINGS):
        counts = options.starts, options.duels, options.candidates
        found = advices(make_problem(name), deviation, *counts)
        what = {"problem": name, "deviation": str(deviation)}
        what["candidates"] = options.candidates
        told = [what | {k: f"{v:.6g}" for k, v in row.items()} for row in found]
        if options.record:
            _record(options.record, told)
        rows += told
    _print_tables(rows)


def _print_tables(rows: list[dict[str, str]]) -> None:
    by_setting: dict[tuple[str, ...], list[dict[str, str]]] = defaultdict(list)
    for row in rows:
        key = row["problem"], row["deviation"], row["candidates"]
        by_setting[key].append(row)
    stops, sure = [], []
    for setting, found in by_setting.items():
        told = {
            name: torch.tensor([float(row[name]) for row in found])
            for name in COLUMNS[3:]
        }
        stops.append([*setting, *_stops(told, float(setting[1]))])
        sure += [[*setting, *line] for line in _calibration(told, float(setting[1]))]
    which = "problem", "deviation", "candidates"
    print("first stop of each run; of all advices to stop, those that are wrong")
    print_table(
        [
            *(*which, "runs", "stop", "median duel", "wrong", "among candidates"),
            *("median regret", "largest", f"regret > {FAR}", "all stops", "wrong"),
        ],
        stops,
    )
    print("confidence that the chance is low, and how often it is")
    print_table([*which, "confidence", "advices", "mean", "low", "among them"], sure)


def _stops(told: dict[str, Tensor], deviation: float) -> list[object]:
    """Figures of the first stop of each run, and of all."""
    high = true_chance(told["regret"], deviation) >= TOLERANCE
    high_among = true_chance(told["among_candidates"], deviation) >= TOLERANCE
    stop = told["stop"] > 0
    first = stop.clone()
    for place in stop.nonzero().flatten().tolist():
        before = (told["start"] == told["start"][place]) & stop
        first[place] = told["duel"][place] == told["duel"][before].min()
    regret = told["regret"][first]
    at_all = len(regret) > 0
    return [
        len(told["start"].unique()),
        int(first.sum()),
        float(told["duel"][first].quantile(0.5)) if at_all else "-",
        int(high[first].sum()),
        int(high_among[first].sum()),
        float(regret.quantile(0.5)) if at_all else "-",
        float(regret.max()) if at_all else "-",
        int((regret > FAR).sum()),
        int(stop.sum()),
        int((high & stop).sum()),
    ]


def _calibration(told: dict[str, Tensor], deviation: float) -> list[list[object]]:
    """Share of chances that are low, by how sure the advice is of it."""
    low = true_chance(told["regret"], deviation) < TOLERANCE
    low_among = true_chance(told["among_candidates"], deviation) < TOLERANCE
    lines: list[list[object]] = []
    for least, most in pairwise(CONFIDENCES):
        these = (told["confidence"] >= least) & (told["confidence"] < most)
        if these.any():
            shares = [v[these].double().mean() for v in (told["confidence"], low)]
            shares.append(low_among[these].double().mean())
            name = f"{least:g} to {min(most, 1.0):g}"
            lines.append([name, int(these.sum()), *map(float, shares)])
    return lines


def _record(path: Path, rows: list[dict[str, str]]) -> None:
    new = not path.exists()
    with path.open("a", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
