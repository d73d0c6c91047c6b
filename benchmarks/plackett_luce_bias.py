"""Distance of Gaussians from the posterior of Plackett and Luce's model.

    python benchmarks/plackett_luce_bias.py
    python benchmarks/plackett_luce_bias.py --few 40

Prints three tables. The first is one data set for each length: posterior means and
deviations against the truth, by importance sampling around the mode. The second is the
coverage of known weights by 90 % credible regions over many data sets: weights are
drawn from the prior, so that the exact posterior covers 90 %. The third is such a
coverage where answers are few for each feature, by Laplace and by expectation
propagation, with that of differences of utilities; ``--few`` prints it alone, over so
many data sets.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from typing import NamedTuple

import torch
from report import print_table, start
from scipy import stats
from torch import Tensor

from botorch_pref import (
    Choices,
    InferenceWarning,
    PlackettLuceRegression,
    Rankings,
)
from botorch_pref.models.regression import MOST_ASYMMETRY

ITEMS, FEATURES, RANKINGS = 100, 6, 200
LENGTHS = (2, 5, 10)
DRAWS, CHUNK, FREEDOM = 32_768, 512, 8
DATA_SETS, LEVEL = 200, 0.9
# Features, choices, and items of each choice.
FEW = ((2, 10, 4), (6, 30, 4), (10, 30, 4), (20, 20, 4), (20, 200, 4), (50, 100, 4))
FEW_SETS, DIFFERENCES = 40, 200


class Truth(NamedTuple):
    """The exact posterior of weights, by importance sampling.

    Attributes:
        mean: ``d``.
        deviation: ``d``.
        log_evidence: A number.
        effective_draws: A number.
    """

    mean: Tensor
    deviation: Tensor
    log_evidence: float
    effective_draws: float


def ranked(
    weights: Tensor, length: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Features of all items, and rankings under the weights.

    Args:
        weights: ``batch_shape x d``.
        length: Items of a ranking.
        generator: The source of randomness.

    Returns:
        ``n x d``, and ``batch_shape x m x length``, best first.
    """
    options = {"generator": generator, "dtype": torch.float64}
    features = torch.randn(ITEMS, FEATURES, **options)
    shape = (*weights.shape[:-1], RANKINGS)
    sets = torch.rand(*shape, ITEMS, generator=generator).topk(length).indices
    utilities = (weights @ features.mT).unsqueeze(-2).expand(*shape, ITEMS)
    gumbel = -torch.log(-torch.log(torch.rand(*shape, length, **options)))
    heard = utilities.gather(-1, sets) + gumbel
    return features, sets.gather(-1, heard.argsort(-1, descending=True))


def log_posterior(theta: Tensor, features: Tensor, orders: Tensor) -> Tensor:
    """Up to the evidence, ``draws``; the prior has unit precision.

    Args:
        theta: ``draws x d``.
        features: ``n x d``.
        orders: ``m x length``.
    """
    f = (theta @ features.mT)[:, orders]
    # What is left at each stage, from the last one backwards.
    left = f.flip(-1).logcumsumexp(-1).flip(-1)
    prior = -0.5 * theta.square().sum(-1) - 0.5 * FEATURES * math.log(2 * math.pi)
    return prior + (f - left).sum((-2, -1))


