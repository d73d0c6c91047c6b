"""The posterior of a synthetic problem by a long run of an independent sampler.

The rows ``v`` come from :func:`truth.exact_hamiltonian`; utilities given them are a
Gaussian process regression, written out here once more without the package.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from synthetic_problems import ComparisonProblem
from torch import Tensor
from truth import exact_hamiltonian

EFFECTIVE_DRAWS = 20_000
_CHAINS = 400
_BURN_IN = 20
_FIRST_RUN = 40
_LARGEST_RUN = 2000


@dataclass(frozen=True)
class RowDraws:
    """Draws of ``v`` given all answers.

    Attributes:
        draws: ``num_draws x m``.
        effective: Effective number of draws of the worst row, for its mean.
    """

    draws: Tensor
    effective: float


def effective_draws(steps: Tensor) -> float:
    """Effective number of draws of the worst row, from independent chains.

    The variance of the means of ``c`` chains, over ``c``, is that of the overall mean;
    it is known to a relative error of ``sqrt(2 / c)``.

    Args:
        steps: ``num_steps x num_chains x m``.
    """
    chains = steps.shape[1]
    error = steps.mean(0).var(0) / chains
    variance = steps.flatten(0, 1).var(0)
    return float((variance / error).min())


def true_rows(problem: ComparisonProblem, seed: int = 0) -> RowDraws:
    """Draws of ``v``, at least ``EFFECTIVE_DRAWS`` effective ones.

    Args:
        problem: Points, answers, kernel and noise.
        seed: Of the sampler.

    Raises:
        RuntimeError: Where the run would be too long.
    """
    generator = torch.Generator().manual_seed(seed)
    gamma = problem.row_covariance()
    scale = gamma.diagonal().sqrt()
    start = scale * torch.rand(
        _CHAINS, len(gamma), generator=generator, dtype=gamma.dtype
    )
    state = exact_hamiltonian(gamma, start, _BURN_IN, generator)[-1]
    steps = exact_hamiltonian(gamma, state, _FIRST_RUN, generator)
    while (effective := effective_draws(steps)) < EFFECTIVE_DRAWS:
        if len(steps) >= _LARGEST_RUN:
            raise RuntimeError(f"only {effective:.0f} effective draws of {steps.shape}")
        more = exact_hamiltonian(gamma, steps[-1], len(steps), generator)
        steps = torch.cat([steps, more])
    return RowDraws(steps.flatten(0, 1), effective)


def long_rows(problem: ComparisonProblem, num_draws: int, seed: int) -> Tensor:
    """Draws of ``v`` in a random order, which are all but independent.

    Args:
        problem: Points, answers, kernel and noise.
        num_draws: How many.
        seed: Of the sampler and of the order.
    """
    generator = torch.Generator().manual_seed(seed)
    gamma = problem.row_covariance()
    start = gamma.diagonal().sqrt().expand(_CHAINS, -1)
    steps = _BURN_IN + -(-num_draws // _CHAINS)
    draws = exact_hamiltonian(gamma, start.clone(), steps, generator)[_BURN_IN:]
    order = torch.randperm(draws.shape[0] * _CHAINS, generator=generator)
    return draws.flatten(0, 1)[order[:num_draws]]


@dataclass(frozen=True)
class UtilityMixture:
    """Utilities at some points: a mixture of Gaussians with one covariance.

    Attributes:
        means: ``num_draws x q``.
        covariance: ``q x q``, of each component.
    """

    means: Tensor
    covariance: Tensor

    @property
    def mean(self) -> Tensor:
        """Means, ``q`` long."""
        return self.means.mean(0)

    @property
    def deviation(self) -> Tensor:
        """Standard deviations, ``q`` long."""
        return (self.means.var(0) + self.covariance.diagonal()).sqrt()

    def differences(self, pairs: Tensor) -> UtilityMixture:
        """Differences within pairs, without covariances between pairs.

        Args:
            pairs: ``k x 2`` indices of points.
        """
        a, b = pairs.unbind(-1)
        c = self.covariance
        variance = c[a, a] + c[b, b] - c[a, b] - c[b, a]
        return UtilityMixture(
            self.means[:, a] - self.means[:, b], torch.diag(variance.clamp_min(0.0))
        )

    def probability_positive(self) -> Tensor:
        """Probability of each utility or difference to be above zero, ``q`` long."""
        deviation = self.covariance.diagonal().sqrt()
        return torch.special.ndtr(self.means / deviation).mean(0)

    def skewness(self) -> Tensor:
        """Skewness, ``q`` long; only means contribute to the third central moment."""
        third = (self.means - self.mean).pow(3).mean(0)
        return third / self.deviation.pow(3)


def utilities_given_rows(
    problem: ComparisonProblem, rows: RowDraws, x: Tensor
) -> UtilityMixture:
    """The exact posterior of utilities at some points.

    Args:
        problem: Points, answers, kernel and noise.
        rows: Draws of ``v``.
        x: ``q x d``.
    """
    winner, loser = problem.pairs.unbind(-1)
    cross = problem.kernel(x, problem.points)
    cross = cross[:, winner] - cross[:, loser]
    cholesky = torch.linalg.cholesky(problem.row_covariance())
    weights = torch.cholesky_solve(cross.mT, cholesky)
    covariance = problem.kernel(x, x) - cross @ weights
    return UtilityMixture(rows.draws @ weights, covariance)


def root_mean_square(errors: Tensor) -> float:
    """Root mean square of all elements.

    Args:
        errors: Any shape.
    """
    return math.sqrt(float(errors.square().mean()))
