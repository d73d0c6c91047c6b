"""Distance of Bouchard's bound from the posterior of Plackett and Luce's model.

    python benchmarks/plackett_luce_bias.py

Prints two tables. The first is one data set for each length: posterior means and
deviations against the truth, by importance sampling around the mode. The second is the
coverage of known weights by 90 % credible regions over many data sets: weights are
drawn from the prior, so that the exact posterior covers 90 %.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from report import print_table, start
from scipy import stats
from torch import Tensor

from botorch_pref import PlackettLuceRegression, Rankings

ITEMS, FEATURES, RANKINGS = 100, 6, 200
LENGTHS = (2, 5, 10)
DRAWS, CHUNK, FREEDOM = 32_768, 512, 8
DATA_SETS, LEVEL = 200, 0.9


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


def main() -> None:
    """Prints both tables."""
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


if __name__ == "__main__":
    main()
