"""Default models of ratings and strengths that are exact, or rounded to a scale.

    python benchmarks/exact_ratings.py [ratings] [strengths]

Utilities sqrt(2) sin(5 x), rated Phi(sin 5 x), at 25 random points: what a person says
who never errs. Such answers know no limit to their precision; by the default prior
every fit has to end without a warning, at utilities that its posterior holds likely.
"""

from __future__ import annotations

import math
import sys
import warnings
from typing import NamedTuple

import torch
from botorch.fit import fit_gpytorch_mll
from report import print_table, seconds, start
from torch import Tensor

from botorch_pref import (
    EPPreferenceGP,
    LaplacePreferenceGP,
    PreferenceMarginalLogLikelihood,
    Ratings,
    Strengths,
)
from botorch_pref.models import PreferenceGP

POINTS, STARTS = 25, 6
SCALES = (None, 100, 10, 5)


class Fitted(NamedTuple):
    """One fit: its precision, errors in utility and in deviations, and warnings."""

    precision: float
    error: float
    deviations: float
    warned: int
    cost: float


def utility(x: Tensor) -> Tensor:
    """The truth, at unit noise."""
    return math.sqrt(2) * torch.sin(5 * x.squeeze(-1))


def answers(kind: str, x: Tensor, steps: int | None) -> Ratings | Strengths:
    """Answers of a person who never errs, to the middle of the steps of a scale.

    Args:
        kind: ``"ratings"`` or ``"strengths"``.
        x: Points.
        steps: How many there are; None for answers to all digits.
    """
    f = utility(x)
    if kind == "strengths":
        first = torch.arange(len(x))
        pairs = torch.stack([first, first.roll(1)], dim=-1)
        f = f[pairs[:, 0]] - f[pairs[:, 1]]
    said = torch.special.ndtr(f / math.sqrt(2))
    if steps is not None:
        said = ((steps * said).floor().clamp(0, steps - 1) + 0.5) / steps
    if kind == "strengths":
        return Strengths(pairs, said)
    return Ratings(torch.arange(len(x)), said)


def fit(model: type[PreferenceGP], kind: str, steps: int | None, seed: int) -> Fitted:
    """A default model of 25 answers, fitted.

    Args:
        model: Its class.
        kind: Of answers.
        steps: Of the scale.
        seed: Of the points.
    """
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(POINTS, 1, generator=generator, dtype=torch.float64)
    found: list[PreferenceGP] = []

    def run() -> None:
        made = model(x, feedback=[answers(kind, x, steps)])
        fit_gpytorch_mll(PreferenceMarginalLogLikelihood(made.likelihood, made))
        made.posterior(x)
        found.append(made)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cost = seconds(run)
    (made,) = found
    # Strengths see differences from the first point only.
    first = x.sort(dim=0).values
    to = first[:1] if kind == "strengths" else None
    with torch.no_grad():
        posterior = made.posterior(first)
        mean, covariance = posterior.mean.squeeze(-1), posterior.covariance_matrix
        truth, variance = utility(first), covariance.diagonal()
        if to is not None:
            mean, truth = mean - mean[0], truth - truth[0]
            variance = variance + covariance[0, 0] - 2 * covariance[0]
            mean, truth, variance = mean[1:], truth[1:], variance[1:]
        off = (mean - truth).abs()
    likelihood = made.likelihoods[kind.capitalize()]
    return Fitted(
        likelihood.precision.item(),
        float(off.max()),
        float((off / variance.sqrt()).max()),
        len(caught),
        cost,
    )


def row(model: type[PreferenceGP], kind: str, steps: int | None) -> list[object]:
    """One line of the table.

    Args:
        model: Its class.
        kind: Of answers.
        steps: Of the scale.
    """
    fits = [fit(model, kind, steps, seed) for seed in range(STARTS)]
    right = sum(f.deviations < 4 and not f.warned for f in fits)
    return [
        model.__name__,
        kind,
        steps or "exact",
        f"{right} of {len(fits)}",
        sum(f.warned > 0 for f in fits),
        f"{min(f.precision for f in fits):.3g}-{max(f.precision for f in fits):.3g}",
        f"{max(f.error for f in fits):.1e}",
        f"{max(f.deviations for f in fits):.1f}",
        max(f.cost for f in fits),
    ]


def main() -> None:
    """Prints the table."""
    kinds = [
        k for k in ("ratings", "strengths") if k in sys.argv[1:] or not sys.argv[1:]
    ]
    start(f"{STARTS} fits each of {POINTS} answers of a person who never errs")
    settings = [
        row(model, kind, steps)
        for kind in kinds
        for steps in SCALES
        for model in (EPPreferenceGP, LaplacePreferenceGP)
    ]
    columns = [
        "model",
        "answers",
        "steps",
        "right",
        "warned",
        "precision",
        "worst error",
    ]
    print_table([*columns, "in deviations", "seconds"], settings)


if __name__ == "__main__":
    main()
