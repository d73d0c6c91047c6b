"""What a stop on a line is worth beside duels, four ranked options and planes.

    python -m benchmarks.line_questions --starts 20:50 --jobs 16 --record FILE
    python -m benchmarks.line_questions --read benchmarks/records/line_questions.csv
    python -m benchmarks.line_questions --page docs/logbook/lines.md

A simulated person answers questions of one kind (`KINDS`). She never errs, or errs in
one of three ways (`ERRORS`): what she hears has noise, which on a line is correlated
over a quarter of it, as `LineProbitLikelihood` has it; her hand misses where she wants
to stop; or she goes on past it until she hears the loss.

The table has the regret of the best design so far after 8, 15 and 30 questions, as
mean ± standard error (and median), and in five minutes of her time (`PersonTime`).
Duels and rankings of many starts are those of the suite (`STUDIES`). With
``--record`` every run is added to a file as soon as it ends, and those that the file
has are not played again.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path

import joblib
import torch
from botorch.acquisition.analytic import LogExpectedImprovement
from botorch.models.model import Model
from botorch.optim import optimize_acqf
from botorch.utils.sampling import manual_seed
from pandas import DataFrame, concat
from torch import Generator, Tensor

from benchmarks.line_stops import (
    CORRELATION_LENGTH,
    POSITIONS,
    WIDTHS,
    width_rows,
)
from benchmarks.report import print_table, start
from benchmarks.suite.cell import GLISP, LIBRARY, Cell, Rule, Setting
from benchmarks.suite.pages.tables import folded, markdown
from benchmarks.suite.runs.batch import play_together
from benchmarks.suite.runs.play import COLUMNS
from benchmarks.suite.runs.store import read_record
from botorch_pref import (
    Choices,
    LineChoices,
    default_model,
    incumbent,
    next_question,
    recommend,
)
from botorch_pref.acquisition.design_space import DesignSpace
from botorch_pref.acquisition.line_search import LineEUBO, line_ends
from botorch_pref.acquisition.option_search import best_options
from botorch_pref.asking.request import INITIAL_LINES
from botorch_pref.simulation import Problem, make_problem
from botorch_pref.simulation.question_loop import (
    RunSettings,
    make_judge,
    run_questions,
)

CHECKPOINTS = (8, 15, 30)

DEVIATIONS = {
    "hartmann6": 0.3,
    "sixhumpcamel-narrow": 0.2,
    "hartmann3-dead": 0.386,
    "levy12": 38.0,
}
"""Standard deviation of what is heard, where that has noise: as in the suite."""

HAND = 0.05
"""Standard deviation of the hand that misses, in lengths of the line."""

ERRORS = ("none", "hears", "hand", "overshoot")
"""Never errs; noise; a hand that misses; a stop that is worse by half a deviation of
`DEVIATIONS`, on the far side of the best, or at the end of the line."""

OF_SUITE = {
    "duel of the suite": Rule("ep-lapses", "eubo-pair"),
    "four ranked of the suite": Rule("ep", "joint-kg", 4, "order"),
    "duel of next_question": LIBRARY[1],
    "four ranked of next_question": LIBRARY[0],
}
"""Rules of the suite's studies that have the same problems and errors."""

STUDIES = ("default", "people-tasks")

RECORD = Path("benchmarks/records/line_questions.csv")

FIELDS = ("problem", "errors", "kind", "start", "question", "regret")
Run = tuple[str, str, str, int]


@dataclass(frozen=True)
class PersonTime:
    """A model of what an answer takes of a person, in seconds.

    Attributes:
        look: At a design.
        decision: That one design is better than another, or is the best.
        sweep: Of a hand that moves from end to end of a line.
        available: For all answers.
    """

    look: float = 4.0
    decision: float = 2.0
    sweep: float = 8.0
    available: float = 300.0

    def seconds(self, kind: str) -> float:
        """Time of an answer.

        Args:
            kind: Of `KINDS`.
        """
        if kind.endswith("line"):
            # To the other end, a look at either side of where it is best, and the stop.
            return self.sweep + 2 * self.look + self.decision
        if "duel" in kind:
            return 2 * self.look + self.decision
        if kind == "plane":
            return 9 * self.look + self.decision
        # Each of four is put where it belongs.
        return 4 * (self.look + self.decision)

    def num_answers(self, kind: str) -> int:
        """Number of answers of a kind in the time that is available."""
        return int(self.available / self.seconds(kind))


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


