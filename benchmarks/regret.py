"""Simple regret of the incumbent after 5 random and 25 chosen duels.

    python benchmarks/regret.py [--starts 20] [--first-seed 0] [--model skew]
        [--acquisition eiig] [--problem hartmann6]

Prints median, mean and worst regret and the seconds a duel. Noise-free answers, 20
starts, with the settings of ``python -m botorch_pref``, whose names of acquisition
functions it takes. Regret is that of the point that the model recommends after the last
answer (``incumbent``).
"""

from __future__ import annotations

import argparse

import torch
from report import print_table, seconds, start
from torch import Generator

from botorch_pref.commands.registry import ACQUISITIONS, MODELS, make_fit
from botorch_pref.simulation.duel_loop import Duel, run_duels
from botorch_pref.simulation.judge import ProbitJudge
from botorch_pref.simulation.problems import make_problem
from botorch_pref.simulation.proposals import ChosenDuels

NUM_RANDOM, NUM_CHOSEN = 5, 25
# Median and mean of optuna-dashboard's preferential sampler on 20 starts.
TODAYS_BEST = {"hartmann6": (0.92, 1.07), "sixhumpcamel": (0.0023, 0.0030)}


def one_run(problem_name: str, model: str, acquisition: str, seed: int) -> float:
    """Simple regret at the end of one run.

    Args:
        problem_name: Of the test function.
        model: Its name on the command line.
        acquisition: Its name on the command line.
        seed: Of the random duels and of everything that is drawn later.
    """
    problem = make_problem(problem_name)
    generator = Generator().manual_seed(seed)
    propose = ChosenDuels(
        dim=problem.dim,
        num_random=NUM_RANDOM,
        acquisition=acquisition,
        make_acquisition=ACQUISITIONS[acquisition],
        generator=generator,
    )
    judge = ProbitJudge(problem.utility, 0.0, generator)
    duels: list[Duel] = list(
        run_duels(propose, judge, make_fit(model), NUM_RANDOM + NUM_CHOSEN)
    )
    return float(problem.regret(duels[-1].incumbent))


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--model", choices=sorted(MODELS), default="skew")
    parser.add_argument("--acquisition", choices=sorted(ACQUISITIONS), default="eiig")
    parser.add_argument("--problem", choices=sorted(TODAYS_BEST), help="default: all")
    options = parser.parse_args()
    first = options.first_seed
    start(
        f"simple regret after {NUM_RANDOM} random and {NUM_CHOSEN} chosen duels, "
        f"starts {first} to {first + options.starts - 1}, {options.model} with "
        f"{options.acquisition}"
    )
    rows = []
    for name, (median, mean) in TODAYS_BEST.items():
        if options.problem not in (None, name):
            continue
        regrets: list[float] = []
        spent = [
            seconds(
                lambda name=name, seed=seed, regrets=regrets: regrets.append(
                    one_run(name, options.model, options.acquisition, seed)
                )
            )
            for seed in range(first, first + options.starts)
        ]
        reached = torch.tensor(regrets, dtype=torch.float64)
        a_duel = sum(spent) / (options.starts * (NUM_RANDOM + NUM_CHOSEN))
        # The usual median of an even number of runs, the mean of the middle two.
        middle, worst = float(reached.quantile(0.5)), float(reached.amax())
        rows.append([name, middle, median, float(reached.mean()), mean, worst, a_duel])
    print_table(
        [
            "problem",
            "median",
            "to beat",
            "mean",
            "to beat",
            "worst",
            "seconds a duel",
        ],
        rows,
    )


if __name__ == "__main__":
    main()
