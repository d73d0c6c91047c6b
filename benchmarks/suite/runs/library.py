"""What the library asks: the model and the question that it recommends."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from botorch.models.model import Model
from torch import Generator, Tensor

from benchmarks.suite.cell import (
    UNDERSTANDING,
    UNDERSTANDING_FIRST,
    WITHOUT_RIVALS,
    Rule,
)
from benchmarks.suite.runs.batch_player import answers
from botorch_pref import incumbent, recommend
from botorch_pref.asking.request import Goal
from botorch_pref.simulation.problem import Problem
from botorch_pref.simulation.question_loop import problem_model, problem_question

UNDERSTOOD = 17
"""Answers from which on `UNDERSTANDING_FIRST` asks for the best design."""


class PlayerOfLibrary:
    """`default_model` and `next_question`, as the first page of the library calls them.

    Args:
        rule: How many options a question has, and what an answer names.
        problem: What is optimised, of which only the designs are known.
        errs: Whether the judge errs, which the library is not told.
        sources: Of the one run's draws.
    """

    def __init__(
        self, rule: Rule, problem: Problem, errs: bool, sources: Sequence[Generator]
    ) -> None:
        (self.source,) = sources
        self.rule, self.problem = rule, problem
        self.model: Model | None = None
        self.goal: Goal = "best"

    def learn(self, told: Tensor) -> None:
        """Fits the model of all answers.

        Args:
            told: The options of all questions, the best first, `1 x m x k x d`.
        """
        early = self.rule == UNDERSTANDING_FIRST and told.shape[1] < UNDERSTOOD
        understands = early or self.rule == UNDERSTANDING
        self.goal = "understand" if understands else "best"
        X, feedback = told[0].flatten(0, 1), answers(told.shape[1], self.rule)
        self.model = problem_model(self.problem, X, feedback)
        self.best = incumbent(self.model)

    def recommended(self) -> Tensor:
        """The best design so far, `1 x d`."""
        return self.best

    def ask(self) -> Tensor:
        """The next question, `1 x k x d`."""
        seed = int(torch.randint(2**31, (), generator=self.source))
        # No rival joins a design that somebody names.
        best = self.best if self.rule == WITHOUT_RIVALS else None
        asked = problem_question(
            self.problem, self.model, self.rule.options, seed, self.goal, best
        )
        return asked.options.unsqueeze(0)

    def best_anywhere(self) -> Tensor:
        """The design with the largest posterior mean, `1 x d`; in a cube of any."""
        assert self.model is not None
        if not self.problem.is_cube:
            return self.best
        return recommend(self.model, self.problem.cube).point