def search_ends(model: Model, bounds: Tensor) -> Tensor:
    """The line of Sequential Line Search (Koyama et al. 2017), ``2 x d``.

    Through the best design so far and that of the largest expected improvement, and
    from edge to edge: the latter is often so near that the piece between them is short.
    """
    best = incumbent(model)
    with torch.no_grad():
        improvement = LogExpectedImprovement(model, model.posterior(best).mean.max())
    with manual_seed(len(model.datapoints)):
        toward, _ = optimize_acqf(
            improvement, bounds, 1, num_restarts=8, raw_samples=128
        )
    return line_ends(DesignSpace.from_bounds(bounds), best, toward).squeeze(0)


OTHER_LINES = {"oblique line": oblique_ends, "search line": search_ends}
"""Lines of other rules than the library's."""

KINDS = (
    "line",
    "repeating line",
    *OTHER_LINES,
    "plane",
    "duel",
    "four ranked",
    "GLISp duel",
)
"""Stops on the lines of the library, which move one input, on those that may move the
input of the line before again, on the best lines in any direction, and on those of
Sequential Line Search; the best of nine designs of a plane of the library; duels, and
rankings of four; and duels of GLISp."""


def line_regrets(
    problem: Problem, errors: str, questions: int, seed: int, kind: str = "line"
) -> Iterator[float]:
    """Regret after each of a run of stops on lines.

    Args:
        problem: Its utility and inputs.
        errors: Of `ERRORS`.
        questions: Number of stops.
        seed: Of the lines and of the person.
        kind: Of `KINDS`, a line.
    """
    generator = Generator().manual_seed(seed)
    bounds = torch.tensor([[0.0], [1.0]], dtype=torch.double).repeat(1, problem.dim)
    X, stops = bounds[:0], []
    model: Model | None = None
    share = torch.linspace(0, 1, POSITIONS, dtype=torch.double)
    for number in range(questions):
        # A line that waits, and moves all inputs, takes the place of the last one.
        repeats = kind == "repeating line" and number >= INITIAL_LINES
        waiting = bounds.unsqueeze(0) if repeats else None
        question = next_question(model, bounds, seed=seed, kind="line", pending=waiting)
        ends = question.options
        if kind in OTHER_LINES and question.acquisition == LineEUBO.__name__:
            ends = OTHER_LINES[kind](model, bounds)
        path = torch.lerp(ends[0], ends[1], share.unsqueeze(-1))
        place = stop(problem, path, errors, generator)
        X = torch.cat([X, ends])
        stops.append(float(share[place]))
        lines = torch.arange(len(X)).view(-1, 2)
        answers = LineChoices(lines, torch.tensor(stops, dtype=torch.double))
        model = default_model(X, answers)
        if kind in OTHER_LINES:
            best = incumbent(model)
        else:
            best = recommend(model, bounds, seed=seed).point
        yield float(problem.regret(best.flatten()))


def plane_regrets(
    problem: Problem, errors: str, questions: int, seed: int
) -> Iterator[float]:
    """Regret after each of a run of galleries, of which the best design is named."""
    generator = Generator().manual_seed(seed)
    bounds = torch.tensor([[0.0], [1.0]], dtype=torch.double).repeat(1, problem.dim)
    X, chosen = bounds[:0], []
    deviation = DEVIATIONS[problem.name] if errors == "hears" else 0.0
    model: Model | None = None
    for _ in range(questions):
        options = next_question(model, bounds, 9, seed=seed, kind="plane").options
        noise = torch.randn(9, generator=generator, dtype=torch.double)
        heard = problem.utility(options) + deviation * noise
        chosen.append(len(X) + int(heard.argmax()))
        X = torch.cat([X, options])
        sets = torch.arange(len(X)).view(-1, 9)
        model = default_model(X, Choices(sets, torch.tensor(chosen)))
        best = recommend(model, bounds, seed=seed).point
        yield float(problem.regret(best.flatten()))


