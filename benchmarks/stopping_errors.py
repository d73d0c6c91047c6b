"""Errors of the advice to stop, and of what it says is left to gain.

    python -m benchmarks.stopping_errors [--starts 20] [--setting hartmann6:0.3]
        [--duels 40] [--every 20] [--record FILE.csv]
    python -m benchmarks.stopping_errors --read benchmarks/records/stopping_errors.csv

Loops of duels by `DuelingExploringEIIG` under `DuelKernel`, five of them random, with
the noise of the command line; the suite plays all starts at once. After every so many
duels `stopping_advice` is asked about the incumbent, of EP at the
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
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from benchmarks.report import chosen_settings, print_table, start
from benchmarks.suite.cell import Cell, Setting
from benchmarks.suite.runs.batch import play_batch
from benchmarks.suite.runs.batch_player import BatchPlayer
from benchmarks.suite.studies.rules import DEFAULT as RULE
from botorch_pref import DuelKernel, EPPreferenceGP, PairwiseProbitLikelihood
from botorch_pref.evaluation import stopping_advice, stopping_candidates
from botorch_pref.evaluation.progress import GAIN_TOLERANCE, TOLERANCE
from botorch_pref.simulation.duel_loop import index_pairs
from botorch_pref.simulation.problems import Problem, make_problem

NUM_RANDOM = 5
SETTINGS = (
    ("hartmann6", 0.0),
    ("sixhumpcamel-narrow", 0.0),
    ("hartmann6", 0.3),
    ("sixhumpcamel-narrow", 0.2),
)
CONFIDENCES = 0.0, 0.1, 0.5, 0.9, 1.01
WHICH = "problem", "deviation", "searched"
SAID = (
    *("stop", "confidence", "chance", "gain_share", "gain_confidence"),
    *("regret", "regret_share"),
)
COLUMNS = (*WHICH, "start", "duel", *SAID)


def advices(
    name: str, deviation: float, starts: int, num_duels: int, every: int
) -> list[dict[str, object]]:
    """Two rows for each advice.

    Args:
        name: Of the problem that is optimised.
        deviation: Of the judge, per item.
        starts: How many runs.
        num_duels: How long they are.
        every: After how many duels advice is asked for.

    Raises:
        SystemExit: A run failed.
    """
    rows: list[dict[str, object]] = []
    problem = make_problem(name)

    class Advised(BatchPlayer):
        """The rule of the command line, which is asked for advice now and then."""

        def learn(self, told: Tensor) -> None:
            super().learn(told)
            if told.shape[1] >= NUM_RANDOM and told.shape[1] % every == 0:
                rows.extend(_asked(problem, self, told))

    setting = Setting(name, "probit" if deviation else "exact", deviation)
    cell = Cell("stopping", setting, RULE, 0, NUM_RANDOM, num_duels)
    cells = [replace(cell, seed=seed) for seed in range(starts)]
    error = play_batch(cells, Advised)[0].error
    if error:
        raise SystemExit(error)
    return rows


def _asked(
    problem: Problem, player: BatchPlayer, told: Tensor
) -> list[dict[str, object]]:
    cube = torch.tensor([[0.0], [1.0]]).double().expand(2, problem.dim)
    rows: list[dict[str, object]] = []
    for number, best in enumerate(player.recommended().split(1)):
        model = model_of_run(player, told, number)
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
            row = {"searched": searched, "start": number, "duel": told.shape[1]}
            rows.append(row | {name: f"{value:.6g}" for name, value in said.items()})
    return rows


def model_of_run(player: BatchPlayer, told: Tensor, run: int) -> EPPreferenceGP:
    """EP on the duels of one run of a batch, with its hyper-parameters.

    Args:
        player: Of all runs.
        told: Their duels, `num_runs x m x 2 x d`, winners first.
        run: Which.
    """
    assert player.model is not None
    points, pairs = index_pairs(*told[run].unbind(1))
    kernel, found = DuelKernel(told.shape[-1]).to(points), player.model.covar_module
    kernel.outputscale = found.outputscale[run].detach()
    kernel.base_kernel.lengthscale = found.base_kernel.lengthscale[run].detach()
    likelihood = PairwiseProbitLikelihood(float(player.model.likelihood.noise))
    model = EPPreferenceGP(points, pairs, likelihood=likelihood, covar_module=kernel)
    return model.eval()


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
        found = advices(name, deviation, *counts)
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
