"""Time and memory of fits, against ``PairwiseGP``'s on the same data.

    python benchmarks/fit_time.py [--pairwise-gp-at-1000]

Prints seconds of a fit and their ratio to ``PairwiseGP``'s for each size and noise,
then time and peak memory at 1,000 comparisons. Every model starts from its own
defaults, as ``fit_gpytorch_mll`` finds it. The time of ``PairwiseGP`` at 1,000
comparisons is the stored one unless the option is given: it takes five minutes and 1.4
GB.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys

import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models.pairwise_gp import PairwiseGP
from known_models import fresh_mll
from report import print_table, seconds, start
from synthetic_problems import NOISES, synthetic_comparisons

from botorch_pref import EPPreferenceGP, LaplacePreferenceGP, SkewPreferenceGP

MODELS = {
    "Laplace": LaplacePreferenceGP,
    "EP": EPPreferenceGP,
    "SkewGP": SkewPreferenceGP,
    "PairwiseGP": PairwiseGP,
}
SIZES = (30, 100, 200)
LARGE = 1000
SEEDS = (0, 1, 2)
STORED_PAIRWISE_GP_AT_1000 = 288.0
STORED_PAIRWISE_GP_GIGABYTES = 1.4
SPEEDUP_TO_REACH = {100: 10.0, LARGE: 50.0}
GIGABYTES_TO_REACH = 1.0


def fit_seconds(name: str, num_pairs: int, noise: float, seed: int) -> float:
    """Processor seconds of one fit.

    Args:
        name: Of ``MODELS``.
        num_pairs: ``m``.
        noise: Of the answers.
        seed: Of the problem.
    """
    mll = fresh_mll(MODELS[name], synthetic_comparisons(num_pairs, noise, seed))
    return seconds(lambda: fit_gpytorch_mll(mll))


def small_fits() -> list[list[object]]:
    """Rows for sizes that ``PairwiseGP`` fits in seconds: means over problems."""
    for name in MODELS:
        fit_seconds(name, 5, 0.25, 0)
    rows = []
    for num_pairs in SIZES:
        for kind, noise in NOISES.items():
            times = {
                name: sum(fit_seconds(name, num_pairs, noise, seed) for seed in SEEDS)
                / len(SEEDS)
                for name in MODELS
            }
            theirs = times.pop("PairwiseGP")
            rows += [
                [
                    num_pairs,
                    kind,
                    name,
                    ours,
                    theirs,
                    theirs / ours,
                    SPEEDUP_TO_REACH.get(num_pairs, "-"),
                ]
                for name, ours in times.items()
            ]
    return rows


def measure_large(name: str, noise: float) -> dict[str, float]:
    """Time and peak memory of one fit at ``LARGE``, in a process of its own.

    Args:
        name: Of ``MODELS``.
        noise: Of the answers.
    """
    command = [sys.executable, __file__, "--one", name, "--noise", str(noise)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def large_fits(with_pairwise_gp: bool) -> list[list[object]]:
    """Rows for ``LARGE``, each fit in a process of its own, so that memory is its own.

    Args:
        with_pairwise_gp: Whether to measure ``PairwiseGP`` instead of quoting it.
    """
    rows = []
    for kind, noise in NOISES.items():
        theirs = {
            "seconds": STORED_PAIRWISE_GP_AT_1000,
            "gigabytes": STORED_PAIRWISE_GP_GIGABYTES,
        }
        if with_pairwise_gp:
            theirs = measure_large("PairwiseGP", noise)
        for name in ("Laplace", "EP", "SkewGP"):
            ours = measure_large(name, noise)
            rows.append(
                [
                    *(kind, name, ours["seconds"], theirs["seconds"]),
                    *(theirs["seconds"] / ours["seconds"], SPEEDUP_TO_REACH[LARGE]),
                    *(ours["gigabytes"], theirs["gigabytes"], GIGABYTES_TO_REACH),
                ]
            )
    return rows


def run_one(name: str, noise: float) -> None:
    """Fits once and prints, in the process of :func:`measure_large`.

    Args:
        name: Of ``MODELS``.
        noise: Of the answers.
    """
    torch.set_num_threads(1)
    fit_seconds(name, 5, noise, 0)
    taken = fit_seconds(name, LARGE, noise, 0)
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"seconds": taken, "gigabytes": kilobytes / 2**20}))


def main() -> None:
    """Prints both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairwise-gp-at-1000", action="store_true")
    parser.add_argument("--one", choices=MODELS, help=argparse.SUPPRESS)
    parser.add_argument("--noise", type=float, default=0.25, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        run_one(options.one, options.noise)
        return
    start("fit_gpytorch_mll, mean of three problems; today's best is PairwiseGP")
    print_table(
        ["m", "noise", "model", "seconds", "PairwiseGP", "times faster", "to reach"],
        small_fits(),
    )
    source = "measured" if options.pairwise_gp_at_1000 else "the stored figures"
    print(f"m = {LARGE}; PairwiseGP's are {source}")
    print_table(
        [
            "noise",
            "model",
            "seconds",
            "PairwiseGP",
            "times faster",
            "to reach",
            "GB",
            "PairwiseGP",
            "to reach",
        ],
        large_fits(options.pairwise_gp_at_1000),
    )


if __name__ == "__main__":
    main()
