"""How sure the advice to stop is, and how sure it should be.

    python -m benchmarks.stopping_errors [--set judged|chosen] [--starts 24] [--pairs]
        [--setting hartmann6:0.3] [--duels 60] [--every 20] [--record FILE.csv]
    python -m benchmarks.stopping_errors --read benchmarks/records/stopping_errors.csv

Loops of duels by `DuelingExploringEIIG` under EP and the stationary kernel, five of
them random; the suite plays all starts of a setting at once. So that many can be
played, challengers are the best of some hundred points, the noise of a judge who never
errs is fixed, and hyper-parameters are fitted after each of the first ten answers, the
15th and every tenth. With ``--pairs`` the loops are those of experiments: two new
points by `DuelingEUBO`, whose noise is learned and whose person may lapse. After every
so many duels `stopping_advice` is asked about the incumbent, with the bounds of the
cube.

The set ``chosen`` has the settings on which the confidence and the tolerance of gains
were chosen, ``judged`` those on which they are judged. Of each, four tables are
printed: what is left to gain, stated and true, as shares of the range of utilities
shown; how many runs are told to stop by when, as `docs/logbook/stopping.md` has it,
and how many had found enough at the end; at several confidences, how many runs are
told to stop, by the first advice that says so, and how many of these wrongly: neither
is the true chance of regret, by the judge's own noise, below its tolerance, nor the
true share below that of gains; and how often what the probabilities are of is so.
``--read`` prints the tables of a record.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from torch import Generator, Tensor

from benchmarks.report import chosen_settings, print_table, start
from benchmarks.suite.cell import Cell, Rule, Setting
from benchmarks.suite.runs.batch import play_batch
from benchmarks.suite.runs.batch_player import (
    BatchPlayer,
    answers,
    exploring,
    fixed_noise,
    lapsing_noise,
    models_of,
    uniform,
)
from benchmarks.suite.runs.kernels import stationary_kernel
from benchmarks.suite.runs.registry import HUMAN_NOISE, NOISE
from benchmarks.suite.studies.own import LAPSES
from benchmarks.suite.studies.rules import EXPLORING
from botorch_pref import EPPreferenceGP, incumbent
from botorch_pref.acquisition import DistinctOptions
from botorch_pref.evaluation import stopping_advice, stopping_candidates
from botorch_pref.evaluation.progress import CONFIDENCE, GAIN_TOLERANCE, TOLERANCE
from botorch_pref.simulation.duel_loop import index_pairs
from botorch_pref.simulation.problem import Problem
from botorch_pref.simulation.problems import make_problem

NUM_RANDOM = 5
SETTINGS = {
    "judged": (
        ("hartmann6", 0.0),
        ("hartmann6", 0.1),
        ("hartmann6", 0.3),
        ("sixhumpcamel-narrow", 0.0),
        ("sixhumpcamel-narrow", 0.2),
        ("branin", 0.0),
        ("branin", 10.0),
        ("forrester", 2.0),
    ),
    "chosen": (
        ("levy", 0.0),
        ("hartmann3", 0.0),
        ("hartmann3", 0.3),
        ("ackley6", 0.0),
    ),
}
CONFIDENCES = 0.0, 0.25, 0.5, 0.75, 0.9, 1.01
AT = 0.6, 0.7, CONFIDENCE, 0.8, 0.9
WHICH = "problem", "deviation"
FATES = "wrongly", "found enough", "and not told"
SAID = (
    *("stop", "confidence", "chance", "gain_share", "gain_confidence"),
    *("regret", "regret_share"),
)
COLUMNS = (*WHICH, "start", "duel", *SAID)
POINTS, DEVIATIONS = 192, (0.05, 0.01)
"""Points among which a challenger is chosen: all over the cube, and as many around the
incumbent and then around the best so far."""


def advices(
    rule: Rule,
    name: str,
    deviation: float,
    starts: int,
    num_duels: int,
    every: int,
) -> list[dict[str, object]]:
    """A row for each advice.

    Args:
        rule: That asks: of one challenger, or of two new points.
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

    class Advised(QuickPlayer):
        """A player who is asked for advice now and then."""

        def learn(self, told: Tensor) -> None:
            super().learn(told)
            if told.shape[1] >= NUM_RANDOM and told.shape[1] % every == 0:
                rows.extend(_asked(problem, self, told))

    setting = Setting(name, "probit" if deviation else "exact", deviation)
    cell = Cell("stopping", setting, rule, 0, NUM_RANDOM, num_duels)
    cells = [replace(cell, seed=seed) for seed in range(starts)]
    error = play_batch(cells, Advised)[0].error
    if error:
        raise SystemExit(error)
    return rows


