"""Engines as functions of matrices, for tests and benchmarks without a model."""

from collections.abc import Callable

from torch import Tensor

from botorch_pref.inference import (
    Engine,
    ExpectationPropagation,
    GaussianSolution,
    Laplace,
    Sites,
    UtilityPrior,
    VariationalBound,
    WarmStart,
)
from botorch_pref.likelihoods import Factors

Solver = Callable[..., GaussianSolution]


def solver_of(engine: Engine, name: str) -> Solver:
    """Makes a function from ``K``, ``m``, factors and sites to the solution."""

    def solve(
        covar: Tensor, mean: Tensor, factors: Factors, sites: Sites | None = None
    ) -> GaussianSolution:
        prior = UtilityPrior(mean.unsqueeze(-1), mean, covar)
        start = None if sites is None else WarmStart(sites)
        solution = engine.solve(prior, factors, start)
        assert isinstance(solution, GaussianSolution)
        return solution

    solve.__name__ = name
    return solve


laplace = solver_of(Laplace(), "laplace")
expectation_propagation = solver_of(ExpectationPropagation(), "expectation_propagation")
variational = solver_of(VariationalBound(), "variational")
