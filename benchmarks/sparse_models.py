"""The sparse model against the exact one and against stochastic variational inference.

    python benchmarks/sparse_models.py [--large]

Prints held-out log loss and accuracy of 2,000 comparisons over the processor seconds
that a fit took: of the exact model, of `SparsePreferenceGP` with more and more inducing
points, and of stochastic variational inference in minibatches, with natural gradients
and with Adam alone, after once, five and twenty times the seconds of the sparse model
with as many inducing points. All start from the same kernel. Then the exact and the
sparse model of real choices between two trains, of one out of six vehicles, and of
lecturers' marks from 1 to 5 (lme4's InstEval); the sparse log loss is to be within .002
of the exact one. With ``--large`` also time, memory and scores of a fit to 100,000
comparisons of 10,000 points with 16 features, and time and memory of one evidence of
1,000,000.

Utilities are drawn from a Gaussian process; half of the features hardly matter. Answers
are heard with a noise of one on each item.
"""

from __future__ import annotations

import argparse
import math
import resource
import time
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from botorch.fit import fit_gpytorch_mll
from held_out_scores import scaling
from report import print_table, seconds, start
from torch import Tensor
from torch.special import log_ndtr, ndtr

from botorch_pref import (
    Comparisons,
    EPPreferenceGP,
    OrdinalRatings,
    PreferenceMarginalLogLikelihood,
    SparsePreferenceGP,
)
from botorch_pref.datasets import (
    ComparisonData,
    FeedbackData,
    load_car,
    load_train,
)
from botorch_pref.datasets.data import distinct_items
from botorch_pref.datasets.tables import one_hot, read_r_table
from botorch_pref.evaluation import predictive_log_probability
from botorch_pref.models import PreferenceGP
from botorch_pref.models.engines import spread_places
from botorch_pref.models.kernels import default_covar_module

# Features, points, and lengthscales of those that matter over the root of the features.
PROBLEMS = {
    "smooth, d = 4": (4, 600, 0.35),
    "rough, d = 6": (6, 600, 0.15),
    "wide, d = 16": (16, 1000, 0.35),
}
NUM_PAIRS = 2000


def load_lecturers() -> FeedbackData[OrdinalRatings]:
    """73,421 marks by what is known of student, lecturer and lecture."""
    table = read_r_table("lme4", "InstEval")
    names = ("studage", "lectage", "service")
    numbers = torch.tensor(table[list(names)].to_numpy(dtype=float))
    departments = sorted(table["dept"].unique())
    own = one_hot(list(table["dept"]), departments)
    points, places = distinct_items(torch.cat([numbers, own], -1).unsqueeze(-2))
    marks = torch.tensor(table["y"].to_numpy(dtype=int)) - 1
    columns = (*names, *(f"dept_{name}" for name in departments))
    return FeedbackData(points, OrdinalRatings(places.squeeze(-1), marks, 5), columns)


REAL = {"Train": load_train, "Car": load_car, "InstEval": load_lecturers}
NUM_LEARNED = {"Train": 2000, "Car": 300, "InstEval": 2000}
SIZES = (32, 64, 128, 256)
PEER_SIZE = 128
BUDGETS = (1, 5, 20)
LARGE = (16, 10_000, 0.35)
LARGE_PAIRS, MILLIONS = 100_000, 1_000_000
HELD = 2000
BATCH = 256
FREQUENCIES = 2000
OUTPUTSCALE = 10.0
NODES = 20
# As GPyTorch has them.
LEAST_VARIANCE = 1e-6
JITTER = 1e-6
ADAM_STEP, NATURAL_STEP = 0.02, 0.1
LOSS_TO_REACH = 0.002
GIGABYTES_TO_REACH, SECONDS_TO_REACH = 4.0, 300.0


@dataclass(frozen=True)
class Problem:
    """Points, comparisons to learn from and comparisons to predict, winner first."""

    points: Tensor
    utility: Tensor
    pairs: Tensor
    held_out: Tensor

    def best_scores(self) -> list[object]:
        """Scores of the utilities themselves."""
        first, second = self.utility[self.held_out].unbind(-1)
        return scores(ndtr((first - second) / math.sqrt(2)))


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
    return Problem(points, utility, pairs[:num_pairs], pairs[num_pairs:])


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


