"""The memory of a model: its last solution, for its data and parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Generic, Self, TypeVar

import torch
from torch import Tensor

from botorch_pref.inference.derivatives.posterior_tangent import PosteriorTangent
from botorch_pref.inference.engine import Engine
from botorch_pref.inference.posterior_terms import PosteriorTerms
from botorch_pref.inference.solution import Solution
from botorch_pref.inference.utility_prior import UtilityPrior
from botorch_pref.inference.warm_start import FurtherAnswers, WarmStart
from botorch_pref.posteriors.moments import Moments

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

    def solution_of(
        self, state: Sequence[Tensor], solve: Callable[[WarmStart | None], SolutionT]
    ) -> SolutionT:
        """The solution for a state, found anew where it was found for another.

        Args:
            state: Hyper-parameters, and what an input transform has learned.
            solve: Finds a solution from a start, or from the prior.
        """
        unchanged = self._is_of(state)
        if self.solution is not None and unchanged:
            return self.solution
        start = self.start
        if start is not None and not unchanged:
            start = start.at_other_parameters()
        with torch.no_grad():
            solution = solve(start)
        self.solution, self.tangent = solution, None
        self.start = solution.warm_start()
        self.state = tuple(t.clone() for t in state)
        return solution

    def _is_of(self, state: Sequence[Tensor]) -> bool:
        return len(state) == len(self.state) and all(
            torch.equal(a, b) for a, b in zip(state, self.state, strict=True)
        )

    def terms_at(self, prior: UtilityPrior) -> PosteriorTerms:
        """The terms of the solution with derivatives in the prior and its points.

        They are recorded anew each time, at the cost of no solution: nothing that is
        cached has a graph, and every call can be differentiated once.

        Args:
            prior: That of the solution, with a graph.
        """
        solution: Any = self.solution
        if self.tangent is None:
            with torch.no_grad():
                self.tangent = solution.tangent(prior.mean)
        change = self.tangent(prior.covar, prior.mean)
        return replace(
            solution.terms,
            points=prior.points,
            weights=solution.terms.weights + change.weights,
            precision_change=change.precision,
        )

    def followed_by(
        self,
        engine: Engine,
        further: FurtherAnswers,
        moments: Callable[[], Moments] | None,
    ) -> Self:
        """The cache of a model with further answers: where its engine starts.

        Args:
            engine: Of the model.
            further: The answers that join.
            moments: Of utilities at their points under the solution; None where the
                hyper-parameters may have changed since.
        """
        if moments is None or self.solution is None:
            first = engine.initial_sites(further.factors)
            start = self.start
            return type(self)(start and start.followed_by(further.sources, first))
        with torch.no_grad():
            further = further._replace(moments=moments())
        return type(self)(self.solution.warm_start(further), self.state)
