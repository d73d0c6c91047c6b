"""Request of a question: what is asked for, with all of it checked."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Literal

from torch import Tensor

from botorch_pref.acquisition.design_space import DesignSpace
from botorch_pref.acquisition.plane_search import side_of
from botorch_pref.errors import FeedbackError
from botorch_pref.models import PreferenceGP

Goal = Literal["best", "understand"]
"""Purpose of the questions: the best design, or what a person's utility is like."""

QuestionKind = Literal["options", "line", "plane"]
"""Options that may be anywhere, or designs on a line or a plane."""

INITIAL, INITIAL_LINES = 5, 3
"""Answers before a model chooses: fewer say too little of its lengthscales. A stop on a
line, or the best of a plane, says what several duels do."""


@dataclass(frozen=True)
class Request:
    """A question that somebody wants, as `next_question` takes it, with all checked.

    Attributes:
        observed: ``n x d``, the points that the model has seen.
        num_answers: How many answers the model has.
        choices: ``n x d``, without rows by default.
        best: ``1 x d``, without a row by default.
        beside: ``k x d``, without rows by default.
        open_questions: ``m x size x d``, questions that wait for an answer.
        seed: Seed of the Sobol sequence.
    """

    kind: QuestionKind
    goal: Goal
    size: int
    space: DesignSpace
    observed: Tensor
    num_answers: int
    choices: Tensor
    best: Tensor
    beside: Tensor
    open_questions: Tensor
    feasibility_model: PreferenceGP | None
    seed: int

    @property
    def draw_seed(self) -> int:
        """Seed of all draws: another one for each number of answers and questions."""
        draw = self.seed, len(self.observed), self.num_answers, len(self.open_questions)
        return Random(repr(draw)).getrandbits(31)

    @property
    def num_initial(self) -> int:
        """Number of answers before a model chooses such a question."""
        return INITIAL if self.kind == "options" else INITIAL_LINES

    @property
    def knows_little(self) -> bool:
        """Whether answers are too few, or all about one design, which a line allows."""
        if self.num_answers < self.num_initial:
            return True
        return self.kind != "line" and len(self.observed.unique(dim=0)) < 2

    def __post_init__(self) -> None:
        """Checks the best design, other options, and what lines and planes need."""
        best, space = self.best, self.space
        if len(best) and not (len(best) == 1 and bool(space.allows(best))):
            raise FeedbackError(
                f"best is {best.tolist()}; give one design, 1 x {len(space.base)}, "
                "within bounds and all else that designs have to satisfy, or leave it "
                "out."
            )
        if len(self.beside) >= self.size:
            raise FeedbackError(
                f"beside has {len(self.beside)} options, and size is {self.size}; give "
                "fewer of them, or a larger size."
            )
        if self.kind == "plane":
            side_of(self.size)
        if self.kind == "line" and (space.rows is not None or not len(space.columns)):
            raise FeedbackError(
                "A line needs numbers that vary, and designs between any two; ask for "
                "options."
            )
