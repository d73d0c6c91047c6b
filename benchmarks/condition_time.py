"""One comparison more: conditioning and its posterior against a refit and a cold solve.

    python benchmarks/condition_time.py [--large]

Prints milliseconds of each engine and size. The parent has its posterior. Conditioning
takes two new points and the answer to their duel, and is timed with the posterior at
two points; the cold solve is the same without anything of the parent; the refit is
``fit_gpytorch_mll`` from a model's own defaults with the answer among its data.
``--large`` adds 1,000 comparisons for Laplace and EP.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import torch
from botorch.fit import fit_gpytorch_mll
from known_models import fresh_mll, known_kernel, known_model
from report import fastest, print_table, seconds, start
from synthetic_problems import (
    DIMENSION,
    NOISES,
    ComparisonProblem,
    synthetic_comparisons,
)

from botorch_pref import (
    EPPreferenceGP,
    LaplacePreferenceGP,
    SkewPreferenceGP,
    VariationalPreferenceGP,
)
from botorch_pref.models import PreferenceGP

ENGINES = {
    "Laplace": LaplacePreferenceGP,
    "EP": EPPreferenceGP,
    "SkewGP": SkewPreferenceGP,
    "variational": VariationalPreferenceGP,
}
SIZES = (30, 100, 300)
LARGE = 1000
REPEATS = 3


def parent_model(name: str, problem: ComparisonProblem) -> PreferenceGP:
    """A model with its posterior, at the hyper-parameters that made the answers.

    Args:
        name: Of ``ENGINES``.
        problem: Points and answers.
    """
    if name == "variational":
        kernel = known_kernel(problem)
        model = VariationalPreferenceGP(
            problem.points, problem.pairs, covar_module=kernel
        )
    else:
        model = known_model(ENGINES[name], problem)
    model.posterior(problem.points[:2])
    return model


def cold(model: PreferenceGP) -> Callable[[], object]:
    """The posterior of a model that knows nothing of an earlier one.

    Args:
        model: It is changed.
    """

    def solve() -> object:
        model.set_train_data()
        return model.posterior(model.datapoints[:2])

    return solve


def row(name: str, num_pairs: int, noise: str) -> list[object]:
    """Milliseconds of one engine on one problem.

    Args:
        name: Of ``ENGINES``.
        num_pairs: ``m``.
        noise: Of ``NOISES``.
    """
    problem = synthetic_comparisons(num_pairs, NOISES[noise], seed=0)
    model = parent_model(name, problem)
    generator = torch.Generator().manual_seed(1)
    new = torch.rand(2, DIMENSION, generator=generator, dtype=torch.float64)
    # As expected: chains of SkewGP run anew after what it took for unlikely.
    answer = model.posterior(new).mean.argsort(dim=-2, descending=True).mT

    def condition() -> object:
        return model.condition_on_observations(new, answer).posterior(new)

    more = ComparisonProblem(
        torch.cat([problem.points, new]),
        torch.cat([problem.pairs, answer + len(problem.points)]),
        problem.noise,
    )
    mll = fresh_mll(ENGINES[name], more)
    refit = seconds(lambda: fit_gpytorch_mll(mll))
    conditioned = model.condition_on_observations(new, answer)
    warm = fastest(condition, REPEATS)
    return [
        *(num_pairs, noise, name, 1e3 * warm),
        *(1e3 * fastest(cold(conditioned), REPEATS), 1e3 * refit, refit / warm),
    ]


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--large", action="store_true")
    options = parser.parse_args()
    start("One comparison more, milliseconds; to reach: far below a refit")
    row("EP", 5, "human")
    cells = [(m, kind, name) for m in SIZES for kind in NOISES for name in ENGINES]
    if options.large:
        cells += [(LARGE, kind, name) for kind in NOISES for name in ("Laplace", "EP")]
    print_table(
        ["m", "noise", "model", "condition", "cold", "refit", "refit / condition"],
        [row(name, m, kind) for m, kind, name in cells],
    )


if __name__ == "__main__":
    main()
