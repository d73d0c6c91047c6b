"""5,000 comparisons among 100 items against 100 comparisons among 200 points.

    python benchmarks/many_comparisons.py [--answers 200000]

Prints seconds of one evidence with its gradient, and of one fit. The work of the first
is in the space of its 100 points, that of the second in the space of its 100 rows: both
factorise 100 x 100 matrices. Answers about one pair are one row, so that 200,000
comparisons have 4,950.

Then one pair that was answered 100,000 times, by every engine and likelihood and at
output scales up to 1e4, beside one answer: how far the posterior mean of the difference
is from the integral, in posterior deviations, and its deviation, relative to it, at
worst; and the ratio of the times of an evidence with its gradient. Draws of the
skew-normal posterior, a thousand, have errors of .03 and .02.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable

import torch
from botorch.fit import fit_gpytorch_mll
from known_models import fresh_mll, known_model
from report import fastest, print_table, start
from synthetic_problems import DIMENSION, ComparisonProblem, synthetic_comparisons
from torch import Tensor
from torch.nn.functional import logsigmoid
from torch.special import log_ndtr

from botorch_pref import (
    Comparisons,
    EPPreferenceGP,
    LaplacePreferenceGP,
    PairwiseLogitLikelihood,
    PairwiseProbitLikelihood,
    RaoKupperLikelihood,
    SkewPreferenceGP,
    SparsePreferenceGP,
    VariationalPreferenceGP,
)
from botorch_pref.models import PreferenceGP

ITEMS, ANSWERS, FEW = 100, 5000, 100
NOISE = 0.25
RATIO_TO_REACH = 5.0
REPEATS = 5
MODELS = {"Laplace": LaplacePreferenceGP, "EP": EPPreferenceGP}
OFTEN, SCALES = 100_000, (1.0, 1e2, 1e4)
THRESHOLD = 0.4
GRID = 400_001
LIKELIHOODS: dict[str, Callable[[], torch.nn.Module]] = {
    "probit": lambda: PairwiseProbitLikelihood(0.5),
    "logit": PairwiseLogitLikelihood,
    "Rao-Kupper": lambda: RaoKupperLikelihood(tie_threshold=THRESHOLD),
}
ENGINES: dict[str, tuple[type[PreferenceGP], list[str]]] = {
    "EP": (EPPreferenceGP, [*LIKELIHOODS]),
    "EP, inducing points": (SparsePreferenceGP, [*LIKELIHOODS]),
    "Laplace": (LaplacePreferenceGP, [*LIKELIHOODS]),
    "skew-normal": (SkewPreferenceGP, ["probit"]),
    "variational": (VariationalPreferenceGP, ["logit"]),
}


def many_answers(count: int = ANSWERS) -> ComparisonProblem:
    """Answers about random pairs of 100 items.

    Args:
        count: How many.
    """
    generator = torch.Generator().manual_seed(0)
    options = {"generator": generator, "dtype": torch.float64}
    points = torch.rand(ITEMS, DIMENSION, **options)
    problem = ComparisonProblem(points, torch.empty(0, 2, dtype=torch.long), NOISE)
    values, vectors = torch.linalg.eigh(problem.point_covariance())
    utilities = vectors @ (values.clamp_min(0).sqrt() * torch.randn(ITEMS, **options))
    first = torch.randint(ITEMS, (count,), generator=generator)
    second = torch.randint(1, ITEMS, (count,), generator=generator)
    pairs = torch.stack([first, (first + second) % ITEMS], dim=-1)
    heard = utilities[pairs] + NOISE**0.5 * torch.randn(count, 2, **options)
    lost = (heard[:, 0] < heard[:, 1]).unsqueeze(-1)
    return ComparisonProblem(points, torch.where(lost, pairs.flip(-1), pairs), NOISE)


def costs(model_class: type[PreferenceGP], problem: ComparisonProblem) -> list[float]:
    """Seconds of one evidence with its gradient, and of one fit.

    Args:
        model_class: The engine.
        problem: Points and answers.
    """

    def evidence() -> None:
        known_model(model_class, problem).log_evidence().backward()

    def fit() -> None:
        fit_gpytorch_mll(fresh_mll(model_class, problem))

    return [fastest(evidence, REPEATS), fastest(fit, 2)]


def log_probability(likelihood: str, z: Tensor, answers: list[int]) -> Tensor:
    """The logarithm of the probability of wins, losses and ties of a pair.

    Args:
        likelihood: Its name.
        z: The difference of the utilities.
        answers: Their numbers.
    """
    won, lost, tied = answers
    link = log_ndtr if likelihood == "probit" else logsigmoid
    if likelihood != "Rao-Kupper":
        return won * link(z) + lost * link(-z)
    wins, losses = link(z - THRESHOLD), link(-z - THRESHOLD)
    # Of a logistic judge: sigma(z - t) sigma(-z - t) (exp(2 t) - 1).
    tie = wins + losses + math.log(math.expm1(2 * THRESHOLD))
    return won * wins + lost * losses + tied * tie


def truth(likelihood: str, answers: list[int], variance: float) -> tuple[float, float]:
    """Mean and deviation of the difference by an integral on a fine grid.

    Args:
        likelihood: Its name.
        answers: Numbers of wins, losses and ties.
        variance: Of the difference, before them.
    """
    low, high = -12 * variance**0.5, 12 * variance**0.5
    # Each grid is where the one before has anything to speak of.
    for _ in range(4):
        z = torch.linspace(low, high, GRID, dtype=torch.float64)
        log = log_probability(likelihood, z, answers) - 0.5 * z.square() / variance
        kept = z[log > log.max() - 60]
        step = float(z[1] - z[0])
        low, high = float(kept[0]) - step, float(kept[-1]) + step
    weights = log.softmax(0)
    mean = (weights * z).sum()
    return float(mean), float((weights * (z - mean).square()).sum().sqrt())


def one_pair(
    model_class: type[PreferenceGP], likelihood: str, answers: list[int], scale: float
) -> tuple[float, float, float]:
    """Errors of the mean and the deviation of a pair's difference, and seconds.

    Args:
        model_class: The engine.
        likelihood: Its name.
        answers: Numbers of wins, losses and ties.
        scale: The output scale.
    """
    points = torch.tensor([[0.2], [0.7]], dtype=torch.float64)
    counts, tied = torch.tensor(answers[:2]), torch.tensor(answers[2:])
    pairs = torch.tensor([[0, 1], [1, 0]])[counts > 0]
    has_ties = bool(tied.any())
    told = Comparisons(
        pairs,
        torch.tensor([[0, 1]]) if has_ties else None,
        pair_counts=counts[counts > 0],
        tie_counts=tied if has_ties else None,
    )

    def made() -> PreferenceGP:
        model = model_class(points, told, likelihood=LIKELIHOODS[likelihood]())
        if isinstance(model, SparsePreferenceGP):
            model.inducing_points = points
        model.covar_module.outputscale = scale
        return model

    spent = fastest(lambda: made().log_evidence().backward(), REPEATS)
    model = made().eval()
    with torch.no_grad():
        prior = model.covar_module(points).to_dense()
        variance = float(prior[0, 0] + prior[1, 1] - 2 * prior[0, 1])
        duel = model.duel_posterior(points[:1], points[1:])
    mean, deviation = truth(likelihood, answers, variance)
    of_mean = abs(float(duel.mean) - mean) / deviation
    return of_mean, abs(float(duel.variance) ** 0.5 / deviation - 1), spent


def often_and_once(name: str, likelihood: str) -> list[object]:
    """A row: the worst errors and the ratio of times of many answers and of one.

    Args:
        name: Of the engine.
        likelihood: Its name.
    """
    model_class, _ = ENGINES[name]
    ties = OFTEN // 10 if likelihood == "Rao-Kupper" else 0
    most = (61 * (OFTEN - ties)) // 100
    many = [[OFTEN, 0, 0], [most, OFTEN - ties - most, ties]]
    found = [
        [one_pair(model_class, likelihood, own, scale) for own in which]
        for scale in SCALES
        for which in ([[1, 0, 0]], many)
    ]
    row: list[object] = [name, likelihood]
    worst = []
    for part in (found[1::2], found[::2]):
        each = [one for of_scale in part for one in of_scale]
        means, deviations, times = zip(*each, strict=True)
        row += [f"{max(means):.1e}", f"{max(deviations):.1e}"]
        worst.append(max(times))
    return [*row, worst[0] / worst[1], 1.0]


def main() -> None:
    """Prints both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--answers", type=int, default=ANSWERS)
    count = parser.parse_args().answers
    start(f"{count} comparisons among {ITEMS} items ('many') against {FEW} pairs")
    print("today's best: PairwiseGP, dense 5,000 x 100 and slow")
    many, few = many_answers(count), synthetic_comparisons(FEW, NOISE, seed=0)
    rows = []
    for name, model_class in MODELS.items():
        pairs = zip(costs(model_class, many), costs(model_class, few), strict=True)
        for what, (of_many, of_few) in zip(("evidence", "fit"), pairs, strict=True):
            ratio = of_many / of_few
            rows.append([name, what, of_many, of_few, ratio, RATIO_TO_REACH])
    print_table(
        ["model", "what", "many, seconds", "few, seconds", "ratio", "to reach"], rows
    )
    print(f"\none pair, {OFTEN} times and once, output scales {SCALES}")
    head = ["engine", "likelihood", "mean off", "deviation", "once: mean", "deviation"]
    print_table(
        [*head, "times the time", "to reach"],
        [
            often_and_once(n, kind)
            for n, (_, kinds) in ENGINES.items()
            for kind in kinds
        ],
    )


if __name__ == "__main__":
    main()
