"""What ``python -m botorch_pref`` finds: regrets of some seeds after 10, 20 and 30.

    python -m benchmarks.main_command [--problem hartmann6] [--noise 0] [--seeds 10]

A simulated judge, who errs by noise of that variance, ranks four options at a time.
Prints the regret of the best design so far of each seed, their mean, how many are below
``--below``, and processor seconds of a question with its fit.
"""

from __future__ import annotations

import argparse
import time

import torch

from benchmarks.report import print_table, start
from botorch_pref.simulation import RunSettings, make_problem, run_questions
from botorch_pref.simulation.question_loop import make_judge

CHECKPOINTS = (10, 20, 30)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problem", default="hartmann6")
    parser.add_argument("--options", type=int, default=4)
    parser.add_argument("--noise", type=float, default=0.0)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--below", type=float, default=0.1)
    arguments = parser.parse_args()
    start(f"{arguments.problem}, noise {arguments.noise:g}")
    rows = []
    for seed in range(arguments.seeds):
        settings = RunSettings(
            problem=arguments.problem,
            options=arguments.options,
            questions=max(CHECKPOINTS),
            noise=arguments.noise,
            seed=seed,
        )
        rows.append([seed, *regrets_and_time(settings)])
    table = torch.tensor(rows)
    rows.append(["mean", *table[:, 1:].mean(0).tolist()])
    print_table(["seed", *map(str, CHECKPOINTS), "seconds a question"], rows)
    found = int((table[:, len(CHECKPOINTS)] < arguments.below).sum())
    print(f"{found} of {len(table)} seeds end below {arguments.below:g}.")


def regrets_and_time(settings: RunSettings) -> list[float]:
    """The regrets at the checkpoints, and processor seconds of a question."""
    problem, begin = make_problem(settings.problem), time.process_time()
    judge = make_judge(problem, settings)
    regrets = [question.regret for question in run_questions(problem, judge, settings)]
    seconds = (time.process_time() - begin) / settings.questions
    return [*(regrets[count - 1] for count in CHECKPOINTS), seconds]


if __name__ == "__main__":
    main()
