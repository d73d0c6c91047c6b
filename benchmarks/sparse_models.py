"""The sparse model against the exact one and against stochastic variational inference.

    python benchmarks/sparse_models.py [--large]

Prints held-out log loss and accuracy of 2,000 comparisons over the processor seconds
that a fit took: of the exact model, of `SparsePreferenceGP` with more and more inducing
points, and of GPyTorch's variational Gaussian process, in minibatches, with natural
gradients and with Adam alone, after once, five and twenty times the seconds of the
sparse model with as many inducing points. All start from the same kernel. With
``--large``, 100,000 comparisons of 10,000 points with 16 features: seconds, memory, and
the scores of the exact model on as many comparisons as it can hold.

Utilities are drawn from a Gaussian process; half of the features hardly matter. Answers
are heard with a noise of one on each item.
"""

from __future__ import annotations

import argparse
import math
import resource
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from botorch.fit import fit_gpytorch_mll
from gpytorch.distributions import MultivariateNormal
from gpytorch.means import ZeroMean
from gpytorch.models import ApproximateGP
from gpytorch.optim import NGD
from gpytorch.variational import (
    CholeskyVariationalDistribution,
    NaturalVariationalDistribution,
    VariationalStrategy,
)
from report import print_table, seconds, start
from torch import Tensor
from torch.special import log_ndtr, ndtr

from botorch_pref import (
    EPPreferenceGP,
    PreferenceMarginalLogLikelihood,
    SparsePreferenceGP,
)
from botorch_pref.models import PreferenceGP
from botorch_pref.models.preference_gp import default_covar_module
from botorch_pref.models.sparse import spread_places

# Features, points, and lengthscales of those that matter over the root of the features.
PROBLEMS = {
    "smooth, d = 4": (4, 600, 0.35),
    "rough, d = 6": (6, 600, 0.15),
    "wide, d = 16": (16, 1000, 0.35),
}
NUM_PAIRS = 2000
SIZES = (32, 64, 128, 256)
PEER_SIZE = 128
BUDGETS = (1, 5, 20)
LARGE = (16, 10_000, 0.35)
LARGE_PAIRS = 100_000
HELD = 2000
BATCH = 256
FREQUENCIES = 2000
OUTPUTSCALE = 10.0
NODES = 20
GIGABYTES_TO_REACH, SECONDS_TO_REACH = 4.0, 300.0


@dataclass(frozen=True)
class Problem:
    """Points, comparisons to learn from and comparisons to predict, winner first."""

    points: Tensor
    pairs: Tensor
    held_out: Tensor