def option_regrets(
    problem: Problem, errors: str, size: int, questions: int, seed: int
) -> Iterator[float]:
    """Regret after each of a run of questions of options."""
    noise = DEVIATIONS[problem.name] ** 2 if errors == "hears" else 0.0
    settings = RunSettings(problem.name, size, questions, noise, seed)
    judge = make_judge(problem, settings)
    return (answered.regret for answered in run_questions(problem, judge, settings))


def rival_regrets(
    problem: Problem, errors: str, questions: int, seed: int
) -> list[float]:
    """Regret after each of a run of duels that GLISp asks, of which five are random.

    Raises:
        RuntimeError: GLISp fails, or is not installed.
    """
    judge = ("probit", DEVIATIONS[problem.name]) if errors == "hears" else ("exact",)
    setting = Setting(problem.name, *judge)
    num_random = min(5, questions)
    cell = Cell("lines", setting, GLISP, seed, num_random, questions)
    (outcome,) = play_together([cell])
    if outcome.error:
        raise RuntimeError(outcome.error)
    column = COLUMNS.index("regret_recommended")
    return [float(row[column]) for row in outcome.rows]


def regrets(run: Run, questions: int) -> list[float]:
    """Regret after each question of a run."""
    name, errors, kind, seed = run
    problem = make_problem(name)
    if kind.endswith("line"):
        return [*line_regrets(problem, errors, questions, seed, kind)]
    if kind == "plane":
        return [*plane_regrets(problem, errors, questions, seed)]
    if kind == "GLISp duel":
        return rival_regrets(problem, errors, questions, seed)
    size = {"duel": 2, "four ranked": 4}[kind]
    return [*option_regrets(problem, errors, size, questions, seed)]


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
    """Mean ± standard error (median) of some numbers; one by itself."""
    if len(values) == 1:
        return f"{float(values):.3g}"
    error = values.std() / len(values) ** 0.5
    return f"{values.mean():.3g} ± {error:.2g} ({values.median():.3g})"


def by_rule(runs: Mapping[Run, list[float]]) -> dict[tuple[str, str, str], Tensor]:
    """Regrets of all runs of a problem, errors and kind, `starts x questions`."""
    rows: dict[tuple[str, str, str], list[list[float]]] = {}
    for (name, errors, kind, _), values in sorted(runs.items()):
        rows.setdefault((name, errors, kind), []).append(values)
    return {rule: torch.tensor(values) for rule, values in rows.items()}


def suite_regrets(records: Path) -> dict[tuple[str, str, str], Tensor]:
    """Regrets of rules of the suite's studies of the same problems and errors."""
    table = concat(read_record(study, records) for study in STUDIES)
    rows: dict[tuple[str, str, str], Tensor] = {}
    for name, judge, kind in product(DEVIATIONS, ("exact", "probit"), OF_SUITE):
        names = {"problem": name, "judge": judge, **asdict(OF_SUITE[kind])}
        runs = table[(table[[*names]] == [*names.values()]).all(axis=1)]
        if len(runs):
            by_start = runs.pivot(
                index="seed", columns="duel", values="regret_recommended"
            )
            errors = "none" if judge == "exact" else "hears"
            rows[name, errors, kind] = torch.tensor(by_start.to_numpy())
    return rows


REGRETS = (
    *("problem", "errors", "kind", "runs"),
    *(f"after {mark}" for mark in CHECKPOINTS),
    "in five minutes (answers)",
)


