"""What a stop on a line is worth beside duels and four ranked options.

    python -m benchmarks.line_questions --starts 12 --record FILE
    python -m benchmarks.line_questions --read benchmarks/records/line_questions.csv

A simulated person answers questions of one kind: stops on lines that the library asks
for, stops on the best lines in any direction, duels, or four options to rank. She never
errs, or errs in one of three ways (`ERRORS`): what she hears has noise, which on a line
is correlated over a quarter of it, as `LineProbitLikelihood` has it; her hand misses
where she wants to stop; or she goes on past it until she hears the loss.

The first table has the regret of the best design so far after 15 and 30 questions, as
mean ± standard error (and median). The second has it after nine minutes of her time, of
which 4 seconds go into each look at a design, 2 into a decision, and 8 into a hand that
moves from end to end: `SECONDS`. With ``--record`` every run is added to a file, and
those that the file has are not played again.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path

import torch
from botorch.models.model import Model
from torch import Generator, Tensor

from benchmarks.report import print_table, start
from botorch_pref import LineChoices, default_model, incumbent, next_question
from botorch_pref.acquisition.design_space import DesignSpace
from botorch_pref.acquisition.line_search import LineEUBO, line_ends
from botorch_pref.acquisition.option_search import best_options
from botorch_pref.simulation import Problem, make_problem
from botorch_pref.simulation.question_loop import (
    RunSettings,
    make_judge,
    run_questions,
)

LOOK, DECISION, SWEEP = 4, 2, 8
SECONDS = {
    # To the other end, a look at either side of where it is best, and the stop.
    "line": SWEEP + 2 * LOOK + DECISION,
    "oblique line": SWEEP + 2 * LOOK + DECISION,
    "duel": 2 * LOOK + DECISION,
    # Each is put where it belongs.
    "four ranked": 4 * (LOOK + DECISION),
}
NINE_MINUTES = 540
POSITIONS = 201
CORRELATION_LENGTH = 0.25
CHECKPOINTS = (15, 30)

DEVIATIONS = {"hartmann6": 0.3, "sixhumpcamel-narrow": 0.2, "bump": 0.2}
"""Standard deviation of what is heard, where that has noise: as in the suite."""

HAND = 0.05
"""Standard deviation of the hand that misses, in lengths of the line."""

ERRORS = ("none", "hears", "hand", "overshoot")
"""Never errs; noise; a hand that misses; a stop that is worse by half a deviation of
`DEVIATIONS`, on the far side of the best, or at the end of the line."""

FIELDS = ("problem", "errors", "kind", "start", "question", "regret")
Run = tuple[str, str, str, int]


def stop(problem: Problem, path: Tensor, errors: str, generator: Generator) -> int:
    """The place of the design at which a person stops who moves along a path.

    Args:
        problem: Whose utility she has.
        path: ``POSITIONS x d``.
        errors: Of `ERRORS`.
        generator: Of what she hears, of her hand and of the end she begins at.
    """
    heard, last = problem.utility(path), len(path) - 1
    if errors == "hears":
        share = torch.linspace(0, 1, len(path), dtype=path.dtype)
        distance = (share.unsqueeze(-1) - share).abs()
        covariance = (-distance / CORRELATION_LENGTH).exp()
        draw = torch.randn(len(path), generator=generator, dtype=path.dtype)
        noise = torch.linalg.cholesky(covariance) @ draw
        heard = heard + DEVIATIONS[problem.name] * noise
    place = int(heard.argmax())
    if errors == "hand":
        miss = float(torch.randn((), generator=generator)) * HAND * last
        return min(max(round(place + miss), 0), last)
    if errors == "overshoot":
        onward = 1 if float(torch.rand((), generator=generator)) < 0.5 else -1
        beyond = heard[place:] if onward == 1 else heard[: place + 1].flip(0)
        worse = beyond < heard[place] - DEVIATIONS[problem.name] / 2
        steps = int(worse.int().argmax()) if bool(worse.any()) else len(beyond) - 1
        return place + onward * steps
    return place


class TowardEUBO(LineEUBO):
    """The value of the line from edge to edge through a reference and a design."""

    def __init__(
        self, model: Model, X_ref: Tensor, space: DesignSpace, generator: Generator
    ) -> None:
        super().__init__(model, X_ref, generator=generator)
        self.start, self.space = X_ref, space

    def forward(self, X: Tensor) -> Tensor:
        """The value of the line toward a design, ``batch_shape x 1 x d``."""
        toward = X.squeeze(-2)
        ends = line_ends(self.space, self.start.expand_as(toward), toward)
        value: Tensor = super().forward(ends)
        return value


def oblique_ends(model: Model, bounds: Tensor) -> Tensor:
    """The best line in any direction through the best design, ``2 x d``."""
    space, best = DesignSpace.from_bounds(bounds), incumbent(model)
    generator = Generator().manual_seed(len(model.datapoints))
    toward = best_options(
        TowardEUBO(model, best, space, generator),
        space,
        1,
        best,
        beside=best,
        open_questions=best[:0].unsqueeze(0),
        seed=0,
    )
    return line_ends(space, best, toward).squeeze(0)


def line_regrets(
    problem: Problem, errors: str, questions: int, seed: int, oblique: bool = False
) -> Iterator[float]:
    """Regret after each of a run of stops on lines.

    Args:
        problem: Its utility and inputs.
        errors: Of `ERRORS`.
        questions: Number of stops.
        seed: Of the lines and of the person.
        oblique: Whether lines of a model move all inputs together.
    """
    generator = Generator().manual_seed(seed)
    bounds = torch.tensor([[0.0], [1.0]], dtype=torch.double).expand(2, problem.dim)
    X, stops = bounds[:0], []
    model: Model | None = None
    share = torch.linspace(0, 1, POSITIONS, dtype=torch.double)
    for _ in range(questions):
        question = next_question(model, bounds, seed=seed, kind="line")
        ends = question.options
        if oblique and question.acquisition == LineEUBO.__name__:
            ends = oblique_ends(model, bounds)
        path = torch.lerp(ends[0], ends[1], share.unsqueeze(-1))
        place = stop(problem, path, errors, generator)
        X = torch.cat([X, ends])
        stops.append(float(share[place]))
        lines = torch.arange(len(X)).view(-1, 2)
        answers = LineChoices(lines, torch.tensor(stops, dtype=torch.double))
        model = default_model(X, answers)
        yield float(problem.regret(incumbent(model).flatten()))


def option_regrets(
    problem: Problem, errors: str, size: int, questions: int, seed: int
) -> Iterator[float]:
    """Regret after each of a run of questions of options."""
    noise = DEVIATIONS[problem.name] ** 2 if errors == "hears" else 0.0
    settings = RunSettings(problem.name, size, questions, noise, seed)
    judge = make_judge(problem, settings)
    return (answered.regret for answered in run_questions(problem, judge, settings))


def regrets(run: Run, questions: int) -> list[float]:
    """Regret after each question of a run."""
    name, errors, kind, seed = run
    problem = make_problem(name)
    if kind.endswith("line"):
        oblique = kind.startswith("oblique")
        return [*line_regrets(problem, errors, questions, seed, oblique)]
    size = {"duel": 2, "four ranked": 4}[kind]
    return [*option_regrets(problem, errors, size, questions, seed)]


def num_questions(kind: str, questions: int) -> int:
    """Questions of a run: as many as are asked for, and those of nine minutes."""
    return max(questions, questions * NINE_MINUTES // (30 * SECONDS[kind]))


def recorded(path: Path) -> dict[Run, list[float]]:
    """Regrets of the runs of a file, question by question."""
    runs: dict[Run, list[float]] = {}
    with path.open(newline="", encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            key = row["problem"], row["errors"], row["kind"], int(row["start"])
            runs.setdefault(key, []).append(float(row["regret"]))
    return runs


def add_record(path: Path, run: Run, values: Iterable[float]) -> None:
    """Adds a run to a file."""
    is_new = not path.exists()
    with path.open("a", newline="", encoding="utf-8") as lines:
        writer = csv.writer(lines)
        if is_new:
            writer.writerow(FIELDS)
        writer.writerows([*run, i, f"{v:.6g}"] for i, v in enumerate(values, 1))


def summary(values: Tensor) -> str:
    """Mean ± standard error (median) of some numbers."""
    error = (
        values.std() / len(values) ** 0.5 if len(values) > 1 else values.new_zeros(())
    )
    return f"{values.mean():.4f} ± {error:.4f} ({values.median():.4f})"


def print_summaries(runs: dict[Run, list[float]], questions: int) -> None:
    """Prints regrets by questions and by a person's seconds."""
    marks = [m for m in CHECKPOINTS if m <= questions] or [questions]
    cells: dict[tuple[str, str, str], list[list[float]]] = {}
    for (name, errors, kind, _), values in runs.items():
        cells.setdefault((name, errors, kind), []).append(values)
    rows = []
    for (name, errors, kind), values in cells.items():
        seconds = SECONDS[kind]
        in_time = questions * NINE_MINUTES // (30 * seconds)
        columns = [
            summary(torch.tensor([run[mark - 1] for run in values]))
            for mark in (*marks, in_time)
        ]
        rows.append([name, errors, kind, len(values), *columns])
    after = (f"after {mark}" for mark in marks)
    print_table(["problem", "errors", "kind", "runs", *after, "in nine minutes"], rows)