class QuickPlayer(BatchPlayer):
    """The rule of the command line or of experiments, at a fraction of its time.

    Args:
        rule: Its names.
        problem: What is optimised.
        errs: Whether the judge errs.
        sources: Of each run's draws.
    """

    def __init__(
        self, rule: Rule, problem: Problem, errs: bool, sources: Sequence[Generator]
    ) -> None:
        super().__init__(rule, problem, errs, sources)
        # Experiments are not told that a person never errs.
        noise, told = lapsing_noise, True
        if rule == EXPLORING:
            noise, told = fixed_noise(HUMAN_NOISE if errs else NOISE), errs
        make = models_of(EPPreferenceGP, stationary_kernel, noise)
        self.make_model = make(problem.dim, told, len(sources))

    def learn(self, told: Tensor) -> None:
        """See base class."""
        number = told.shape[1]
        if self.model is None or number <= 10 or number == 15 or number % 10 == 0:
            super().learn(told)
            return
        last = answers(1, self.rule)
        self.model = self.model.condition_on_observations(told[:, -1], last).eval()
        self.best = incumbent(self.model)

    @torch.no_grad()
    def ask(self) -> Tensor:
        """See base class."""
        if self.rule != EXPLORING:
            with torch.enable_grad():
                return super().ask()
        value = DistinctOptions(exploring(self.model, self.best, self.search))
        reference = value.X_ref
        assert reference is not None
        anywhere = uniform(self.search.sources, POINTS, 1, reference.shape[-1])
        points = torch.cat([anywhere, self._around(reference, 0.1)], 1)
        best = _best_of(value, points)
        for deviation in DEVIATIONS:
            best = _best_of(value, self._around(best, deviation))
        return torch.cat([best, reference], -2)

    def _around(self, centre: Tensor, deviation: float) -> Tensor:
        """A point of each run and others around it, `num_runs x n x 1 x d`."""
        z = torch.special.ndtri(
            uniform(self.search.sources, POINTS, 1, centre.shape[-1])
        )
        near = (centre.unsqueeze(1) + deviation * z).clamp(0.0, 1.0)
        return torch.cat([centre.unsqueeze(1), near], 1)


