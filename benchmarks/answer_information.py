"""What answers to chosen questions tell of each parameter, at most.

    python -m benchmarks.answer_information [--options 4] [--task bump] [--persons 2]

Of one parameter that matters nobody can tell more than one who knows everything else:
the person's utility, her noise and her lapses. To him the log likelihood ratio of the
answers is that of the true utility to its average over the parameter, in nats. At three
nats, odds of 20 to 1, he would name the parameter with 95 % if it mattered or not with
equal chances before. The people are those of `benchmarks.calibration`, and so are the
questions. Prints the ratio of each parameter that matters after some answers, and how
many are three or more.
"""

from __future__ import annotations

import argparse
import math

import torch
from torch import Tensor

from benchmarks.calibration import LAPSES, Person, make_person, play
from benchmarks.report import print_table, start
from botorch_pref.simulation.problem import Parameter
from botorch_pref.simulation.tasks import TASK_NAMES

CLEAR = 3.0
"""Nats."""
DRAWS = 256
"""Values of a parameter over which the utility is averaged."""
GRID, REACH = 2001, 8.0
"""Places of the integral over what is perceived, and its ends in deviations."""


def order_log_probability(utilities: Tensor, deviation: float) -> Tensor:
    r"""Log probabilities that options are ranked as they stand, the first the best.

    With the perceived utility of option ``j`` normal around its utility, the
    probability is :math:`\int p_1(z) G_2(z) dz`, where :math:`G_j(t) =
    \int_{-\infty}^t p_j(z) G_{j+1}(z) dz` is that of options from ``j`` on being in
    order and below ``t``. One in `1 / LAPSES` rankings is drawn at random.

    Args:
        utilities: ``m x k``.
        deviation: Of the noise of an option.
    """
    low = float(utilities.min()) - REACH * deviation
    high = float(utilities.max()) + REACH * deviation
    z = torch.linspace(low, high, GRID, dtype=utilities.dtype)
    below = torch.ones(len(utilities), GRID, dtype=utilities.dtype)
    for utility in reversed(utilities.unbind(-1)):
        scaled = (z - utility.unsqueeze(-1)) / deviation
        density = (-0.5 * scaled.square()).exp() / (deviation * math.sqrt(2 * math.pi))
        integral = torch.cumulative_trapezoid(density * below, z)
        below = torch.nn.functional.pad(integral, (1, 0))
    attentive, k = below[:, -1], utilities.shape[-1]
    return ((1 - LAPSES) * attentive + LAPSES / math.factorial(k)).log()


def averaged_over(person: Person, parameter: Parameter, options: Tensor) -> Tensor:
    """Utilities of options, averaged over random values of one parameter.

    Args:
        person: Whose utility it is.
        parameter: That is averaged over.
        options: `m x k x d`.
    """
    problem, columns = person.problem, [*parameter.columns]
    values = person.designs(DRAWS)[:, columns]
    moved = options.expand(DRAWS, *options.shape).clone()
    moved[..., columns] = values[:, None, None]
    return problem.utility(moved).mean(0)


def information(person: Person, options: Tensor) -> list[float]:
    """What the answers tell of each parameter that matters, in nats.

    Args:
        person: Who answered.
        options: `m x k x d` of each question, as she ranked them, the best first.
    """
    deviation, utility = person.deviation, person.problem.utility(options)
    whole = order_log_probability(utility, deviation).sum()
    nats = []
    for parameter in person.problem.parameters:
        if not parameter.dead:
            average = averaged_over(person, parameter, options)
            less = order_log_probability(average, deviation).sum()
            nats.append(float(whole - less))
    return nats


def main() -> None:
    """Plays the people and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", action="append", choices=TASK_NAMES)
    parser.add_argument("--persons", type=int, default=2)
    parser.add_argument("--options", type=int, default=2)
    parser.add_argument("--errors", default="errs")
    parser.add_argument("--answers", type=int, action="append")
    options = parser.parse_args()
    start("what answers tell of each parameter, to one who knows everything else")
    answers = options.answers or [10, 30, 60]
    rows, clear = [], {count: [0, 0] for count in answers}
    for task in options.task or TASK_NAMES:
        for seed in range(options.persons):
            person = make_person(task, options.errors, seed)
            played = play(person, answers, options.options)
            for count, (points, feedback) in zip(answers, played, strict=True):
                places = getattr(feedback, feedback.index_fields[0])
                state = person.generator.get_state()
                nats = information(person, points[places])
                person.generator.set_state(state)
                texts = " ".join(f"{value:.1f}" for value in nats)
                rows.append([task, seed, count, texts])
                clear[count][0] += sum(value >= CLEAR for value in nats)
                clear[count][1] += len(nats)
    print_table(["task", "person", "answers", "nats of each parameter"], rows)
    for count, (named, total) in clear.items():
        print(f"after {count}: {named} of {total} parameters have {CLEAR:g} or more")


if __name__ == "__main__":
    main()
