"""Questions of several runs at once, answered run by run."""

from __future__ import annotations

import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import torch
from torch import Generator, Tensor

from benchmarks.suite.cell import GLISP, LIBRARY, Cell, Rule
from benchmarks.suite.runs.batch_player import (
    MODELS_OF_BATCHES,
    WAYS_OF_BATCHES,
    BatchPlayer,
    uniform,
)
from benchmarks.suite.runs.glisp import PlayerOfGLISp
from benchmarks.suite.runs.judges import errs, make_judge
from benchmarks.suite.runs.library import PlayerOfLibrary
from benchmarks.suite.runs.play import Outcome, Report, play
from benchmarks.suite.runs.rivals import RivalOfMany
from botorch_pref.simulation.problem import Problem
from botorch_pref.simulation.problems import make_problem
from botorch_pref.threads import one_thread


class Player(Protocol):
    """Who asks, and learns from the answers, in several runs at once."""

    def learn(self, told: Tensor) -> None:
        """Learns from all answers so far.

        Args:
            told: The options of all questions, each with the best first,
                `num_runs x m x k x d`.
        """
        ...

    def recommended(self) -> Tensor:
        """The recommended points, `num_runs x d`."""
        ...

    def ask(self) -> Tensor:
        """The next question of each run, `num_runs x k x d`."""
        ...

    def best_anywhere(self) -> Tensor:
        """The points of the cube with the largest posterior means, `num_runs x d`."""
        ...


MakePlayer = Callable[[Rule, Problem, bool, Sequence[Generator]], Player]
"""From a rule, the problem, whether the judge errs, and each run's draws."""


def batches(cells: Sequence[Cell]) -> list[list[Cell]]:
    """Runs that are played together: of one rule in one setting, where they can be.

    Args:
        cells: The runs.
    """
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        alike = f"{cell.key.rpartition('_')[0]} of {cell.study}"
        name = alike if _in_batches(cell) else f"{cell.key} of {cell.study}"
        groups.setdefault(name, []).append(cell)
    return list(groups.values())


def _in_batches(cell: Cell) -> bool:
    """Whether `BatchPlayer` plays a run.

    It hears of no ties of two, and of no points that are not valid.
    """
    rule, setting = cell.rule, cell.setting
    known = rule.model in MODELS_OF_BATCHES and rule.acquisition in WAYS_OF_BATCHES
    if setting.judge == "ties" and rule.options == 2:
        return False
    return known and not make_problem(setting.problem).valid


def play_together(cells: Sequence[Cell]) -> list[Outcome]:
    """Plays one of `batches`.

    Args:
        cells: The runs.
    """
    if _in_batches(cells[0]):
        return play_batch(cells)
    if cells[0].rule == GLISP:
        make = partial(PlayerOfGLISp, num_questions=cells[0].num_duels)
        return [play_batch([cell], make)[0] for cell in cells]
    if cells[0].rule.model == LIBRARY[0].model:
        return [play_batch([cell], PlayerOfLibrary)[0] for cell in cells]
    if cells[0].rule.options > 2:
        return play_batch(cells, RivalOfMany)
    return [play(cell) for cell in cells]


def play_batch(
    cells: Sequence[Cell], make_player: MakePlayer = BatchPlayer
) -> list[Outcome]:
    """Plays cells that differ in their seeds alone, on one thread.

    Args:
        cells: The runs.
        make_player: Makes who asks and learns.

    Returns:
        An outcome for each cell; what goes wrong is part of all of them.
    """
    try:
        with one_thread(), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            reports = _reports(cells, make_player, caught)
            return [Outcome(report.cell, tuple(report.rows)) for report in reports]
    except Exception:
        error = traceback.format_exc()
        return [Outcome(cell, error=error) for cell in cells]


def _reports(
    cells: Sequence[Cell], make_player: MakePlayer, caught: list[Any]
) -> list[Report]:
    cell = cells[0]
    problem, size = make_problem(cell.setting.problem), cell.rule.options
    judges = [make_judge(c.setting, problem.utility, c.seed) for c in cells]
    reports = [
        Report(c, problem, judge) for c, judge in zip(cells, judges, strict=True)
    ]
    sources = [Generator().manual_seed(c.seed) for c in cells]
    player = make_player(cell.rule, problem, errs(cell.setting, size), sources)
    told = torch.empty(len(cells), 0, size, problem.dim, dtype=torch.double)
    before = time.process_time()
    for number in range(cell.num_duels):
        if number < cell.num_random:
            question = uniform(sources, size, problem.dim)
        else:
            question = player.ask()
        question = problem.project(question)
        orders = torch.stack(
            [judge.order(q) for judge, q in zip(judges, question, strict=True)]
        )
        ordered = question.gather(1, orders.unsqueeze(-1).expand_as(question))
        told = torch.cat([told, ordered.unsqueeze(1)], 1)
        player.learn(told)
        best = player.recommended()
        spent = (time.process_time() - before) / len(cells)
        # Only at the end, for it draws from the sources of the questions.
        last = number == cell.num_duels - 1
        tops = player.best_anywhere() if last else [None] * len(cells)
        for report, q, point, top in zip(reports, question, best, tops, strict=True):
            report.add(q, point, spent, warned=len(caught), anywhere=top)
        caught.clear()
        before = time.process_time()
    return reports