def main() -> None:
    """Plays every kind of question from the same starts, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problem", action="append")
    parser.add_argument("--errors", action="append", choices=ERRORS)
    parser.add_argument("--kind", action="append", choices=SECONDS)
    parser.add_argument("--starts", type=int, default=6)
    parser.add_argument("--questions", type=int, default=CHECKPOINTS[-1])
    parser.add_argument("--record", type=Path, help="a file to add runs to")
    parser.add_argument("--read", type=Path, help="a file to print, and play nothing")
    options = parser.parse_args()
    start("regret by kind of question")
    if options.read is not None:
        print_summaries(recorded(options.read), options.questions)
        return
    record = options.record
    runs = {} if record is None or not record.exists() else recorded(record)
    for seed, name, errors, kind in product(
        range(options.starts),
        options.problem or DEVIATIONS,
        options.errors or ERRORS,
        options.kind or SECONDS,
    ):
        # Who ranks has no hand to miss with.
        if errors in ("hand", "overshoot") and not kind.endswith("line"):
            continue
        run = name, errors, kind, seed
        if run in runs:
            continue
        runs[run] = regrets(run, num_questions(kind, options.questions))
        if record is not None:
            add_record(record, run, runs[run])
    print_summaries(runs, options.questions)


if __name__ == "__main__":
    main()