class VariationalDuels:
    r"""Stochastic variational inference of utilities, as GPyTorch has it for values.

    Weights of whitened features of inducing points have a Gaussian posterior in natural
    parameters. With ``natural``, these move along natural gradients in minibatches
    (Khan and Nielsen 2018; Hensman et al. 2013); else by Adam, as its mean and the
    Cholesky factor of its covariance. Hyper-parameters move by Adam.

    Args:
        given: The problem.
        natural: Whether by natural gradients.
    """

    def __init__(self, given: Problem, natural: bool) -> None:
        self.given, self.natural = given, natural
        dimension = given.points.shape[-1]
        self.kernel = default_covar_module(dimension, torch.Size()).double()
        places = spread_places(self.kernel, given.points, PEER_SIZE)
        self.inducing_points = given.points[places]
        self.mean = torch.zeros(PEER_SIZE, dtype=torch.float64)
        self.root = torch.eye(PEER_SIZE, dtype=torch.float64)
        self.pull, self.precision = self.mean.clone(), self.root.clone()
        own = (
            [] if natural else [self.mean.requires_grad_(), self.root.requires_grad_()]
        )
        self.adam = torch.optim.Adam([*own, *self.kernel.parameters()], ADAM_STEP)
        self.generator = torch.Generator().manual_seed(1)

    def features(self, pairs: Tensor) -> tuple[Tensor, Tensor]:
        """Features of differences of pairs, and the variances that they leave open."""
        kernel, first, second = self.kernel, *self.given.points[pairs].unbind(-2)
        covar = kernel(self.inducing_points).to_dense()
        jitter = JITTER * kernel.outputscale * torch.eye(PEER_SIZE, dtype=covar.dtype)
        cholesky = torch.linalg.cholesky(covar + jitter)
        cross = kernel(self.inducing_points, first) - kernel(
            self.inducing_points, second
        )
        half = torch.linalg.solve_triangular(cholesky, cross.to_dense(), upper=False)
        own = 2 * (kernel.outputscale - kernel(first, second, diag=True))
        return half.mT, (own - half.square().sum(0)).clamp_min(0.0)

    def moments(self, pairs: Tensor) -> tuple[Tensor, Tensor]:
        """Means and variances of differences."""
        features, left = self.features(pairs)
        spread = features @ self.root.tril()
        return features @ self.mean, spread.square().sum(-1) + left

    def step(self) -> None:
        """One minibatch."""
        pairs, total = self.given.pairs, len(self.given.pairs)
        pairs = pairs[torch.randint(total, (BATCH,), generator=self.generator)]
        if self.natural:
            self.natural_step(pairs, total / BATCH)
        self.adam.zero_grad()
        fit = expected_log_probability(*self.moments(pairs)).mean()
        root = self.root.tril()
        divergence = 0.5 * (root.square().sum() + self.mean.square().sum())
        divergence = divergence - root.diagonal().abs().log().sum()
        priors = sum(
            prior.log_prob(closure(module)).sum()
            for _, module, prior, closure, _ in self.kernel.named_priors()
        )
        (-(fit + (priors - divergence) / total)).backward()
        self.adam.step()

    @torch.no_grad()
    def natural_step(self, pairs: Tensor, scale: float) -> None:
        """Moves natural parameters towards those that the minibatch asks for."""
        features, left = self.features(pairs)
        spread = (features @ self.root.tril()).square().sum(-1) + left
        with torch.enable_grad():
            mean = (features @ self.mean).requires_grad_()
            value = expected_log_probability(mean, spread).sum()
            (first,) = torch.autograd.grad(value, mean, create_graph=True)
            (second,) = torch.autograd.grad(first.sum(), mean)
        pull = features.mT @ (first.detach() - second * mean.detach())
        precision = features.mT @ (-second.unsqueeze(-1) * features)
        eye = torch.eye(PEER_SIZE, dtype=pull.dtype)
        self.pull = (1 - NATURAL_STEP) * self.pull + NATURAL_STEP * scale * pull
        self.precision = (1 - NATURAL_STEP) * self.precision + NATURAL_STEP * (
            eye + scale * precision
        )
        self.root = torch.linalg.cholesky(torch.linalg.inv(self.precision))
        self.mean = torch.linalg.solve(self.precision, self.pull)

    @torch.no_grad()
    def scores(self) -> list[object]:
        """Scores of the comparisons to predict."""
        mean, variance = self.moments(self.given.held_out)
        return scores(ndtr(mean / (2 + variance).sqrt()))


def expected_log_probability(mean: Tensor, variance: Tensor) -> Tensor:
    """``E[log Phi(z / sqrt 2)]`` by Gauss and Hermite's rule.

    Args:
        mean: Of ``z``.
        variance: Of ``z``.
    """
    x, w = map(torch.from_numpy, np.polynomial.hermite.hermgauss(NODES))
    z = mean + (2 * variance.clamp_min(LEAST_VARIANCE)).sqrt() * x.unsqueeze(-1)
    return (w.unsqueeze(-1) * log_ndtr(z / math.sqrt(2))).sum(0) / math.sqrt(math.pi)


def variational_rows(
    given: Problem, budget: float, natural: bool
) -> list[list[object]]:
    """Rows for stochastic variational inference after multiples of some seconds.

    Args:
        given: The problem.
        budget: The seconds.
        natural: Whether by natural gradients.
    """
    model, spent, rows = VariationalDuels(given, natural), 0.0, []
    name = "natural gradients" if natural else "Adam"
    for times in BUDGETS:
        while spent < times * budget:
            spent += seconds(model.step)
        rows.append([f"{name}, minibatches", PEER_SIZE, spent, *model.scores()])
    return rows


