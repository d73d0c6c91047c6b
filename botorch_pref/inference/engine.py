"""The protocol of engines, and the cache of what one found."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Generic, Self, TypeVar

import torch
from botorch.posteriors.posterior import Posterior
from torch import Tensor

from botorch_pref.inference.solution import (
    FurtherAnswers,
    PosteriorTangent,
    PosteriorTerms,
    Sites,
    Solution,
    UtilityPrior,
    WarmStart,
)
from botorch_pref.likelihoods.factors import Factors
from botorch_pref.linalg.sparse_design import SparseDesign
from botorch_pref.posteriors.gaussian import Moments, gaussian_posterior


class Engine(ABC):
    """A method of inference: from a prior and factors to a posterior.

    An engine has settings and no state: models share it, and what it finds is a
    :class:`Solution`.

    Attributes:
        takes: The kinds of factors that it takes, subclasses included.
    """

    takes: ClassVar[frozenset[type[Any]]]

    @abstractmethod
    def solve(
        self, prior: UtilityPrior, factors: Factors, start: WarmStart | None = None
    ) -> Solution[PosteriorTerms]:
        """The posterior of utilities given answers.

        Args:
            prior: Of utilities at the n points.
            factors: m factors on rows of the n points.
            start: Where an earlier solution ended. The solution does not depend on it,
                but for the engine's tolerance; its cost does.
        """

    def accepts(self, factors: type[Factors]) -> bool:
        """Whether the engine takes a kind of factors.

        Args:
            factors: A class.
        """
        return any(issubclass(factors, kind) for kind in self.takes)

    def posterior(self, moments: Moments) -> Posterior:
        """Moments as a posterior of BoTorch's: a Gaussian.

        Args:
            moments: Of utilities, or of linear combinations of them.
        """
        return gaussian_posterior(moments)

    def site_rows(self, factors: Factors) -> SparseDesign:
        """The rows of utilities that have the engine's sites.

        Args:
            factors: Of all answers.
        """
        return factors.rows

    def initial_sites(self, factors: Factors, moments: Moments | None = None) -> Sites:
        """Initial sites of further answers: empty, as if nothing were said yet.

        Args:
            factors: Of the further answers, about their own points.
            moments: Of utilities at these points given the earlier answers; None where
                they are not known.
        """
        rows = self.site_rows(factors)
        none = rows.coefficients.new_zeros(rows.num_rows)
        return Sites(none, none)


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