def regret_rows(
    regrets: Mapping[tuple[str, str, str], Tensor], person: PersonTime
) -> list[list[str]]:
    """Rows of `REGRETS`: regret by questions, and in a person's time."""
    kinds = [*KINDS, *OF_SUITE]

    def place(rule: tuple[str, str, str]) -> tuple[int, ...]:
        name, errors, kind = rule
        return [*DEVIATIONS].index(name), ERRORS.index(errors), kinds.index(kind)

    rows = []
    for rule in sorted(regrets, key=place):
        values, in_time = regrets[rule], person.num_answers(rule[2])
        marks = (*CHECKPOINTS, in_time)
        cells = [
            summary(values[:, mark - 1]) if mark <= values.shape[-1] else "-"
            for mark in marks
        ]
        rows.append([*rule, str(len(values)), *cells[:-1], f"{cells[-1]}, {in_time}"])
    return rows


TO_REACH = {
    ("hartmann6", "none"): 0.03,
    ("hartmann6", "hears"): 0.3,
    ("sixhumpcamel-narrow", "none"): 0.0005,
    ("sixhumpcamel-narrow", "hears"): 0.012,
}
"""Mean regret after thirty lines."""

RANKED = "four ranked of next_question"

REACHED = (
    *("problem", "errors", "runs", "to reach", "after 30 lines"),
    *("lines in five minutes", "four ranked in five minutes"),
)


def reached_rows(
    regrets: Mapping[tuple[str, str, str], Tensor], person: PersonTime
) -> list[list[str]]:
    """Rows of `REACHED`: what lines find beside what they were to find."""
    rows = []
    for (name, errors), most in TO_REACH.items():
        lines, ranked = regrets[name, errors, "line"], regrets[name, errors, RANKED]
        in_time = [
            f"{float(values[:, person.num_answers(kind) - 1].mean()):.4f}"
            for values, kind in ((lines, "line"), (ranked, RANKED))
        ]
        reached = f"{float(lines[:, 29].mean()):.4f}"
        rows.append([name, errors, str(len(lines)), f"{most:g}", reached, *in_time])
    return rows


PAGE = """# Questions on a line

What is a stop on a line worth beside duels, rankings of four, and the best of nine
designs of a plane? Simulated people answer; regret is of the best design so far, the
mean with its standard error (and the median). A *line* is what the library asks: it
moves one input of the design that `recommend` names, and another than the line before;
a *repeating line* may move the same again. (Starts are the first of one list: rows with
different numbers of runs are of different starts.) A *plane*, asked about eight times,
has three by three designs, in which two of its inputs move. The regret of these is that
of this design after the answer, and of all others that of the best design shown. An
*oblique line* is the best one in any direction through it, and a *search line* that of
Sequential Line Search (Koyama et al. 2017), through it and the one of the largest
expected improvement. A *GLISp duel* is a new point of GLISp (Bemporad and Piga 2021)
beside its best so far. Rows *of the suite* are of its studies [default](default.md) and
[people-tasks](people-tasks.md), with a stationary kernel: duels of two new points under
learned noise and lapses, and rankings of four that are chosen by the knowledge
gradient. Rows *of next_question*, of the same studies, and the plain rows *duel* and
*four ranked* are what the library asks.

People never err (*none*); *hear* each design with noise, along a line correlated over a
quarter of it; have a *hand* that misses by a twentieth of the line; or *overshoot*:
they go on until the design is worse by half the noise's deviation. The last column also
has the number of answers for which five minutes suffice, if a look takes {look:g} s, a
decision {decision:g} s and a sweep of the hand {sweep:g} s (`PersonTime`).

What was to be reached, and what is, in means:

{reached}

All that was played, by problem:

{regrets}
[How exactly people stop](line-stops.md) where the likelihood is right.

_`python -m benchmarks.line_questions --page docs/logbook/lines.md` made this page._
"""