def small_rows(name: str) -> list[list[object]]:
    """Rows of the table for one of ``PROBLEMS``.

    Args:
        name: Of the problem.
    """
    given = problem(*PROBLEMS[name], NUM_PAIRS)
    model, spent = fitted(EPPreferenceGP(given.points, given.pairs))
    rows: list[list[object]] = [
        ["the utilities", "-", "-", *given.best_scores()],
        ["exact EP", "-", spent, *model_scores(model, given)],
    ]
    budget = spent
    for size in SIZES:
        sparse = SparsePreferenceGP(given.points, given.pairs, num_inducing=size)
        model, spent = fitted(sparse)
        rows.append(["sparse EP", size, spent, *model_scores(model, given)])
        budget = spent if size == PEER_SIZE else budget
    for natural in (True, False):
        rows += variational_rows(given, budget, natural)
    return rows


def real_rows(name: str) -> list[list[object]]:
    """Rows of the table for one of ``REAL``, real answers of people.

    Args:
        name: Of the table.
    """
    data: Any = REAL[name]()
    num_learned = NUM_LEARNED[name]
    if isinstance(data, ComparisonData):
        pairs = Comparisons(data.comparisons)
        data = FeedbackData(data.datapoints, pairs, data.feature_names)
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(0))
    learned = data.subset(order[:num_learned])
    held = data.subset(order[num_learned : num_learned + HELD])
    kinds = {"exact EP": partial(EPPreferenceGP)}
    for size in SIZES:
        kinds[f"sparse EP, {size}"] = partial(SparsePreferenceGP, num_inducing=size)
    rows: list[list[object]] = []
    for label, kind in kinds.items():
        made = kind(
            learned.datapoints,
            feedback=[learned.feedback],
            input_transform=scaling(learned.datapoints),
        )
        model, spent = fitted(made)
        with torch.no_grad():
            log_probability = predictive_log_probability(
                held.feedback, model.eval(), held.datapoints
            )
            evidence = model.log_evidence().item()
        rows.append([label, spent, f"{evidence:.2f}", f"{-log_probability.mean():.4f}"])
    return rows


def beside_exact(rows: list[list[object]], loss: int) -> list[list[object]]:
    """The rows with how far the loss of sparse models is from that of the exact one.

    Args:
        rows: The label first; "exact EP" is one.
        loss: The column of the log loss.
    """
    exact = next(float(str(row[loss])) for row in rows if row[0] == "exact EP")
    told = []
    for row in rows:
        is_sparse = str(row[0]).startswith("sparse")
        away = f"{float(str(row[loss])) - exact:+.4f}" if is_sparse else ""
        told.append([*row, away, LOSS_TO_REACH if is_sparse else ""])
    return told


def print_millions() -> None:
    """Prints time and memory of one evidence with its gradient of many answers."""
    given = problem(*LARGE, MILLIONS)
    model = SparsePreferenceGP(given.points, given.pairs)
    begin = time.process_time()
    model.log_evidence().backward()
    spent = time.process_time() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    what = f"{MILLIONS} comparisons of {LARGE[1]} points"
    print(f"{what}, one evidence with its gradient")
    row = [spent, peak, GIGABYTES_TO_REACH]
    print_table(["seconds", "gigabytes", "to reach"], [row])


def print_large() -> None:
    """Prints time, memory and scores of a fit to ``LARGE_PAIRS`` comparisons."""
    given = problem(*LARGE, LARGE_PAIRS)
    sparse = SparsePreferenceGP(given.points, given.pairs)
    begin = time.perf_counter()
    model, spent = fitted(sparse)
    wall = time.perf_counter() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"{LARGE_PAIRS} comparisons of {LARGE[1]} points with {LARGE[0]} features")
    header = ["", "seconds", "on the wall", "gigabytes", "log loss", "accuracy, %"]
    reached = ["reached", spent, wall, peak, *model_scores(model, given)]
    aim = ["to reach", SECONDS_TO_REACH, "-", GIGABYTES_TO_REACH, *given.best_scores()]
    print_table(header, [reached, aim])


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--large", action="store_true")
    large = parser.parse_args().large
    start("Sparse models: held-out comparisons over the seconds of a fit")
    heads = ["model", "inducing points", "seconds", "log loss", "accuracy, %"]
    aim = ["from exact", "to reach"]
    for name in PROBLEMS:
        print(f"{name}, {NUM_PAIRS} comparisons")
        print_table([*heads, *aim], beside_exact(small_rows(name), 3))
    for name in REAL:
        print(f"{name}, {NUM_LEARNED[name]} answers")
        header = ["model", "seconds", "log evidence", "log loss"]
        print_table([*header, *aim], beside_exact(real_rows(name), 3))
    if large:
        print_large()
        print_millions()


if __name__ == "__main__":
    main()
