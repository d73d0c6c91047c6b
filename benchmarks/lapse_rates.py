"""Regret with and without a lapse rate in the likelihood of duels.

    python benchmarks/lapse_rates.py [--starts 50] [--setting hartmann6:0.3:0.1]
        [--model "lapse 0.1"] [--record FILE.csv]
    python benchmarks/lapse_rates.py --read benchmarks/records/lapse_rates.csv

Five random and 25 chosen duels, by `DuelingExploringEIIG` under `DuelKernel`, with
judges of whom a coin gives a tenth of the answers, or none; `screen_rules.py` says how
fifty starts are played at once. A setting is a problem, the judge's deviation per item
and her rate of lapses. Models have the noise of the command line (0.001 for a judge who
never errs, else 1), noise that is learned, or besides a lapse rate, fixed or learned,

    P(first wins) = lapse / 2 + (1 - lapse) Phi(u / sqrt(2 noise)).

Prints each model's regret, and by how much it is above that of the command line's model
on the same starts, with the standard error of that difference. First compares evidence
and gradient of the batched models with those of the package, for the likelihood that
`PairwiseLapseLikelihood` is here. ``--read`` prints the tables of a record.
"""

from __future__ import annotations

import argparse
import csv
import math
from collections import defaultdict
from pathlib import Path
from typing import ClassVar

import torch
from batched_duels import BatchedDuels, Prior
from batched_play import play
from lapsing_duels import Errors, LapsingDuels
from report import chosen_settings, print_table, start
from screen_rules import EXACT_NOISE, FAR, HUMAN_NOISE
from torch import Tensor
from torch.distributions import Bernoulli

from botorch_pref import Comparisons, EPPreferenceGP
from botorch_pref.likelihoods import DensityFactors, PreferenceLikelihood
from botorch_pref.models import DuelKernel
from botorch_pref.simulation.problems import make_problem

NUM_RANDOM, NUM_CHOSEN = 5, 25
SETTINGS = (
    ("hartmann6", 0.0, 0.1),
    ("sixhumpcamel-narrow", 0.0, 0.1),
    ("hartmann6", 0.3, 0.1),
    ("sixhumpcamel-narrow", 0.2, 0.1),
    ("hartmann6", 0.0, 0.0),
    ("sixhumpcamel-narrow", 0.0, 0.0),
    ("hartmann6", 0.3, 0.0),
    ("sixhumpcamel-narrow", 0.2, 0.0),
)
COMMAND_LINE = "command line"
CHECKED = 2
"""How many runs of a model are compared with the package."""

COLUMNS = "problem", "deviation", "lapses", "model", "start", "regret", "noise", "lapse"
Setting = tuple[str, float, float]


def models(deviation: float, lapses: float) -> dict[str, Errors]:
    """Beliefs about a judge, by name, with the noise that she is thought to have.

    Args:
        deviation: Of the judge, per item.
        lapses: Her rate.
    """
    errs = deviation > 0 or lapses > 0
    noise = HUMAN_NOISE if errs else EXACT_NOISE
    known = {
        COMMAND_LINE: Errors(noise),
        "noise learned": Errors(noise, learns_noise=True),
        "lapse 0.05": Errors(noise, 0.05),
        "lapse 0.1": Errors(noise, 0.1),
        "lapse learned": Errors(noise, 0.1, learns_lapse=True),
    }
    if errs and deviation == 0:
        known["noise 0.001"] = Errors(EXACT_NOISE)
        known["noise 0.001, lapse 0.1"] = Errors(EXACT_NOISE, 0.1)
    return known


class PairwiseLapseLikelihood(PreferenceLikelihood[Comparisons]):
    """Probit answers but for a share that a coin gives.

    Args:
        noise: Variance per item.
        lapse: The share.
    """

    explains: ClassVar = {Comparisons: DensityFactors}

    def __init__(self, noise: Tensor, lapse: Tensor) -> None:
        super().__init__()
        self.noise = torch.nn.Parameter(noise)
        self.lapse = torch.nn.Parameter(lapse)

    def forward(self, function_samples: Tensor) -> Bernoulli:
        """See base class."""
        hears = torch.special.ndtr(function_samples / (2 * self.noise).sqrt())
        return Bernoulli(probs=0.5 * self.lapse + (1 - self.lapse) * hears)


def difference_from_package(model: LapsingDuels) -> tuple[float, float]:
    """Largest errors of the log evidences and of their gradients.

    In all that a model may learn: logarithms of output scale, lengthscales and noise,
    and the logit of the lapse rate.

    Args:
        model: Of all runs, of which the first few are compared.
    """
    runs = torch.arange(min(model.runs, CHECKED))
    x = torch.cat([model.logs, model.raw], 1)[runs].requires_grad_()
    cut = 1 + model.dim
    value = model.evidence(x[:, :cut], x[:, cut:], runs)
    (slope,) = torch.autograd.grad(value.sum(), x)
    theirs = [_of_package(model, run) for run in runs.tolist()]
    apart = value - torch.stack([log_evidence for log_evidence, _ in theirs])
    slopes_apart = slope - torch.stack([gradient for _, gradient in theirs])
    return float(apart.detach().abs().max()), float(slopes_apart.abs().max())


