"""The memory of a model: its last solution, for its data and parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from botorch_pref.inference.derivatives.posterior_tangent import PosteriorTangent
from botorch_pref.inference.solution import Solution
from botorch_pref.inference.warm_start import WarmStart

SolutionT = TypeVar("SolutionT", bound=Solution[Any])


class SolutionCache(Generic[SolutionT]):
    """The last solution of a model for its present data.

    Args:
        start: Where the engine starts.
        state: What that was found for.

    Attributes:
        solution: None before there is one.
        tangent: Of the solution; None before it is wanted.
    """

    def __init__(
        self, start: WarmStart | None = None, state: Sequence[Tensor] = ()
    ) -> None:
        self.start = start
        self.state = tuple(state)
        self.solution: SolutionT | None = None
        self.tangent: PosteriorTangent | None = None

    def is_of(self, state: Sequence[Tensor]) -> bool:
        """Whether what is kept was found for a state.

        Args:
            state: Hyper-parameters, and what an input transform has learned.
        """
        return len(state) == len(self.state) and all(
            torch.equal(a, b) for a, b in zip(state, self.state, strict=True)
        )

    def keep(self, solution: SolutionT, state: Sequence[Tensor]) -> None:
        """Replaces the solution.

        Args:
            solution: The new one.
            state: What it was found for; copied.
        """
        self.solution, self.tangent = solution, None
        self.start = solution.warm_start()
        self.state = tuple(t.clone() for t in state)
