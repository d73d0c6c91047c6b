"""One run of a study, duel by duel."""

from __future__ import annotations

import math
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from botorch.models.model import Model
from scipy.optimize import minimize
from torch import Generator, Tensor

from benchmarks.suite.cell import Cell
from benchmarks.suite.errors import SuiteError
from benchmarks.suite.runs.judges import errs, make_judge
from benchmarks.suite.runs.models import with_validity
from benchmarks.suite.runs.players import make_player
from botorch_pref.simulation.duel_loop import Proposal, Propose, run_duels
from botorch_pref.simulation.judges import Judge
from botorch_pref.simulation.problem import Problem
from botorch_pref.simulation.problems import make_problem
from botorch_pref.threads import one_thread

SAME = 1e-3
"""Questions whose points are this near, in the unit cube, are the same question."""

COLUMNS = (
    "study",
    "problem",
    "judge",
    "noise",
    "model",
    "acquisition",
    "options",
    "answer",
    "seed",
    "duel",
    "regret_recommended",
    "regret_best_shown",
    "seconds",
    "chosen",
    "distance",
    "repeated",
    "told_apart",
    "tied",
    "invalid",
    "warnings",
    "basin_regret",
    "regret_anywhere",
)
"""``options`` and ``answer`` of the rule; ``duel``, the number of the question;
``seconds`` of the processor for proposal and fit, in a batch each run's share;
``chosen``, not one of the random questions that start the run; the least ``distance``
of two options in the unit cube; whether the question was ``repeated``; how often the
judge would name the better one of the two options that she tells apart best
(``told_apart``); whether the answer was ``tied``; how many of the options were
``invalid``; how many ``warnings`` there were; and after the last question
``basin_regret``, the regret at the top of the hill on which the recommended point
lies, and, of runs in batches, ``regret_anywhere``, that of the point of the whole cube
with the largest posterior mean."""


@dataclass(frozen=True)
class Outcome:
    """Result of a run, or the reason that there is none.

    Attributes:
        cell: The run.
        rows: One a duel, by `COLUMNS`; empty where it failed.
        error: Why it failed; empty where it did not.
    """

    cell: Cell
    rows: tuple[tuple[str, ...], ...] = ()
    error: str = ""

    @property
    def reason(self) -> str:
        """The last line of why it failed."""
        return self.error.strip().rpartition("\n")[2]


def play(cell: Cell) -> Outcome:
    """Runs one cell on one thread; what goes wrong is part of the outcome."""
    try:
        with one_thread(), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            return Outcome(cell, tuple(_rows(cell, caught)))
    except Exception:
        return Outcome(cell, error=traceback.format_exc())


def _rows(cell: Cell, caught: list[Any]) -> list[tuple[str, ...]]:
    setting, seed = cell.setting, cell.seed
    problem = make_problem(setting.problem)
    judge = make_judge(setting, problem.utility, seed)
    generator = Generator().manual_seed(seed)
    erring = errs(setting, cell.rule.options)
    player = make_player(cell.rule, problem.dim, erring, cell.num_random, generator)
    answer, fit, propose = judge, player.fit, player.propose
    if not problem.is_cube:
        propose = ProposedDesigns(propose, problem)
    if player.hears_validity and problem.valid is not None:
        answer = partial(_answered, problem.valid, judge)
        fit = with_validity(fit, problem.valid)
    report, before = Report(cell, problem, judge), time.process_time()
    for duel in run_duels(propose, answer, fit, cell.num_duels):
        spent = time.process_time() - before
        question = torch.stack([duel.proposal.challenger, duel.proposal.opponent])
        tied = duel.challenger_won is None
        report.add(question, duel.incumbent, spent, tied=tied, warned=len(caught))
        caught.clear()
        before = time.process_time()
    return report.rows


@dataclass(frozen=True)
class ProposedDesigns:
    """A rule that searches the unit cube, of whose points the designs are shown.

    Attributes:
        propose: The rule.
        problem: Says what the designs are.
    """

    propose: Propose
    problem: Problem

    def __call__(
        self, number: int, model: Model | None, best: Tensor | None
    ) -> Proposal:
        """Proposes the next duel, see `Propose`."""
        proposal = self.propose(number, model, best)
        duel = torch.stack([proposal.challenger, proposal.opponent])
        return Proposal(*self.problem.project(duel), proposal.source)


def _answered(
    valid: Callable[[Tensor], Tensor], judge: Judge, first: Tensor, second: Tensor
) -> bool | None:
    """The judge's answer to a duel of two valid points; None to any other."""
    works = bool(valid(torch.stack([first, second])).all())
    return judge(first, second) if works else None