def _of_package(model: LapsingDuels, run: int) -> tuple[Tensor, Tensor]:
    """Log evidence of a run by the package's expectation propagation, and gradient."""
    noise, lapse = (v[run, 0].clone() for v in model.noise_and_lapse())
    likelihood = PairwiseLapseLikelihood(noise, lapse)
    kernel = DuelKernel(model.dim).double()
    kernel.outputscale = float(model.logs[run, 0].exp())
    kernel.base_kernel.lengthscale = model.logs[run, 1:].exp()
    numbers = torch.arange(2 * model.duels).reshape(2, -1).mT
    gp = EPPreferenceGP(
        model.shown()[run], numbers, likelihood=likelihood, covar_module=kernel
    )
    value = gp.log_evidence()
    wanted = kernel.raw_outputscale, kernel.base_kernel.raw_lengthscale
    slopes = torch.autograd.grad(value, (*wanted, likelihood.noise, likelihood.lapse))
    # The kernel's are in logarithms, of what is above the shortest lengthscale.
    length = kernel.base_kernel.lengthscale.detach()
    above = kernel.base_kernel.raw_lengthscale.detach().exp()
    own = slopes[0].reshape(1), (slopes[1] * length / above).reshape(-1)
    theirs = [
        (slopes[2] * noise).reshape(1),
        (slopes[3] * lapse * (1 - lapse)).reshape(1),
    ]
    return value.detach(), torch.cat([*own, *theirs])


def run(setting: Setting, errors: Errors, starts: int) -> tuple[BatchedDuels, Tensor]:
    """The last models of all starts, and the regrets of what they recommend.

    Args:
        setting: Problem, deviation and lapses.
        errors: What the models believe of the judge.
        starts: How many.
    """

    def make(
        prior: Prior, winners: Tensor, losers: Tensor, before: BatchedDuels | None
    ) -> BatchedDuels:
        if errors == Errors(errors.noise):
            return BatchedDuels(prior, winners, losers, errors.noise, before)
        assert before is None or isinstance(before, LapsingDuels)
        return LapsingDuels(prior, winners, losers, errors, before)

    problem = make_problem(setting[0])
    counts = NUM_RANDOM, NUM_RANDOM + NUM_CHOSEN
    *_, model = play(problem, *setting[1:], make, starts, *counts)
    return model, problem.regret(model.incumbent())


def main() -> None:
    """Prints a table for each setting."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int, default=50)
    parser.add_argument("--setting", action="append", help="PROBLEM:DEVIATION:LAPSES")
    parser.add_argument("--model", action="append", help="one of the table's")
    parser.add_argument("--record", type=Path, help="a table to add the runs to")
    parser.add_argument("--read", type=Path, help="a table of runs to print")
    options = parser.parse_args()
    start(f"regret after {NUM_RANDOM} random and {NUM_CHOSEN} chosen duels")
    if options.read:
        with options.read.open(encoding="utf-8", newline="") as file:
            _print_tables(list(csv.DictReader(file)))
        return
    rows = []
    for setting in chosen_settings(options.setting, SETTINGS):
        for name, errors in models(*setting[1:]).items():
            if not options.model or name in options.model:
                found = _played(setting, name, errors, options.starts)
                if options.record:
                    _record(options.record, found)
                rows += found
    _print_tables(rows)


def _played(
    setting: Setting, name: str, errors: Errors, starts: int
) -> list[dict[str, str]]:
    """Rows of a record, one for each start."""
    model, regret = run(setting, errors, starts)
    noise = torch.full((starts, 1), errors.noise)
    lapse = torch.zeros(starts, 1)
    if isinstance(model, LapsingDuels):
        noise, lapse = model.noise_and_lapse()
        apart = difference_from_package(model)
        print(f"{name}: evidences, gradients off by {apart[0]:.1e}, {apart[1]:.1e}")
    figures = torch.cat([regret.unsqueeze(1), noise, lapse], 1).tolist()
    return [
        dict(
            zip(
                COLUMNS,
                (*map(str, setting), name, str(i), *(f"{f:.6g}" for f in each)),
                strict=True,
            )
        )
        for i, each in enumerate(figures)
    ]


def _print_tables(rows: list[dict[str, str]]) -> None:
    """Prints medians, means and paired differences of each setting."""
    by_setting: dict[tuple[str, ...], dict[str, list[dict[str, str]]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for row in rows:
        key = row["problem"], row["deviation"], row["lapses"]
        by_setting[key][row["model"]].append(row)
    for (problem, deviation, lapses), found in by_setting.items():
        print(f"{problem}, deviation {deviation}, lapses {lapses}")
        regrets = {
            name: torch.tensor([float(row["regret"]) for row in each])
            for name, each in found.items()
        }
        table = []
        for name, regret in regrets.items():
            apart = regret - regrets.get(COMMAND_LINE, regret)
            error = float(apart.std()) / math.sqrt(len(apart))
            learned = [
                sum(float(row[what]) for row in found[name]) / len(regret)
                for what in ("noise", "lapse")
            ]
            middle, mean = float(regret.quantile(0.5)), float(regret.mean())
            far = int((regret > FAR).sum())
            table.append(
                [name, middle, mean, far, float(apart.mean()), error, *learned]
            )
        header = "model", "median", "mean", f"regret > {FAR}", "above", "error"
        print_table([*header, "mean noise", "mean lapse"], table)


def _record(path: Path, rows: list[dict[str, str]]) -> None:
    new = not path.exists()
    with path.open("a", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
