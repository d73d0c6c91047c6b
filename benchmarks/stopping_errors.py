"""Errors of the advice to stop, and of what it says is left to gain.

    python benchmarks/stopping_errors.py [--starts 20] [--setting hartmann6:0.3]
        [--duels 40] [--every 20] [--record FILE.csv]
    python benchmarks/stopping_errors.py --read benchmarks/records/stopping_errors.csv

Loops of duels by `DuelingExploringEIIG` under `DuelKernel`, five of them random, with
the noise of the command line; `screen_rules.py` says how all starts are played at once.
Every so many duels `stopping_advice` is asked about the incumbent, of EP at the
hyper-parameters found: among `stopping_candidates` alone ("candidates"), and with the
bounds of the cube ("box"). Three tables are printed. Of what is left to gain: the share
of the range of utilities shown that is stated, and the true one, by the problem's
optimum. Of advices to stop: how many are wrong, which are those whose true chance of
regret, by the judge's own noise, is not below its tolerance and whose true share is not
below the tolerance of gains. Of both probabilities: how often what they are of is so.
``--read`` prints the tables of a record.
"""

from __future__ import annotations

import argparse
import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from batched_duels import BatchedDuels, Prior
from batched_play import play
from report import chosen_settings, print_table, start
from screen_rules import EXACT_NOISE, HUMAN_NOISE, SETTINGS
from torch import Tensor

from botorch_pref import DuelKernel, EPPreferenceGP, PairwiseProbitLikelihood
from botorch_pref.evaluation import stopping_advice, stopping_candidates
from botorch_pref.evaluation.progress import GAIN_TOLERANCE, TOLERANCE
from botorch_pref.simulation.duel_loop import index_pairs
from botorch_pref.simulation.problems import Problem, make_problem

NUM_RANDOM = 5
CONFIDENCES = 0.0, 0.1, 0.5, 0.9, 1.01
WHICH = "problem", "deviation", "searched"
SAID = (
    *("stop", "confidence", "chance", "gain_share", "gain_confidence"),
    *("regret", "regret_share"),
)
COLUMNS = (*WHICH, "start", "duel", *SAID)


def preference_model(models: BatchedDuels, run: int) -> EPPreferenceGP:
    """EP on the duels of one of the batched models, with its hyper-parameters.

    Args:
        models: Of all runs.
        run: Which.
    """
    points, pairs = index_pairs(models.winners[run], models.losers[run])
    kernel = DuelKernel(models.dim).to(points)
    kernel.outputscale = models.logs[run, 0].exp()
    kernel.base_kernel.lengthscale = models.logs[run, 1:].exp()
    likelihood = PairwiseProbitLikelihood(models.noise)
    model = EPPreferenceGP(points, pairs, likelihood=likelihood, covar_module=kernel)
    return model.eval()


def advices(
    problem: Problem, deviation: float, starts: int, num_duels: int, every: int
) -> list[dict[str, object]]:
    """Two rows for each advice.

    Args:
        problem: What is optimised.
        deviation: Of the judge, per item.
        starts: How many runs.
        num_duels: How long they are.
        every: After how many duels advice is asked for.
    """
    noise = HUMAN_NOISE if deviation > 0 else EXACT_NOISE

    def make(
        prior: Prior, winners: Tensor, losers: Tensor, before: BatchedDuels | None
    ) -> BatchedDuels:
        return BatchedDuels(prior, winners, losers, noise, before)

    rows = []
    for model in play(problem, deviation, 0.0, make, starts, NUM_RANDOM, num_duels):
        if model.duels % every == 0:
            rows += _asked(problem, model)
    return rows


