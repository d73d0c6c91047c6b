"""Averaging over hyper-parameters against their best guess: new duels, and time.

    python benchmarks/fully_bayesian.py [--seeds 5]

Prints log-loss of held-out duels, seconds of a fit and of a posterior. Both models are
EP with the default priors. The chain has 128 steps of warm-up and 128 more, of which
every eighth is kept: 16 models.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import torch
from botorch.fit import fit_fully_bayesian_model_nuts, fit_gpytorch_mll
from report import print_table, seconds, start
from synthetic_problems import NOISES, synthetic_comparisons
from torch import Tensor

from botorch_pref import EPPreferenceGP, PreferenceMarginalLogLikelihood
from botorch_pref.models.fully_bayesian import (
    FullyBayesianEPPreferenceGP,
)
from botorch_pref.models.preference_gp import PreferenceGP

SIZES = (10, 30, 100)
HELD_OUT, SETS = 1000, 512
WARMUP, STEPS, THINNING = 128, 128, 8


def best_guess(points: Tensor, pairs: Tensor) -> PreferenceGP:
    """The hyper-parameters with the largest posterior density."""
    model = EPPreferenceGP(points, pairs)
    fit_gpytorch_mll(PreferenceMarginalLogLikelihood(model.likelihood, model))
    return model


def averaged(points: Tensor, pairs: Tensor) -> PreferenceGP:
    """Sixteen draws of the hyper-parameters."""
    model = FullyBayesianEPPreferenceGP(points, pairs)
    fit_fully_bayesian_model_nuts(
        model,
        warmup_steps=WARMUP,
        num_samples=STEPS,
        thinning=THINNING,
        disable_progbar=True,
    )
    return model


FITS: dict[str, Callable[[Tensor, Tensor], PreferenceGP]] = {
    "best guess": best_guess,
    "averaged": averaged,
}


def row(name: str, size: int, noise: float, seed: int) -> tuple[float, float, float]:
    """Log loss of held-out duels, seconds of the fit and of a posterior.

    Args:
        name: Of ``FITS``.
        size: How many duels are known.
        noise: Of the answers.
        seed: Of the problem.
    """
    problem = synthetic_comparisons(size + HELD_OUT, noise, seed)
    known, asked = problem.pairs[:size], problem.pairs[size:]
    index, pairs = known.unique(return_inverse=True)
    models: list[PreferenceGP] = []
    fit = seconds(
        lambda: models.append(FITS[name](problem.points[index], pairs.view_as(known)))
    )
    winner, loser = problem.points[asked].unbind(-2)
    with torch.no_grad():
        won = models[0].duel_probability(winner, loser, observation_noise=True)
        candidates = problem.points[: 2 * SETS].view(SETS, 2, -1)
        predict = seconds(lambda: models[0].posterior(candidates).mean)
    return float(-won.log().mean()), fit, predict


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    start(
        f"log loss of {HELD_OUT} held-out duels of new points (guessing has 0.693), "
        f"mean of {options.seeds} problems, d = 6"
    )
    # Imports and compilations do not count.
    for name in FITS:
        row(name, 4, 1.0, 0)
    rows = []
    for size in SIZES:
        for noise_name, noise in NOISES.items():
            for name in FITS:
                found = torch.tensor(
                    [row(name, size, noise, seed) for seed in range(options.seeds)]
                )
                loss, fit, predict = found.mean(0).tolist()
                rows.append([size, noise_name, name, loss, fit, 1e3 * predict])
    header = ["duels", "noise", "hyper-parameters", "log loss", "fit, s"]
    header.append(f"{SETS} x 2, ms")
    print_table(header, rows)


if __name__ == "__main__":
    main()