def exact(model: PlackettLuceRegression, features: Tensor, orders: Tensor) -> Truth:
    """Importance sampling with a multivariate t around the mode.

    Args:
        model: The Laplace posterior.
        features: ``n x d``.
        orders: ``m x length``.
    """
    generator = torch.Generator().manual_seed(1)
    options = {"generator": generator, "dtype": torch.float64}
    root = torch.linalg.cholesky(model.weights_covariance)
    normal = torch.randn(DRAWS, FEATURES, **options)
    chi = torch.randn(DRAWS, FREEDOM, **options).square().sum(-1) / FREEDOM
    white = normal / chi.sqrt().unsqueeze(-1)
    theta = model.weights_mean + white @ root.mT
    log_q = torch.as_tensor(
        stats.multivariate_t(shape=torch.eye(FEATURES).numpy(), df=FREEDOM).logpdf(
            white.numpy()
        )
    )
    log_q = log_q - root.diagonal().log().sum()
    parts = theta.split(CHUNK)
    log_p = torch.cat([log_posterior(part, features, orders) for part in parts])
    log_w = log_p - log_q
    w = log_w.softmax(0)
    mean = w @ theta
    deviation = (w @ (theta - mean).square()).sqrt()
    evidence = float(log_w.logsumexp(0)) - math.log(DRAWS)
    return Truth(mean, deviation, evidence, float(1 / w.square().sum()))


def one_data_set(length: int) -> list[list[object]]:
    """Rows of the first table.

    Args:
        length: Items of a ranking.
    """
    generator = torch.Generator().manual_seed(0)
    weights = torch.randn(FEATURES, generator=generator, dtype=torch.float64)
    features, orders = ranked(weights, length, generator)
    models = {
        name: PlackettLuceRegression(
            features, feedback=[Rankings(orders)], inference=name
        )
        for name in ("laplace", "variational")
    }
    truth = exact(models["laplace"], features, orders)
    size = truth.mean.norm()
    known = {
        name: (model.weights_mean, model.weights_covariance.diagonal().sqrt())
        for name, model in models.items()
    }
    known["exact"] = truth.mean, truth.deviation
    evidence = {n: float(m.diagnostics()["log_evidence"]) for n, m in models.items()}
    evidence["exact"] = truth.log_evidence
    rows: list[list[object]] = []
    for name, (mean, deviation) in known.items():
        rows.append(
            [
                length,
                name,
                percent((mean - weights).norm() / weights.norm()),
                percent(deviation.norm() / mean.norm()),
                percent((mean - truth.mean).norm() / size),
                float((deviation / truth.deviation).log().mean().exp()),
                evidence[name] - truth.log_evidence,
                round(truth.effective_draws) if name == "exact" else "",
            ]
        )
    return rows


def percent(share: Tensor) -> float:
    """A share in percent."""
    return 100 * float(share)


def coverage(length: int) -> list[list[object]]:
    """Rows of the second table.

    Args:
        length: Items of a ranking.
    """
    generator = torch.Generator().manual_seed(2)
    weights = torch.randn(DATA_SETS, FEATURES, generator=generator, dtype=torch.float64)
    features, orders = ranked(weights, length, generator)
    region, interval = stats.chi2(FEATURES).ppf(LEVEL), stats.chi2(1).ppf(LEVEL)
    rows: list[list[object]] = []
    for name in ("laplace", "variational"):
        model = PlackettLuceRegression(
            features, feedback=[Rankings(orders)], inference=name
        )
        miss = (model.weights_mean - weights).unsqueeze(-1)
        covariance = model.weights_covariance
        distance = (miss.mT @ torch.linalg.solve(covariance, miss)).flatten()
        squares = miss.squeeze(-1).square()
        z = squares / covariance.diagonal(dim1=-2, dim2=-1)
        error = (squares.sum(-1) / weights.square().sum(-1)).sqrt().mean()
        rows.append(
            [
                length,
                name,
                percent((distance <= region).double().mean()),
                percent((z <= interval).double().mean()),
                percent(error),
            ]
        )
    return rows


class Choice(NamedTuple):
    """Known weights ``d``, and items ``L x k x d`` whose first one was chosen."""

    weights: Tensor
    items: Tensor