def _asked(problem: Problem, models: BatchedDuels) -> list[dict[str, object]]:
    cube = torch.tensor([[0.0], [1.0]]).double().expand(2, problem.dim)
    rows: list[dict[str, object]] = []
    for number, best in enumerate(models.incumbent().split(1)):
        model = preference_model(models, number)
        shown = model.datapoints
        extent = torch.aminmax(problem.utility(shown))
        regret = float(problem.regret(best))
        for searched, bounds in (("candidates", None), ("box", cube)):
            advice = stopping_advice(
                model,
                stopping_candidates(best, cube),
                recommended=best,
                shown=shown,
                bounds=bounds,
            )
            said = {
                "stop": int(advice.stop),
                "confidence": advice.confidence,
                "chance": advice.chance_of_regret,
                "gain_share": advice.gain_share,
                "gain_confidence": advice.gain_confidence,
                "regret": regret,
                "regret_share": regret / float(extent.max - extent.min),
            }
            row = {"searched": searched, "start": number, "duel": models.duels}
            rows.append(row | {name: f"{value:.6g}" for name, value in said.items()})
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
    parser.add_argument("--starts", type=int, default=20)
    parser.add_argument("--setting", action="append", help="PROBLEM:DEVIATION")
    parser.add_argument("--duels", type=int, default=40)
    parser.add_argument("--every", type=int, default=20)
    parser.add_argument("--record", type=Path, help="a table to add the advices to")
    parser.add_argument("--read", type=Path, help="a table of advices to print")
    options = parser.parse_args()
    start("advice to stop, and what is left to gain")
    if options.read:
        _print_tables(pd.read_csv(options.read))
        return
    tables = []
    for name, deviation in chosen_settings(options.setting, SETTINGS):
        counts = options.starts, options.duels, options.every
        found = advices(make_problem(name), deviation, *counts)
        told = pd.DataFrame(found).assign(problem=name, deviation=deviation)
        if options.record:
            _record(options.record, told[list(COLUMNS)])
        tables.append(told.astype(dict.fromkeys(SAID, float)))
    _print_tables(pd.concat(tables))


def _print_tables(table: pd.DataFrame) -> None:
    settings = table.groupby(list(WHICH), sort=False)
    print("share of the range shown that is left to gain")
    gains = [
        [*setting, duel, len(told), *_gains(told)]
        for setting, found in settings
        for duel, told in found.groupby("duel")
    ]
    print_table(
        [
            *(*WHICH, "duel", "runs", "stated", "its median", "true", "its median"),
            "median regret",
        ],
        gains,
    )
    print("advices to stop, and those that are wrong")
    print_table(
        [*WHICH, "advices", "stop", "wrong", "largest regret", "largest share"],
        [[*setting, *_stops(told, setting[1])] for setting, told in settings],
    )
    print("probabilities of little regret, and how often there is little")
    sure = [
        [*setting, *line]
        for setting, told in settings
        for line in _calibration(told, setting[1])
    ]
    print_table([*WHICH, "of", "probability", "advices", "mean", "so it is"], sure)


def _gains(told: pd.DataFrame) -> list[float]:
    stated, true = told["gain_share"], told["regret_share"]
    means = stated.mean(), stated.median(), true.mean(), true.median()
    return [*map(float, means), float(told["regret"].median())]


def _little(told: pd.DataFrame, deviation: float) -> dict[str, np.ndarray]:
    """Whether there is little regret in preference, and in utility."""
    chance = true_chance(torch.tensor(told["regret"].to_numpy()), deviation)
    return {
        "confidence": (chance < TOLERANCE).numpy(),
        "gain_confidence": (told["regret_share"] < GAIN_TOLERANCE).to_numpy(),
    }


def _stops(told: pd.DataFrame, deviation: float) -> list[object]:
    """Figures of all advices to stop."""
    little = _little(told, deviation)
    stop = told["stop"].to_numpy() > 0
    wrong = stop & ~little["confidence"] & ~little["gain_confidence"]
    there = told[stop]
    largest = [there[name].max() if stop.any() else "-" for name in SAID[-2:]]
    return [len(told), int(stop.sum()), int(wrong.sum()), *largest]


def _calibration(told: pd.DataFrame, deviation: float) -> list[list[object]]:
    """Share of what is little, by how sure the advice is of it."""
    lines: list[list[object]] = []
    names = {"confidence": "preference", "gain_confidence": "utility"}
    for name, little in _little(told, deviation).items():
        sure = told[name].to_numpy()
        for least, most in pairwise(CONFIDENCES):
            these = (sure >= least) & (sure < most)
            if these.any():
                within = f"{least:g} to {min(most, 1.0):g}"
                shares = float(sure[these].mean()), float(little[these].mean())
                lines.append([names[name], within, int(these.sum()), *shares])
    return lines


def _record(path: Path, table: pd.DataFrame) -> None:
    table.to_csv(
        path, mode="a", header=not path.exists(), index=False, lineterminator="\n"
    )


if __name__ == "__main__":
    main()
