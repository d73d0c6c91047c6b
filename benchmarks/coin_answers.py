"""How well a coin's answers are foreseen, and whether they are called guesses.

    python -m benchmarks.coin_answers [--starts 8] [--options 2] [--task bump]

A coin, or with ``--task`` a person of that task who errs, answers the questions that
the library asks about six inputs. After some answers, pairs of options shown and of new
designs are foreseen by `default_model` and by the average over plausible models: the
log-loss of an answer, beside that of a fair coin, .693, and `guessing_probability`.
"""

from __future__ import annotations

import argparse
import math

import torch
from torch import Generator, Tensor

from benchmarks.calibration import make_person
from benchmarks.report import print_table, start
from botorch_pref.models import averaged_utility, guessing_probability
from botorch_pref.models.plausible import GUESSED
from botorch_pref.simulation import RunSettings, make_problem, run_questions
from botorch_pref.simulation.judges import LapsingJudge, ProbitJudge
from botorch_pref.simulation.tasks import TASK_NAMES

CHECKPOINTS = {2: (20, 40), 4: (5, 10, 20)}
PAIRS = 200
"""Of new designs; half as many are of options shown."""


def rows_of(task: str | None, options: int, seed: int) -> list[list[object]]:
    """Rows of one start, one for each number of answers.

    Args:
        task: Whose person answers; a coin without one.
        options: Of a question.
        seed: Of her answers, and of the pairs that are foreseen.
    """
    source = Generator().manual_seed(seed)
    if task is None:
        problem = make_problem("hartmann6")
        judge = LapsingJudge(ProbitJudge(problem.utility, 0.0, source), 1.0, source)
    else:
        person = make_person(task, "errs", seed)
        problem, judge = person.problem, person.judge
    rows: list[list[object]] = []
    settings = RunSettings("", options, CHECKPOINTS[options][-1], 0.0, seed)
    for answered in run_questions(problem, judge, settings):
        if answered.number + 1 not in CHECKPOINTS[options]:
            continue
        model = answered.model
        first, second = problem.project(
            torch.rand(2 * PAIRS, problem.dim, generator=source, dtype=torch.double)
        ).chunk(2)
        points = model.datapoints
        places = torch.randint(len(points), (2, PAIRS // 2), generator=source)
        first = torch.cat([first, points[places[0]]])
        second = torch.cat([second, points[places[1]]])
        truth = (
            torch.full((len(first),), 0.5).double()
            if task is None
            else person.preferred(first, second)
        )
        losses = [
            log_loss(teller, first, second, truth)
            for teller in (model, averaged_utility(model)[0])
        ]
        rows.append([answered.number + 1, *losses, guessing_probability(model)])
    return rows


def log_loss(model: object, first: Tensor, second: Tensor, truth: Tensor) -> float:
    """The expected log-loss of a duel, with the true probabilities of the first.

    Args:
        model: That foresees.
        first: `n x d`.
        second: `n x d`.
        truth: `n`.
    """
    with torch.no_grad():
        stated = model.duel_probability(first, second, observation_noise=True)  # type: ignore[attr-defined]
    return float(-(truth * stated.log() + (1 - truth) * (1 - stated).log()).mean())


def main() -> None:
    """Prints means and standard errors over starts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int, default=8)
    parser.add_argument("--options", type=int, default=2, choices=CHECKPOINTS)
    parser.add_argument("--task", choices=TASK_NAMES)
    arguments = parser.parse_args()
    start("log-loss of an answer that is foreseen")
    runs = [
        rows_of(arguments.task, arguments.options, seed)
        for seed in range(arguments.starts)
    ]
    table = []
    for rows in zip(*runs, strict=True):
        values = torch.tensor(rows, dtype=torch.double)
        errors = values.std(0) / math.sqrt(len(rows)) if len(rows) > 1 else values * 0
        texts = [
            f"{float(mean):.3f} ± {float(error):.3f}"
            for mean, error in zip(values.mean(0)[1:], errors[1:], strict=True)
        ]
        called = int((values[:, 3] > GUESSED).sum())
        table.append([int(values[0, 0]), *texts, f"{called} of {len(rows)}"])
    heads = ["answers", "default model", "average", "guesses", "called guesses"]
    print_table(heads, table)


if __name__ == "__main__":
    main()
