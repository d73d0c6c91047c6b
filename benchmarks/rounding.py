"""Errors by rounding where answers are far more precise than the prior.

    python benchmarks/rounding.py

Levels, ties, wins, contradictions and near-copies at output scales of 1 to 1e8 times
the noise, in both precisions, by expectation propagation and Laplace. Each posterior is
compared with that of the same engine, from the very same numbers, in 40 digits: the
worst of all points, sizes and seeds.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import torch
from report import print_table, start

from botorch_pref.errors import PrecisionError

# The truth is that of the tests.
sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
from truths import precise_answers
from truths.engines import expectation_propagation, laplace

RATIOS = {
    torch.float64: (1e0, 1e2, 1e4, 1e6, 1e7, 1e8),
    torch.float32: (1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6),
}
ENGINES = {"ep": expectation_propagation, "laplace": laplace}
SEEDS = (1, 2)
MOST_ROUNDING = 1e-2


def solved(
    by: str, dtype: torch.dtype, ratio: float
) -> Iterator[tuple[precise_answers.Errors, bool] | None]:
    """Errors of each problem, and whether a model would warn of it; None if refused.

    Args:
        by: The engine.
        dtype: Of all numbers.
        ratio: Of the output scale to the noise.
    """
    for name in precise_answers.SIZES:
        for seed in SEEDS:
            given = precise_answers.problem(name, ratio, dtype, seed)
            try:
                found = precise_answers.solve(ENGINES[by], given)
            except PrecisionError:
                yield None
                continue
            said = not found.converged or found.rounding > MOST_ROUNDING
            yield precise_answers.errors(given, found, by), said


def row(by: str, dtype: torch.dtype, ratio: float) -> list[object]:
    """One line of the table.

    Args:
        by: The engine.
        dtype: Of all numbers.
        ratio: Of the output scale to the noise.
    """
    found = list(solved(by, dtype, ratio))
    told = [entry for entry in found if entry is not None]
    silent = [errors for errors, said in told if not said]
    worst = [f"{max(e):.0e}" for e in zip(*silent, strict=True)] or ["-"] * 3
    warned = sum(said for _, said in told)
    refused = sum(entry is None for entry in found)
    return [str(dtype), by, f"{ratio:.0e}", *worst, len(silent), warned, refused]


def main() -> None:
    """Prints the table."""
    start("Errors of posteriors that no warning was given of, beside 40 digits")
    warnings.simplefilter("ignore")
    columns = ["dtype", "engine", "ratio", "mean, deviations", "variance, share"]
    columns += ["log evidence", "silent", "warned", "refused"]
    rows = [
        row(by, dtype, ratio)
        for dtype, ratios in RATIOS.items()
        for by in ENGINES
        for ratio in ratios
    ]
    print_table(columns, rows)


if __name__ == "__main__":
    main()
