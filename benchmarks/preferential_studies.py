"""Preferential studies of optuna-dashboard: our sampler against its own and chance.

    python benchmarks/preferential_studies.py [--starts 10] [--answers 20] [--shown 4]

As many trials as ``--shown`` says are shown all the time. The judge names the worst of
them and hears each utility with an error; a new trial takes its place. Problems are a
mixed space (a rate on a log scale, layers, steps of a dropout, and three activations)
and two of the suite's, with its errors. Prints the median and the mean regret of the
trial that is recommended after all answers, with the standard error, and processor
seconds a proposal. What is recommended are optuna-dashboard's ``best_trials``, on
average where they are several, and ours by ``best_trial`` besides.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import optuna
import torch
from optuna.samplers import BaseSampler, RandomSampler
from optuna_dashboard.preferential import create_study
from optuna_dashboard.preferential.samplers.gp import PreferentialGPSampler
from report import print_table, start
from torch import Generator

from botorch_pref.optuna import PreferenceSampler
from botorch_pref.simulation.problems import make_problem

SAMPLERS: dict[str, Callable[[int], BaseSampler]] = {
    "PreferenceSampler": PreferenceSampler,
    "PreferentialGPSampler": lambda seed: PreferentialGPSampler(seed=seed),
    "random": RandomSampler,
}

Suggest = Callable[[Any], float]
"""Suggests the parameters of a trial and says how far it is from the best."""


def mixed(trial: Any) -> float:
    """A network: the best rate is 1e-3, with 5 layers, a dropout of .3 and relu."""
    rate = math.log10(trial.suggest_float("rate", 1e-5, 1e-1, log=True))
    layers = trial.suggest_int("layers", 1, 12)
    drop = trial.suggest_float("drop", 0.0, 0.6, step=0.1)
    lost = {"relu": 0.0, "gelu": 1.0, "tanh": 1.5}
    lost_by = lost[trial.suggest_categorical("act", [*lost])]
    return (
        lost_by + 2 * (rate + 3) ** 2 + 0.1 * (layers - 5) ** 2 + 5 * (drop - 0.3) ** 2
    )


def of_suite(name: str) -> Suggest:
    """A problem of the suite.

    Args:
        name: Of `botorch_pref.simulation`.
    """
    problem = make_problem(name)

    def suggest(trial: Any) -> float:
        x = [trial.suggest_float(f"x{i}", 0.0, 1.0) for i in range(problem.dim)]
        return float(problem.regret(torch.tensor(x, dtype=torch.double)))

    return suggest


PROBLEMS: dict[str, tuple[Suggest, float]] = {
    "mixed": (mixed, 0.3),
    "sixhumpcamel-narrow": (of_suite("sixhumpcamel-narrow"), 0.2),
    "hartmann6": (of_suite("hartmann6"), 0.3),
}
"""How far a trial is from the best, and the deviation of the judge's errors."""


def play(
    suggest: Suggest, error: float, name: str, seed: int, options: argparse.Namespace
) -> tuple[float, float, float]:
    """One study: the regret by optuna-dashboard, by the sampler, seconds a proposal.

    Args:
        suggest: The problem.
        error: Deviation of the judge's errors.
        name: Of the sampler.
        seed: Of the sampler and the judge.
        options: How many trials are shown, and how many answers are given.
    """
    sampler = SAMPLERS[name](seed)
    study = create_study(n_generate=options.shown, sampler=sampler)
    source, regrets, spent = Generator().manual_seed(seed), {}, 0.0
    for _ in range(options.answers):
        while study.should_generate():
            begin = time.process_time()
            trial = study.ask()
            regrets[trial.number] = suggest(trial)
            spent += time.process_time() - begin
        lost = {worse.number for _, worse in study.preferences}
        shown = [trial for trial in study.trials if trial.number not in lost]
        errors = (error * torch.randn(len(shown), generator=source)).tolist()
        heard = [regrets[t.number] + e for t, e in zip(shown, errors, strict=True)]
        worst = shown.pop(heard.index(max(heard)))
        study.report_preference(shown, worst)
    theirs = statistics.mean(regrets[trial.number] for trial in study.best_trials)
    ours = theirs
    if isinstance(sampler, PreferenceSampler):
        ours = regrets[sampler.best_trial(study).number]
    return theirs, ours, spent / len(regrets)


def main() -> None:
    """Plays all starts and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int, default=10)
    parser.add_argument("--answers", type=int, default=20)
    parser.add_argument("--shown", type=int, default=4)
    parser.add_argument("--problem", choices=PROBLEMS, action="append")
    options = parser.parse_args()
    start("Preferential studies of optuna-dashboard")
    # Their sampler warns of mixed spaces, and optuna of what is experimental.
    warnings.simplefilter("ignore")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    rows = []
    for problem in options.problem or PROBLEMS:
        for name in SAMPLERS:
            runs = [
                play(*PROBLEMS[problem], name, seed, options)
                for seed in range(options.starts)
            ]
            figures = torch.tensor(runs, dtype=torch.double)
            error = figures.std(0, correction=0) / max(options.starts - 1, 1) ** 0.5
            for recommends, column in (("best_trials", 0), ("best_trial", 1)):
                if column == 0 or name == "PreferenceSampler":
                    median = float(figures[:, column].median())
                    mean = (
                        f"{float(figures[:, column].mean()):.3f} ± {error[column]:.3f}"
                    )
                    seconds = float(figures[:, 2].mean())
                    rows.append([problem, name, recommends, median, mean, seconds])
    print_table(["problem", "sampler", "by", "median", "mean", "seconds"], rows)


if __name__ == "__main__":
    main()
