"""What a stop on a line is worth beside duels and four ranked options.

    python benchmarks/line_questions.py --problem hartmann6 --noise 0.09 --seeds 0:6

A simulated person answers questions of one kind: stops on lines that the library asks
for, stops on the best lines in any direction, duels, or four options to rank. Of
each kind the script prints the regret of the best design so far after 15 and 30
questions, as mean ± standard error (and median), and what is reached in ten minutes of
her time: 10 seconds a duel (two looks of 4 and a tap), 24 for four ranked (four looks
and a sort of 8), 18 for a line (12 to move and look, 6 to settle). Noise on a line is
correlated over a quarter of it, as `LineProbitLikelihood` has it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator

import torch
from botorch.models.model import Model
from torch import Generator, Tensor

from benchmarks.report import print_table, start
from botorch_pref import LineChoices, default_model, incumbent, next_question
from botorch_pref.acquisition.line_search import LineEUBO, line_ends
from botorch_pref.acquisition.option_search import DesignSpace, best_options
from botorch_pref.simulation import Problem, make_problem
from botorch_pref.simulation.question_loop import (
    RunSettings,
    make_judge,
    run_questions,
)

SECONDS = {"line": 18, "oblique line": 18, "duel": 10, "four ranked": 24}
TEN_MINUTES = 600
POSITIONS = 201
CORRELATION_LENGTH = 0.25
CHECKPOINTS = (15, 30)


def stop(problem: Problem, path: Tensor, noise: float, generator: Generator) -> int:
    """The place of the design at which a person stops who moves along a path.

    Args:
        problem: Whose utility she has.
        path: ``POSITIONS x d``.
        noise: Variance of what she hears at one position.
        generator: Of her noise.
    """
    utilities = problem.utility(path)
    share = torch.linspace(0, 1, len(path), dtype=path.dtype)
    distance = (share.unsqueeze(-1) - share).abs()
    covariance = (-distance / CORRELATION_LENGTH).exp()
    draw = torch.randn(len(path), generator=generator, dtype=path.dtype)
    heard = utilities + noise**0.5 * (torch.linalg.cholesky(covariance) @ draw)
    return int(heard.argmax())


def oblique_ends(model: Model, bounds: Tensor) -> Tensor:
    """The best line in any direction through the best design, ``2 x d``."""
    space, best = DesignSpace.of(bounds), incumbent(model)
    generator = Generator().manual_seed(len(model.datapoints))
    toward = best_options(
        LineEUBO(model, best, space, generator=generator),
        space,
        1,
        best,
        beside=best,
        open_questions=best[:0].unsqueeze(0),
        seed=0,
    )
    return line_ends(space, best, toward).squeeze(0)


def line_regrets(
    problem: Problem, settings: RunSettings, oblique: bool
) -> Iterator[float]:
    """Regret after each of a run of stops on lines.

    Args:
        problem: Its utility and inputs.
        settings: Noise, number of questions and seed.
        oblique: Whether lines of a model move all inputs together.
    """
    generator = Generator().manual_seed(settings.seed)
    bounds = torch.tensor([[0.0], [1.0]], dtype=torch.double).expand(2, problem.dim)
    X, stops = bounds[:0], []
    model: Model | None = None
    share = torch.linspace(0, 1, POSITIONS, dtype=torch.double)
    for _ in range(settings.questions):
        question = next_question(model, bounds, seed=settings.seed, kind="line")
        ends = question.options
        if oblique and question.acquisition == LineEUBO.__name__:
            ends = oblique_ends(model, bounds)
        path = torch.lerp(ends[0], ends[1], share.unsqueeze(-1))
        place = stop(problem, path, settings.noise, generator)
        X = torch.cat([X, ends])
        stops.append(float(share[place]))
        lines = torch.arange(len(X)).view(-1, 2)
        answers = LineChoices(lines, torch.tensor(stops, dtype=torch.double))
        model = default_model(X, answers)
        yield float(problem.regret(incumbent(model).flatten()))


def option_regrets(problem: Problem, settings: RunSettings) -> Iterator[float]:
    """Regret after each of a run of questions of options."""
    judge = make_judge(problem, settings)
    return (answered.regret for answered in run_questions(problem, judge, settings))


def regrets(
    kind: str, name: str, noise: float, questions: int, seed: int
) -> list[float]:
    """Regret after each question of a kind."""
    problem = make_problem(name)
    options = {"duel": 2, "four ranked": 4}.get(kind, 2)
    settings = RunSettings(name, options, questions, noise, seed)
    runs: dict[str, Callable[[], Iterator[float]]] = {
        "line": lambda: line_regrets(problem, settings, False),
        "oblique line": lambda: line_regrets(problem, settings, True),
    }
    run = runs.get(kind, lambda: option_regrets(problem, settings))
    return [*run()]


def summary(values: Tensor) -> str:
    """Mean ± standard error (median) of some numbers."""
    error = (
        values.std() / len(values) ** 0.5 if len(values) > 1 else values.new_zeros(())
    )
    return f"{values.mean():.3f} ± {error:.3f} ({values.median():.3f})"


def main() -> None:
    """Plays every kind of question from the same seeds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problem", default="hartmann6")
    parser.add_argument("--noise", type=float, default=0.0)
    parser.add_argument("--seeds", default="0:6", help="FIRST:END")
    parser.add_argument("--questions", type=int, default=CHECKPOINTS[-1])
    parser.add_argument("--kind", action="append", choices=SECONDS)
    options = parser.parse_args()
    start(f"regret on {options.problem}, noise {options.noise:g}, by kind of question")
    seeds = range(*map(int, options.seeds.split(":")))
    marks = [m for m in CHECKPOINTS if m <= options.questions] or [options.questions]
    rows = []
    for kind in options.kind or SECONDS:
        runs = torch.tensor(
            [
                regrets(kind, options.problem, options.noise, options.questions, seed)
                for seed in seeds
            ]
        )
        in_time = min(TEN_MINUTES // SECONDS[kind], options.questions)
        columns = [runs[:, number - 1] for number in (*marks, in_time)]
        rows.append([kind, len(runs), *map(summary, columns)])
        print(kind, [round(float(v), 4) for v in columns[-2]], flush=True)
    header = ["kind", "runs", *(f"after {m}" for m in marks), "in ten minutes"]
    print_table(header, rows)


if __name__ == "__main__":
    main()