class Report:
    """The rows of one run, question by question.

    Args:
        cell: The run.
        problem: What is optimised.
        judge: Who answers.

    Attributes:
        rows: By `COLUMNS`.
    """

    def __init__(self, cell: Cell, problem: Problem, judge: Judge) -> None:
        self.cell, self.problem, self.judge = cell, problem, judge
        self.rows: list[tuple[str, ...]] = []
        self.best_shown = -float("inf")
        size = cell.rule.options
        self.asked = torch.empty(0, size, problem.dim, dtype=torch.double)

    def add(
        self,
        question: Tensor,
        recommended: Tensor,
        seconds: float,
        *,
        tied: bool = False,
        warned: int = 0,
        anywhere: Tensor | None = None,
    ) -> None:
        """Adds the row of a question that was answered.

        Args:
            question: `k x d`.
            recommended: `d` inputs that are recommended after the answer.
            seconds: That question and fit took.
            tied: Whether the judge saw no difference.
            warned: Number of warnings.
            anywhere: `d` inputs with the largest posterior mean in the whole cube,
                after the last question of a run in a batch.

        Raises:
            SuiteError: The regret is not a number.
        """
        cell, problem, number = self.cell, self.problem, len(self.rows)
        self.best_shown = max(self.best_shown, float(problem.utility(question).max()))
        first, second = torch.triu_indices(len(question), len(question), 1)
        apart = [
            told_apart(self.judge.probability(question[i], question[j]))
            for i, j in zip(first, second, strict=True)
        ]
        between = question[first] - question[second]
        figures = (
            float(problem.regret(recommended)),
            problem.best - self.best_shown,
            seconds,
            int(number >= cell.num_random),
            float(torch.linalg.vector_norm(between, dim=-1).min()),
            int(is_repeated(question, self.asked)),
            max(apart),
            int(tied),
            _num_invalid(problem, question),
            warned,
        )
        if not all(map(math.isfinite, figures[:2])):
            raise SuiteError(f"duel {number}: the regret is not a number")
        last = number == cell.num_duels - 1
        basin = f"{basin_regret(problem, recommended):.6g}" if last else ""
        setting, rule = cell.setting, cell.rule
        who = cell.study, setting.problem, setting.judge, f"{setting.noise:g}"
        what = rule.model, rule.acquisition, str(rule.options), rule.answer
        told = (f"{figure:.6g}" for figure in figures)
        end = basin, "" if anywhere is None else f"{problem.regret(anywhere):.6g}"
        self.rows.append((*who, *what, str(cell.seed), str(number), *told, *end))
        self.asked = torch.cat([self.asked, question[None]])


def told_apart(probability: float) -> float:
    """Share of a judge's answers that name the better point, at least a half."""
    return max(probability, 1.0 - probability)


def is_repeated(question: Tensor, asked: Tensor) -> bool:
    """Whether a question was asked before, in any order.

    Args:
        question: `k x d`.
        asked: `n x k x d`.
    """
    between = question - asked.unsqueeze(2)
    apart = torch.linalg.vector_norm(between, dim=-1) < SAME
    return bool((apart.any(-1).all(-1) & apart.any(-2).all(-1)).any())


def _num_invalid(problem: Problem, question: Tensor) -> int:
    return 0 if problem.valid is None else int((~problem.valid(question)).sum())


def basin_regret(problem: Problem, point: Tensor) -> float:
    """Regret at the top of the hill on which a point lies.

    The simplex of Nelder and Mead starts with a side of a hundredth of the cube, so
    that it does not leap to another hill. Choices, steps and dead parameters stay.

    Args:
        problem: What is climbed.
        point: `d` inputs.
    """
    columns = _climbed_columns(problem)
    if not columns:
        return float(problem.regret(point))
    begin = point[columns]
    corner = begin.clamp(0.0, 0.99)
    simplex = torch.cat([corner[None], corner + 0.01 * torch.eye(len(columns))])

    def regret(x: Any) -> float:
        moved = point.clone()
        moved[columns] = torch.as_tensor(x)
        return float(problem.regret(moved))

    climb = minimize(
        regret,
        corner.numpy(),
        method="Nelder-Mead",
        bounds=[(0.0, 1.0)] * len(columns),
        options={
            "initial_simplex": simplex.numpy(),
            "adaptive": True,
            "maxiter": 400 * len(columns),
            "xatol": 1e-4,
            "fatol": 1e-4,
        },
    )
    return min(float(climb.fun), float(problem.regret(point)))


def _climbed_columns(problem: Problem) -> list[int]:
    """Columns of the numbers without steps that do something."""
    if not problem.parameters:
        return list(range(problem.dim))
    return [
        parameter.columns[0]
        for parameter in problem.parameters
        if not (parameter.is_choice or parameter.steps or parameter.dead)
    ]