def _best_of(value: AcquisitionFunction, points: Tensor) -> Tensor:
    """The best of some points of each run, `num_runs x 1 x d`."""
    values = torch.cat([value(part) for part in points.transpose(0, 1).split(64)])
    return points[torch.arange(len(points)), values.argmax(0)]


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
        advice = stopping_advice(
            model,
            stopping_candidates(best, cube),
            recommended=best,
            shown=shown,
            bounds=cube,
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
        row = {"start": number, "duel": told.shape[1]}
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
    kernel = stationary_kernel(told.shape[-1]).to(points)
    learned = player.model.covar_module
    kernel.outputscale = learned.outputscale[run].detach()
    kernel.base_kernel.lengthscale = learned.base_kernel.lengthscale[run].detach()
    heard = player.model.likelihood
    likelihood = type(heard)(heard.noise.detach().expand(len(told))[run])
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
    parser.add_argument("--set", choices=SETTINGS, default="judged")
    parser.add_argument("--starts", type=int, default=24)
    parser.add_argument("--setting", action="append", help="PROBLEM:DEVIATION")
    parser.add_argument("--duels", type=int, default=60)
    parser.add_argument("--every", type=int, default=20)
    parser.add_argument("--pairs", action="store_true", help="ask two new points")
    parser.add_argument("--record", type=Path, help="a table to add the advices to")
    parser.add_argument("--read", type=Path, help="a table of advices to print")
    options = parser.parse_args()
    start("advice to stop, and what is left to gain")
    if options.read:
        read = pd.read_csv(options.read)
        pairs = list(zip(read["problem"], read["deviation"], strict=True))
        for title, settings in SETTINGS.items():
            of_set = read[[pair in settings for pair in pairs]]
            if len(of_set):
                print(f"settings: {title}\n")
                _print_tables(of_set)
        return
    tables = []
    for name, deviation in chosen_settings(options.setting, SETTINGS[options.set]):
        counts = options.starts, options.duels, options.every
        rule = LAPSES.better if options.pairs else EXPLORING
        found = advices(rule, name, deviation, *counts)
        told = pd.DataFrame(found).assign(problem=name, deviation=deviation)
        if options.record:
            _record(options.record, told[list(COLUMNS)])
        tables.append(told.astype(dict.fromkeys(SAID, float)))
    _print_tables(pd.concat(tables))


def _print_tables(table: pd.DataFrame) -> None:
    settings = table.groupby(list(WHICH), sort=False)
    print("share of the range shown that is left to gain")
    header = "duel", "runs", "stated", "its median", "true", "its median"
    gains = [
        [*setting, duel, len(told), *_gains(told)]
        for setting, found in settings
        for duel, told in found.groupby("duel")
    ]
    print_table([*WHICH, *header, "median regret"], gains)
    print("runs that are told to stop by when, wrongly, and that had found enough")
    duels = sorted(table["duel"].unique())
    print_table(
        [*WHICH, *(f"by {duel}" for duel in duels), *FATES],
        [*fates(settings, duels)],
    )
    print("runs that are told to stop, and that had found less than promised")
    stops = [
        [*setting, *line]
        for setting, told in settings
        for line in _stops(told, setting[1])
    ]
    for confidence in AT:
        lines = [line[3:] for line in stops if line[2] == confidence]
        runs, told, wrong = (sum(column) for column in zip(*lines, strict=True))
        stops.append(["all", "", confidence, runs, told, wrong])
    print_table([*WHICH, "confidence", "runs", "told", "wrongly"], stops)
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


def fates(settings: Any, duels: Sequence[int]) -> Iterator[list[object]]:
    """Of each setting and all: runs told to stop, and those that had found enough."""
    total = np.zeros(len(duels) + len(FATES), int)
    for setting, found in settings:
        first, last = _first_told(found, CONFIDENCE), found[found["duel"] == duels[-1]]
        wrong, enough = ~_enough(first, setting[1]), _enough(last, setting[1])
        counts = (
            *(int((first["duel"] <= duel).sum()) for duel in duels),
            int(wrong.sum()),
            int(enough.sum()),
            int((enough & ~last["start"].isin(first["start"])).sum()),
        )
        total += counts
        yield [*setting, *counts]
    yield ["all", "", *total.tolist()]


def _first_told(told: pd.DataFrame, confidence: float) -> pd.DataFrame:
    """The first advice of each run that is as sure as this."""
    sure = told[["confidence", "gain_confidence"]].max(axis=1)
    return told[sure >= confidence].sort_values("duel").drop_duplicates("start")


def _enough(told: pd.DataFrame, deviation: float) -> np.ndarray:
    """Whether as much had been found as the advice to stop promises."""
    return np.logical_or(*_little(told, deviation).values())


def _little(told: pd.DataFrame, deviation: float) -> dict[str, np.ndarray]:
    """Whether there is little regret in preference, and in utility."""
    chance = true_chance(torch.tensor(told["regret"].to_numpy()), deviation)
    return {
        "confidence": (chance < TOLERANCE).numpy(),
        "gain_confidence": (told["regret_share"] < GAIN_TOLERANCE).to_numpy(),
    }


def _stops(told: pd.DataFrame, deviation: float) -> list[list[float]]:
    """At each confidence: runs, those told to stop, and those told so wrongly."""
    lines = []
    for confidence in AT:
        first = _first_told(told, confidence)
        wrong = ~_enough(first, deviation)
        counts = told["start"].nunique(), len(first), int(wrong.sum())
        lines.append([confidence, *counts])
    return lines


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
