"""What becomes of options that nobody ever beat: shown again, or left to the model.

    python -m benchmarks.unbeaten_options [--persons 12] [--first-seed 0]
        [--questions 30] [--task two-humps]

People who err rank questions of four, as the library asks and without rivals (see
`unbeaten_rival`), from the same five questions of spread options. A row is one person:
the largest utility among these, and in how many of their winners the model believes
more than in that one's; the regret in the end, as a share of the range, both ways; and
how many options were rivals.
"""

from __future__ import annotations

import argparse

import torch
from torch import Tensor

from benchmarks.calibration import Person, make_person
from benchmarks.report import print_table, start
from botorch_pref import Rankings, incumbent
from botorch_pref.asking.request import INITIAL
from botorch_pref.simulation.question_loop import problem_model, problem_question
from botorch_pref.simulation.tasks import TASK_NAMES

SIZE = 4


def searched(
    person: Person, questions: int, seed: int, rivals: bool
) -> tuple[Tensor, Tensor]:
    """Asks somebody; returns options, the best of a question first, `m x 4 x d`.

    With them come the numbers of options in each question that were shown before, `m`.

    Args:
        person: Who answers.
        questions: How many.
        seed: Of the options.
        rivals: Whether unbeaten options are shown again.
    """
    problem = person.problem
    asked = torch.empty(0, SIZE, problem.dim, dtype=torch.double)
    repeated: list[int] = []
    model = best = None
    for _ in range(questions):
        question = problem_question(problem, model, SIZE, seed, best=best)
        before = asked.flatten(0, 1)
        known = (question.options.unsqueeze(-2) == before).all(-1).any(-1)
        repeated.append(int(known.sum()))
        order = person.judge.order(question.options)
        asked = torch.cat([asked, question.options[order].unsqueeze(0)])
        places = torch.arange(len(asked) * SIZE).view(-1, SIZE)
        model = problem_model(problem, asked.flatten(0, 1), Rankings(places))
        best = None if rivals else incumbent(model)
    return asked, torch.tensor(repeated)


def row_of(task: str, questions: int, seed: int) -> list[object]:
    """The row of one person, see the module.

    Args:
        task: Whose person answers.
        questions: How many.
        seed: Of the person and of the options.
    """
    regrets, number = [], 0
    for rivals in (True, False):
        person = make_person(task, "errs", seed)
        problem = person.problem
        asked, repeated = searched(person, questions, seed, rivals)
        places = torch.arange(questions * SIZE).view(-1, SIZE)
        best = incumbent(problem_model(problem, asked.flatten(0, 1), Rankings(places)))
        assert problem.worst is not None
        extent = problem.best - problem.worst
        regrets.append(float(problem.regret(best.flatten())) / extent)
        if rivals:
            number = int((repeated[INITIAL:] - 1).clamp_min(0).sum())
    first = asked[:INITIAL]
    model = problem_model(problem, first.flatten(0, 1), Rankings(places[: len(first)]))
    with torch.no_grad():
        means = model.posterior(first[:, 0]).mean.flatten()
    utility = problem.utility(first)
    largest = utility[:, 0].argmax()
    more = int((means > means[largest]).sum())
    return [seed, float(utility.max()), more, *regrets, number]


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", choices=TASK_NAMES, default="two-humps")
    parser.add_argument("--persons", type=int, default=12)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--questions", type=int, default=30)
    options = parser.parse_args()
    start("options that nobody ever beat")
    seeds = range(options.first_seed, options.first_seed + options.persons)
    rows = [row_of(options.task, options.questions, seed) for seed in seeds]
    print_table(
        [
            *("person", "largest utility", "winners believed in more"),
            *("regret, rivals", "regret, without", "rivals"),
        ],
        rows,
    )


if __name__ == "__main__":
    main()