def problem(
    dimension: int, num_points: int, lengthscale: float, num_pairs: int, seed: int = 0
) -> Problem:
    """A draw of a utility, and answers about it.

    Args:
        dimension: Number of features, of which the second half hardly matter.
        num_points: How many points there are.
        lengthscale: Of the first half, over the root of the dimension.
        num_pairs: Comparisons to learn from.
        seed: Of all that is drawn.
    """
    generator = torch.Generator().manual_seed(seed)
    options: Any = {"generator": generator, "dtype": torch.float64}
    points = torch.rand(num_points, dimension, **options)
    scale = torch.full((dimension,), lengthscale * dimension**0.5, dtype=torch.float64)
    scale[dimension // 2 :] *= 4
    frequencies = torch.randn(dimension, FREQUENCIES, **options) / scale.unsqueeze(-1)
    phases = 2 * math.pi * torch.rand(FREQUENCIES, **options)
    weights = torch.randn(FREQUENCIES, **options)
    utility = (points @ frequencies + phases).cos() @ weights
    utility = math.sqrt(2 * OUTPUTSCALE / FREQUENCIES) * utility
    total = num_pairs + HELD
    pairs = torch.randint(num_points, (total, 2), generator=generator)
    step = torch.randint(1, num_points, (total,), generator=generator)
    pairs[:, 1] = (pairs[:, 0] + step) % num_points
    heard = utility[pairs] + torch.randn(total, 2, **options)
    pairs = torch.where((heard[:, :1] > heard[:, 1:]), pairs, pairs.flip(-1))
    return Problem(points, pairs[:num_pairs], pairs[num_pairs:])


def scores(probability: Tensor) -> list[object]:
    """Log loss and accuracy of the probabilities of what was answered.

    Args:
        probability: One for each answer.
    """
    right = (probability > 0.5).double().mean()
    return [f"{-probability.log().mean():.4f}", f"{100 * right:.1f}"]


@torch.no_grad()
def model_scores(model: PreferenceGP, given: Problem) -> list[object]:
    """Scores of one of our models.

    Args:
        model: After its fit.
        given: Has the comparisons to predict.
    """
    first, second = (given.points[i].unsqueeze(-2) for i in given.held_out.unbind(-1))
    return scores(model.duel_probability(first, second, observation_noise=True))


def fitted(model: PreferenceGP) -> tuple[PreferenceGP, float]:
    """A model after its fit, and the seconds of that.

    Args:
        model: A new one.
    """
    mll = PreferenceMarginalLogLikelihood(model.likelihood, model)
    return model, seconds(lambda: fit_gpytorch_mll(mll))


class VariationalDuels(ApproximateGP):
    """GPyTorch's variational Gaussian process, of utilities.

    Args:
        inducing_points: Where it starts; they are learned.
        natural: Whether the distribution is in natural parameters.
    """

    def __init__(self, inducing_points: Tensor, natural: bool) -> None:
        kind = (
            NaturalVariationalDistribution
            if natural
            else (CholeskyVariationalDistribution)
        )
        strategy = VariationalStrategy(
            self, inducing_points, kind(len(inducing_points)), True
        )
        super().__init__(strategy)
        self.mean_module = ZeroMean()
        self.covar_module = default_covar_module(
            inducing_points.shape[-1], torch.Size()
        )
        self.double()

    def forward(self, x: Tensor) -> MultivariateNormal:
        """The prior at some points."""
        return MultivariateNormal(self.mean_module(x), self.covar_module(x))

    def differences(self, points: Tensor, pairs: Tensor) -> tuple[Tensor, Tensor]:
        """Means and variances of differences of utilities under the posterior."""
        m = len(pairs)
        both = self(points[pairs.T.flatten()])
        mean, covar = both.mean, both.covariance_matrix
        own = covar.diagonal()
        across = covar[torch.arange(m), torch.arange(m) + m]
        return mean[:m] - mean[m:], own[:m] + own[m:] - 2 * across


def expected_log_probability(mean: Tensor, variance: Tensor) -> Tensor:
    """``E[log Phi(z / sqrt 2)]`` by Gauss and Hermite's rule.

    Args:
        mean: Of ``z``.
        variance: Of ``z``.
    """
    x, w = map(torch.from_numpy, np.polynomial.hermite.hermgauss(NODES))
    z = mean + (2 * variance.clamp_min(1e-12)).sqrt() * x.unsqueeze(-1)
    return (w.unsqueeze(-1) * log_ndtr(z / math.sqrt(2))).sum(0) / math.sqrt(math.pi)


def steps(model: VariationalDuels, given: Problem, natural: bool) -> Iterator[None]:
    """Steps of stochastic variational inference, without an end.

    Args:
        model: Is changed.
        given: Has the comparisons to learn from.
        natural: Whether its distribution moves along natural gradients.
    """
    own = list(model.variational_parameters())
    others = [*model.hyperparameters()]
    optimisers: list[Any] = [
        torch.optim.Adam(others if natural else [*own, *others], 0.02)
    ]
    if natural:
        optimisers.append(NGD(own, num_data=len(given.pairs), lr=0.1))
    generator = torch.Generator().manual_seed(1)
    while True:
        chosen = torch.randint(len(given.pairs), (BATCH,), generator=generator)
        moments = model.differences(given.points, given.pairs[chosen])
        fit = expected_log_probability(*moments).mean()
        priors = sum(
            prior.log_prob(closure(module)).sum()
            for _, module, prior, closure, _ in model.named_priors()
        )
        rest = priors - model.variational_strategy.kl_divergence()
        loss = -(fit + rest / len(given.pairs))
        for optimiser in optimisers:
            optimiser.zero_grad()
        loss.backward()
        for optimiser in optimisers:
            optimiser.step()
        yield


@torch.no_grad()
def variational_scores(model: VariationalDuels, given: Problem) -> list[object]:
    """Scores of GPyTorch's model.

    Args:
        model: As it is now.
        given: Has the comparisons to predict.
    """
    model.eval()
    parts = [model.differences(given.points, p) for p in given.held_out.split(BATCH)]
    mean, variance = (torch.cat(part) for part in zip(*parts, strict=True))
    model.train()
    return scores(ndtr(mean / (2 + variance).sqrt()))


def variational_rows(
    given: Problem, budget: float, natural: bool
) -> list[list[object]]:
    """Rows of the table for GPyTorch's model after multiples of some seconds.

    Args:
        given: The problem.
        budget: The seconds.
        natural: Whether by natural gradients.
    """
    kernel = default_covar_module(given.points.shape[-1], torch.Size()).double()
    places = spread_places(kernel, given.points, PEER_SIZE)
    model = VariationalDuels(given.points[places].clone(), natural)
    name = "natural gradients" if natural else "Adam"
    spent, rows, run = 0.0, [], steps(model, given, natural)
    for times in BUDGETS:
        while spent < times * budget:
            spent += seconds(lambda: next(run))
        rows.append([name, PEER_SIZE, spent, *variational_scores(model, given)])
    return rows


def small_rows(name: str) -> list[list[object]]:
    """Rows of the table for one of ``PROBLEMS``.

    Args:
        name: Of the problem.
    """
    given = problem(*PROBLEMS[name], NUM_PAIRS)
    model, spent = fitted(EPPreferenceGP(given.points, given.pairs))
    rows: list[list[object]] = [["exact EP", "-", spent, *model_scores(model, given)]]
    budget = spent
    for size in SIZES:
        sparse = SparsePreferenceGP(given.points, given.pairs, num_inducing=size)
        model, spent = fitted(sparse)
        rows.append(["sparse EP", size, spent, *model_scores(model, given)])
        budget = spent if size == PEER_SIZE else budget
    for natural in (True, False):
        rows += variational_rows(given, budget, natural)
    return rows


def large_rows() -> list[list[object]]:
    """Rows for ``LARGE``: the sparse model, and the exact one on a part of it."""
    given = problem(*LARGE, LARGE_PAIRS)
    sparse = SparsePreferenceGP(given.points, given.pairs)
    begin = time.time()
    model, spent = fitted(sparse)
    wall = time.time() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(
        f"{LARGE_PAIRS} comparisons: {spent:.0f} processor seconds ({wall:.0f} on the "
        f"wall) of {SECONDS_TO_REACH:.0f}, {peak:.1f} GB of {GIGABYTES_TO_REACH:.0f}\n"
    )
    rows: list[list[object]] = [
        [f"sparse EP, {LARGE_PAIRS}", 256, spent, *model_scores(model, given)]
    ]
    few = Problem(given.points, given.pairs[:NUM_PAIRS], given.held_out)
    used, place = torch.unique(few.pairs, return_inverse=True)
    for name, kind in (("exact EP", EPPreferenceGP), ("sparse EP", SparsePreferenceGP)):
        model, spent = fitted(kind(few.points[used], place))
        rows.append([f"{name}, {NUM_PAIRS}", "-", spent, *model_scores(model, given)])
    return rows


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--large", action="store_true")
    large = parser.parse_args().large
    start("Sparse models: held-out comparisons over the seconds of a fit")
    heads = ["model", "inducing points", "seconds", "log loss", "accuracy, %"]
    if large:
        print_table(heads, large_rows())
        return
    for name in PROBLEMS:
        print(f"{name}, {NUM_PAIRS} comparisons")
        print_table(heads, small_rows(name))


if __name__ == "__main__":
    main()