def chosen(features: int, sets: int, size: int, seed: int) -> Choice:
    """Choices under weights from the prior.

    Args:
        features: Of each item.
        sets: How many choices.
        size: Items of each.
        seed: The source of randomness.
    """
    generator = torch.Generator().manual_seed(seed)
    options = {"generator": generator, "dtype": torch.float64}
    weights = torch.randn(features, **options)
    items = torch.randn(sets, size, features, **options)
    gumbel = -torch.log(-torch.log(torch.rand(sets, size, **options)))
    order = (items @ weights + gumbel).argsort(-1, descending=True)
    return Choice(weights, items.gather(-2, order.unsqueeze(-1).expand_as(items)))


def few_answers(
    features: int, sets: int, size: int, data_sets: int
) -> list[list[object]]:
    """Rows of the third table.

    Args:
        features: Of each item.
        sets: How many choices.
        size: Items of each.
        data_sets: Over how many the coverage is counted.
    """
    region, interval = stats.chi2(features).ppf(LEVEL), stats.norm.ppf((1 + LEVEL) / 2)
    places = torch.arange(sets * size).reshape(sets, size)
    answers = Choices(places, places[:, 0])
    scores: dict[str, list[list[float]]] = {"laplace": [], "ep": []}
    for seed in range(data_sets):
        truth = chosen(features, sets, size, seed)
        generator = torch.Generator().manual_seed(data_sets + seed)
        pairs = torch.randn(
            2, DIFFERENCES, features, generator=generator, dtype=torch.float64
        )
        gaps = pairs[0] - pairs[1]
        for name, rows in scores.items():
            begin = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", InferenceWarning)
                model = PlackettLuceRegression(
                    truth.items.flatten(0, 1), feedback=[answers], inference=name
                )
                miss = (model.weights_mean - truth.weights).detach()
            covariance = model.weights_covariance.detach()
            seconds = time.process_time() - begin
            distance = float(miss @ torch.linalg.solve(covariance, miss))
            spread = ((gaps @ covariance) * gaps).sum(-1).sqrt()
            covered = ((gaps @ miss).abs() <= interval * spread).double().mean()
            warned = float(model.solution().asymmetry > MOST_ASYMMETRY)
            error = float(miss.square().mean().sqrt())
            rows.append([distance <= region, float(covered), error, warned, seconds])
    return [
        [f"{features}, {sets} of {size}", name, *summary(rows)]
        for name, rows in scores.items()
    ]


def summary(rows: list[list[float]]) -> list[object]:
    """Means of the columns, the first, the second and the fourth in percent."""
    mean = torch.tensor(rows, dtype=torch.float64).mean(0).tolist()
    region, covered, error, warned, seconds = mean
    return [100 * region, 100 * covered, error, 100 * warned, seconds]


def print_few(data_sets: int) -> None:
    """Prints the third table.

    Args:
        data_sets: Over how many the coverage is counted.
    """
    print(f"few answers for each feature, {data_sets} data sets\n")
    print_table(
        [
            "features, choices",
            "posterior",
            "90 % regions, %",
            "90 % differences, %",
            "off",
            "warned, %",
            "seconds",
        ],
        [row for case in FEW for row in few_answers(*case, data_sets)],
    )


def main() -> None:
    """Prints all tables, or the third alone."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--few", type=int, metavar="SETS")
    alone = parser.parse_args().few
    if alone is not None:
        start("few answers")
        print_few(alone)
        return
    start(f"{RANKINGS} rankings of {ITEMS} items, d = {FEATURES}, eta = 1")
    print_table(
        [
            "length",
            "posterior",
            "weights off, %",
            "stated, %",
            "off the exact mean, %",
            "sd / exact",
            "log evidence - exact",
            "effective draws",
        ],
        [row for length in LENGTHS for row in one_data_set(length)],
    )
    print(f"coverage over {DATA_SETS} data sets; the mode is the mean of laplace\n")
    print_table(
        ["length", "posterior", "90 % regions, %", "90 % intervals, %", "off, %"],
        [row for length in LENGTHS for row in coverage(length)],
    )
    print_few(FEW_SETS)


if __name__ == "__main__":
    main()
