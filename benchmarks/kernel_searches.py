"""What the library's search finds under other priors of a person's utility.

    python -m benchmarks.kernel_searches --problem hartmann6 --noise 0.3 --starts 25

Plays the suite's runs of `default_model` and `next_question` (`library`, duels, or with
``--options 4`` rankings), with another kernel in the model. Prints mean regrets after
15, 20 and 30 questions with standard errors, and how far above those of `DuelKernel`
they are from the same starts. ``--noise`` is the judge's deviation, 0 of one who never
errs; with ``--known-exact`` the model knows that, as those of other rules of the suite
do. A run takes about 3 s, of rankings 9.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from botorch.fit import fit_gpytorch_mll
from gpytorch.kernels import Kernel
from torch import Tensor

from benchmarks.report import print_table, start
from benchmarks.suite.cell import LIBRARY, Cell, Rule, Setting
from benchmarks.suite.errors import SuiteError
from benchmarks.suite.runs.batch import play_batch
from benchmarks.suite.runs.batch_player import answers
from benchmarks.suite.runs.kernels import scaled, stationary_kernel
from benchmarks.suite.runs.library import PlayerOfLibrary
from benchmarks.suite.runs.play import COLUMNS
from benchmarks.suite.runs.registry import exact_likelihood
from botorch_pref import (
    DuelKernel,
    EPPreferenceGP,
    PreferenceMarginalLogLikelihood,
    incumbent,
)
from botorch_pref.asking.default_models import likelihoods_of_people

RANDOM, QUESTIONS, CHECKPOINTS = 5, 30, (15, 20, 30)

Choices = list[list[int]]

KERNELS: dict[str, Callable[[int, Choices], Kernel]] = {
    "DuelKernel": lambda dim, choices: DuelKernel(dim, categorical=choices),
    "one expected input": partial(scaled, expected_inputs=1.0),
    "2.5 times the output scale": partial(scaled, times=2.5),
    "lengthscales of 0.7": partial(scaled, lengthscale=0.7, lengthscale_spread=0.8),
    "lengthscales of 1": partial(scaled, lengthscale=1.0, lengthscale_spread=0.8),
    "stationary": lambda dim, choices: stationary_kernel(dim),
}
"""From the number of inputs and the columns of each choice."""


class PlayerUnderKernel(PlayerOfLibrary):
    """The library's player with one of `KERNELS` in the place of `DuelKernel`."""

    kernel = "DuelKernel"
    knows_exact = False

    def learn(self, told: Tensor) -> None:
        """See base class."""
        X, feedback = told[0].flatten(0, 1), answers(told.shape[1], self.rule)
        problem = self.problem
        kernel = KERNELS[self.kernel](problem.dim, [*map(list, problem.categorical)])
        likelihood: Any = likelihoods_of_people([feedback])
        self.model = EPPreferenceGP(
            X,
            feedback=[feedback],
            likelihood=exact_likelihood() if self.knows_exact else likelihood,
            covar_module=kernel.to(X),
        )
        fit_gpytorch_mll(
            PreferenceMarginalLogLikelihood(self.model.likelihood, self.model)
        )
        self.best = incumbent(self.model.eval())


def regrets(
    name: str, setting: Setting, rule: Rule, seeds: range, knows_exact: bool
) -> Tensor:
    """Regrets at the checkpoints, `starts x checkpoints`.

    Args:
        name: Of the kernel.
        setting: Problem and judge.
        rule: Of the library.
        seeds: One a start.
        knows_exact: Whether the model knows that the judge never errs.
    """
    fields = {"kernel": name, "knows_exact": knows_exact}
    player = type("Player", (PlayerUnderKernel,), fields)
    column, rows = COLUMNS.index("regret_recommended"), []
    for seed in seeds:
        cell = Cell("kernel-searches", setting, rule, seed, RANDOM, QUESTIONS)
        (outcome,) = play_batch([cell], player)
        if outcome.error:
            raise SuiteError(outcome.error)
        row = [float(outcome.rows[number - 1][column]) for number in CHECKPOINTS]
        rows.append(row)
    return torch.tensor(rows, dtype=torch.double)


def mean_error(values: Tensor) -> str:
    """The mean with its standard error."""
    error = float(values.std()) / len(values) ** 0.5
    return f"{float(values.mean()):.3g} ± {error:.2g}"


def main() -> None:
    """Prints one table, a row for each kernel."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--problem", default="hartmann6")
    parser.add_argument("--noise", type=float, default=0.0)
    parser.add_argument("--starts", type=int, default=25)
    parser.add_argument("--options", type=int, choices=(2, 4), default=2)
    parser.add_argument("--kernel", action="append", choices=[*KERNELS][1:])
    parser.add_argument("--known-exact", action="store_true")
    asked = parser.parse_args()
    start("regret, and above that of DuelKernel from the same starts")
    judge = "probit" if asked.noise else "exact"
    setting = Setting(asked.problem, judge, asked.noise)
    (rule,) = (rule for rule in LIBRARY if rule.options == asked.options)
    names = ["DuelKernel", *(asked.kernel or [*KERNELS][1:])]
    shared = setting, rule, range(asked.starts), asked.known_exact
    found = {name: regrets(name, *shared) for name in names}
    table = [
        [name, *map(mean_error, values.T), *map(mean_error, (values - usual).T)]
        for usual in [found["DuelKernel"]]
        for name, values in found.items()
    ]
    above = [f"above {number}" for number in CHECKPOINTS]
    print_table(("kernel", *map(str, CHECKPOINTS), *above), table)


if __name__ == "__main__":
    main()
