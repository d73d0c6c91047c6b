"""Log evidences and the gradient of the exact one against minimax tilting.

    python benchmarks/evidence_accuracy.py

Prints errors in nats at known hyper-parameters, then the gradient beside finite
differences. ``MVNXPB`` is BoTorch's Trinh-Genz estimate. The gradient is
that of ``SkewPreferenceGP(exact_evidence=True)``, Fisher's identity over its draws; the
finite differences are of the tilting estimate. Both are repeated with several seeds,
whose spread gives their standard errors.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import torch
from botorch.utils.probability.mvnxpb import MVNXPB
from known_models import known_model
from report import print_table, start
from synthetic_problems import NOISES, SIZES, ComparisonProblem, synthetic_comparisons
from torch import Tensor
from truth import log_orthant_probability

from botorch_pref import EPPreferenceGP, LaplacePreferenceGP, SkewPreferenceGP

TILTING_DRAWS = 20_000
NATS_TO_REACH = 0.3
GRADIENT_SIZES = (50, 100)
GRADIENT_SEEDS = 6
# Relative step in a hyper-parameter: its truncation error is below the standard error.
STEP = 0.02
ERRORS_TO_REACH = 2.0


def tilting(covariance: Tensor, seed: int) -> tuple[float, float]:
    """The true log evidence and its standard error.

    Args:
        covariance: Of ``v``.
        seed: Of the importance draws.
    """
    generator = torch.Generator().manual_seed(seed)
    estimate = log_orthant_probability(covariance, TILTING_DRAWS, generator)
    return estimate.log_probability, estimate.standard_error


def trinh_genz(covariance: Tensor) -> float:
    """BoTorch's estimate of the log probability that ``v`` is positive.

    Args:
        covariance: Of ``v``.
    """
    lower = covariance.new_zeros(len(covariance))
    bounds = torch.stack([lower, torch.full_like(lower, torch.inf)], dim=-1)
    return float(MVNXPB(covariance, bounds).solve())


@torch.no_grad()
def evidences(problem: ComparisonProblem) -> dict[str, float]:
    """Each approximation of the log evidence.

    Args:
        problem: Points, answers, kernel and noise.
    """
    exact = known_model(SkewPreferenceGP, problem, exact_evidence=True)
    return {
        "EP": float(known_model(EPPreferenceGP, problem).log_evidence()),
        "Laplace": float(known_model(LaplacePreferenceGP, problem).log_evidence()),
        "SkewGP, exact": float(exact.log_evidence()),
        "MVNXPB": trinh_genz(problem.row_covariance()),
    }


def evidence_rows() -> list[list[object]]:
    """Errors in nats."""
    rows = []
    for num_pairs in SIZES:
        for kind, noise in NOISES.items():
            problem = synthetic_comparisons(num_pairs, noise, seed=0)
            truth, error = tilting(problem.row_covariance(), seed=0)
            ours = {k: v - truth for k, v in evidences(problem).items()}
            stated = known_model(EPPreferenceGP, problem).diagnostics()
            ours["stated"] = -float(stated["evidence_error"])
            to_reach = f"+-{NATS_TO_REACH}"
            rows.append([num_pairs, kind, truth, error, *ours.values(), to_reach])
    return rows


def moved(problem: ComparisonProblem, which: str, factor: float) -> Tensor:
    """``Gamma`` after one hyper-parameter was multiplied by a factor.

    Args:
        problem: Where to start.
        which: "lengthscale", "outputscale" or "noise".
        factor: What multiplies it.
    """
    if which == "outputscale":
        # Only the ratio to the noise counts for the probability of an orthant.
        which, factor = "noise", 1 / factor
    changed = dataclasses.replace(problem, **{which: getattr(problem, which) * factor})
    return changed.row_covariance()


def difference_gradient(problem: ComparisonProblem, which: str, seed: int) -> float:
    """Central difference in the log of a hyper-parameter.

    Args:
        problem: Where.
        which: See :func:`moved`.
        seed: Of the importance draws, the same on both sides.
    """
    up = tilting(moved(problem, which, math.exp(STEP)), seed)[0]
    down = tilting(moved(problem, which, math.exp(-STEP)), seed)[0]
    return (up - down) / (2 * STEP)


def our_gradient(problem: ComparisonProblem, seed: int) -> dict[str, float]:
    """Gradients of the exact evidence in the logs of hyper-parameters.

    Args:
        problem: Where.
        seed: Of the model's draws.
    """
    model = known_model(SkewPreferenceGP, problem, exact_evidence=True, seed=seed)
    kernel, likelihood = model.covar_module, model.likelihood
    raw = {
        "lengthscale": (kernel.base_kernel, "lengthscale"),
        "outputscale": (kernel, "outputscale"),
        "noise": (likelihood, "noise"),
    }
    for module, name in raw.values():
        getattr(module, f"raw_{name}").requires_grad_(True)
    model.log_evidence().backward()
    return {
        which: _in_logs(getattr(module, name), getattr(module, f"raw_{name}"))
        for which, (module, name) in raw.items()
    }


def _in_logs(value: Tensor, raw: Tensor) -> float:
    """The derivative in the log of a parameter, whose raw value carries a gradient.

    With several lengthscales, along all of them together.
    """
    (slope,) = torch.autograd.grad(value.sum(), raw)
    return float((raw.grad / slope * value.detach()).sum())


def mean_and_error(function: Callable[[int], float]) -> tuple[float, float]:
    """Mean over seeds and its standard error.

    Args:
        function: Of a seed.
    """
    values = torch.tensor([function(seed) for seed in range(GRADIENT_SEEDS)])
    return float(values.mean()), float(values.std() / math.sqrt(GRADIENT_SEEDS))


def gradient_rows() -> list[list[object]]:
    """The gradient beside finite differences."""
    rows = []
    for num_pairs in GRADIENT_SIZES:
        for kind, noise in NOISES.items():
            problem = synthetic_comparisons(num_pairs, noise, seed=0)
            ours = [our_gradient(problem, seed) for seed in range(GRADIENT_SEEDS)]
            for which in ours[0]:
                mean, error = mean_and_error(lambda s, w=which, o=ours: o[s][w])
                truth, truth_error = mean_and_error(
                    lambda s, w=which, p=problem: difference_gradient(p, w, s)
                )
                distance = abs(mean - truth) / math.hypot(error, truth_error)
                rows.append(
                    [
                        num_pairs,
                        kind,
                        which,
                        mean,
                        error,
                        truth,
                        truth_error,
                        distance,
                        ERRORS_TO_REACH,
                    ]
                )
    return rows


def main() -> None:
    """Prints both tables."""
    start("log evidence at known hyper-parameters: estimate minus truth, in nats")
    print("truth: minimax tilting; today's best: Trinh-Genz (MVNXPB), Laplace")
    print_table(
        [
            "m",
            "noise",
            "truth",
            "its error",
            "EP",
            "Laplace",
            "SkewGP, exact",
            "MVNXPB",
            "EP states",
            "to reach",
        ],
        evidence_rows(),
    )
    print("gradient of the exact log evidence in the log of each hyper-parameter")
    print("today's best: none; the distance is in standard errors of the difference")
    print_table(
        [
            "m",
            "noise",
            "parameter",
            "gradient",
            "its error",
            "finite differences",
            "their error",
            "distance",
            "to reach",
        ],
        gradient_rows(),
    )


if __name__ == "__main__":
    main()
