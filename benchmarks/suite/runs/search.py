"""Where the questions of several runs are looked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Generator, Tensor

from botorch_pref.simulation.problem import Problem


@dataclass(frozen=True)
class Search:
    """Draws of several runs, and the designs of their problem.

    Attributes:
        sources: Sources of each run's draws.
        project: Gives the designs of points of the unit cube; None where all are
            designs.
    """

    sources: Sequence[Generator]
    project: Callable[[Tensor], Tensor] | None = None

    @classmethod
    def of(cls, problem: Problem, sources: Sequence[Generator]) -> Search:
        """Makes the search of a problem."""
        return cls(sources, None if problem.is_cube else problem.project)

    def designs(self, X: Tensor) -> Tensor:
        """Gives the designs of `batch_shape x d` points of the unit cube."""
        return X if self.project is None else self.project(X)