STOPS_PAGE = """# How exactly people stop

A prior predictive check of the `LineProbitLikelihood` of [lines](lines.md), whose noise
has a deviation of 1. Of utilities with a squared exponential kernel, where the best
design is within the line: how far from it people stop, in lengths of the line; the loss
that 95 % do not exceed; how often the loss is one that is noticed, 0.95 deviations or
more; and how far from the best is who goes on until that, every time.

{widths}

Who goes on until she notices does each time what the likelihood expects of {least:.0f}
to {most:.0f} % of stops: it covers her now and then, and not always.

_`python -m benchmarks.line_questions --page docs/logbook/lines.md` made this page._
"""


def page(record: Path, person: PersonTime) -> str:
    """The page of the logbook.

    Args:
        record: A file of runs.
        person: What answers take of her time.
    """
    regrets = by_rule(recorded(record)) | suite_regrets(record.parent)
    reached = reached_rows(regrets, person)
    every = DataFrame(regret_rows(regrets, person), columns=REGRETS)
    return PAGE.format(
        reached=markdown(DataFrame(reached, columns=REACHED)),
        regrets="\n".join(
            folded(name, markdown(rows.drop(columns="problem")))
            for name, rows in every.groupby("problem", sort=False)
        ),
        **asdict(person),
    )


def stops_page() -> str:
    """The page of the logbook on how exactly people stop."""
    widths = width_rows()
    noticed = [100 * row[WIDTHS.index("a loss that is noticed")] for row in widths]
    return STOPS_PAGE.format(
        widths=markdown(DataFrame(widths, columns=WIDTHS)),
        least=min(noticed),
        most=max(noticed),
    )


def main() -> None:
    """Plays every kind of question from the same starts, and prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problem", action="append")
    parser.add_argument("--errors", action="append", choices=ERRORS)
    parser.add_argument("--kind", action="append", choices=KINDS)
    parser.add_argument("--starts", type=starts, default=range(6), help="6 or 20:50")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    parser.add_argument("--questions", type=int, default=CHECKPOINTS[-1])
    parser.add_argument("--record", type=Path, help="a file to add runs to")
    parser.add_argument("--read", type=Path, help="a file to print, and play nothing")
    parser.add_argument(
        "--page",
        type=Path,
        help="a page to write of the record, and line-stops.md beside it",
    )
    options = parser.parse_args()
    if options.page is not None:
        options.page.write_text(page(RECORD, PersonTime()), encoding="utf-8")
        beside = options.page.with_name("line-stops.md")
        beside.write_text(stops_page(), encoding="utf-8")
        return
    start("regret by kind of question")
    if options.read is None:
        runs = played(options)
        regrets = by_rule(runs)
    else:
        regrets = by_rule(recorded(options.read)) | suite_regrets(RECORD.parent)
    print_table(REGRETS, regret_rows(regrets, PersonTime()))


def played(options: argparse.Namespace) -> dict[Run, list[float]]:
    """Plays the runs that are asked for, without those of the record."""
    record = options.record
    runs = {} if record is None or not record.exists() else recorded(record)
    rules = product(
        options.problem or DEVIATIONS, options.errors or ERRORS, options.kind or KINDS
    )
    cells = [(*rule, start) for start, rule in product(options.starts, rules)]
    # Who ranks has no hand to miss with.
    missing = [
        (name, errors, kind, start)
        for name, errors, kind, start in cells
        if kind.endswith("line") or errors in ("none", "hears")
        if (name, errors, kind, start) not in runs
    ]
    parallel = joblib.Parallel(options.jobs, return_as="generator_unordered")
    for run, values in parallel(
        joblib.delayed(_played)(run, options.questions) for run in missing
    ):
        runs[run] = values
        if record is not None:
            add_record(record, run, values)
    return runs


def _played(run: Run, questions: int) -> tuple[Run, list[float]]:
    """Plays a run, which may be in a process of its own."""
    torch.set_num_threads(1)
    return run, regrets(run, questions)


def starts(text: str) -> range:
    """Starts as the command line has them: a number, or ``FIRST:END``."""
    first, _, end = text.rpartition(":")
    return range(int(first or 0), int(end))


if __name__ == "__main__":
    main()
