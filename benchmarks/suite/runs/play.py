"""One run of a study, duel by duel."""

from __future__ import annotations

import math
import time
import traceback
import warnings
from dataclasses import dataclass
from typing import Any

import torch
from scipy.optimize import minimize
from torch import Generator, Tensor

from benchmarks.suite.cell import Cell
from benchmarks.suite.errors import SuiteError
from benchmarks.suite.runs.judges import ERRING, make_judge
from benchmarks.suite.runs.players import make_player
from botorch_pref.simulation.duel_loop import run_duels
from botorch_pref.simulation.problems import Problem, make_problem

SAME = 1e-3
"""Questions whose points are this near, in the unit cube, are the same question."""

COLUMNS = (
    "study",
    "problem",
    "judge",
    "noise",
    "model",
    "acquisition",
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
)
"""``seconds`` of the processor for proposal and fit; ``chosen``, not one of the random
duels that start the run; the ``distance`` of the two points in the unit cube; whether
the question was ``repeated``; how often the judge would name the better one
(``told_apart``); whether the answer was ``tied``; how many of the two points were
``invalid``; how many ``warnings`` there were; and after the last duel
``basin_regret``, the regret at the top of the hill on which the recommended point
lies."""


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
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            return Outcome(cell, tuple(_rows(cell, caught)))
    except Exception:
        return Outcome(cell, error=traceback.format_exc())
    finally:
        torch.set_num_threads(threads)


def _rows(cell: Cell, caught: list[Any]) -> list[tuple[str, ...]]:
    setting, seed = cell.setting, cell.seed
    problem = make_problem(setting.problem)
    judge = make_judge(setting, problem.utility, seed)
    generator = Generator().manual_seed(seed)
    errs = setting.judge in ERRING
    player = make_player(cell.rule, problem.dim, errs, cell.num_random, generator)
    who = cell.study, setting.problem, setting.judge, f"{setting.noise:g}"
    what = cell.rule.model, cell.rule.acquisition, str(seed)
    rows, asked = [], torch.empty(0, 2, problem.dim, dtype=torch.double)
    best_shown, before = -float("inf"), time.process_time()
    valid = problem.valid if player.hears_validity else None
    for duel in run_duels(player.propose, judge, player.fit, cell.num_duels, valid):
        spent = time.process_time() - before
        question = torch.stack([duel.proposal.challenger, duel.proposal.opponent])
        best_shown = max(best_shown, float(problem.utility(question).max()))
        figures = (
            float(problem.regret(duel.incumbent)),
            problem.best - best_shown,
            spent,
            int(duel.number >= cell.num_random),
            float(torch.linalg.vector_norm(question[0] - question[1])),
            int(is_repeated(question, asked)),
            told_apart(judge.probability(question[0], question[1])),
            int(duel.challenger_won is None),
            _num_invalid(problem, question),
            len(caught),
        )
        caught.clear()
        if not all(map(math.isfinite, figures[:2])):
            raise SuiteError(f"duel {duel.number}: the regret is not a number")
        last = duel.number == cell.num_duels - 1
        basin = f"{basin_regret(problem, duel.incumbent):.6g}" if last else ""
        rows.append(
            (*who, *what, str(duel.number), *(f"{f:.6g}" for f in figures), basin)
        )
        asked = torch.cat([asked, question[None]])
        before = time.process_time()
    return rows


def told_apart(probability: float) -> float:
    """Share of a judge's answers that name the better point, at least a half."""
    return max(probability, 1.0 - probability)


def is_repeated(question: Tensor, asked: Tensor) -> bool:
    """Whether a question was asked before, in either order.

    Args:
        question: `2 x d`.
        asked: `n x 2 x d`.
    """
    both = torch.stack([question, question.flip(0)]).unsqueeze(1)
    apart = torch.linalg.vector_norm(both - asked, dim=-1).amax(-1)
    return bool((apart < SAME).any())


def _num_invalid(problem: Problem, question: Tensor) -> int:
    return 0 if problem.valid is None else int((~problem.valid(question)).sum())


def basin_regret(problem: Problem, point: Tensor) -> float:
    """Regret at the top of the hill on which a point lies.

    The simplex of Nelder and Mead starts with a side of a hundredth of the cube, so
    that it does not leap to another hill.

    Args:
        problem: What is climbed.
        point: `d` inputs.
    """
    corner = point.clamp(0.0, 0.99)
    simplex = torch.cat([corner[None], corner + 0.01 * torch.eye(problem.dim)])
    found = minimize(
        lambda x: float(problem.regret(torch.as_tensor(x))),
        corner.numpy(),
        method="Nelder-Mead",
        bounds=[(0.0, 1.0)] * problem.dim,
        options={
            "initial_simplex": simplex.numpy(),
            "adaptive": True,
            "maxiter": 400 * problem.dim,
            "xatol": 1e-4,
            "fatol": 1e-4,
        },
    )
    return min(float(found.fun), float(problem.regret(point)))
