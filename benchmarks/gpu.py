"""The processor beside a GPU: evidence, question and posterior at growing sizes.

    python benchmarks/gpu.py

Prints seconds on the wall of one evidence with its gradient, of which a fit takes some
tens; of the choice of the next duel; and of the posterior at 1,000 points, for exact EP
and for the sparse model. In torch's sync debug mode CUDA says how often a solve waited
for the device. Without CUDA there are no rows of the GPU.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable

import torch
from botorch.acquisition.preference import AnalyticExpectedUtilityOfBestOption
from botorch.optim import optimize_acqf
from report import print_table, start
from torch import Tensor

from botorch_pref import (
    EPPreferenceGP,
    PreferenceMarginalLogLikelihood,
    SparsePreferenceGP,
)
from botorch_pref.models import PreferenceGP

EXACT, SPARSE = (100, 1000, 10_000), (100_000,)
DIMENSION, MOST_POINTS, NEW = 6, 10_000, 1000
RESTARTS, RAW = 4, 64
DEVICES = ("cpu", "cuda")


def answers(count: int, device: str) -> tuple[Tensor, Tensor]:
    """Points, and pairs that follow the sum of the features.

    Args:
        count: Number of pairs.
        device: Of both.
    """
    generator = torch.Generator().manual_seed(0)
    size = min(count, MOST_POINTS)
    points = torch.rand(size, DIMENSION, generator=generator, dtype=torch.float64)
    first = torch.randint(size, (count,), generator=generator)
    step = torch.randint(1, size, (count,), generator=generator)
    pairs = torch.stack([first, (first + step) % size], dim=-1)
    lost = points[pairs].sum(-1).diff(dim=-1) > 0
    return points.to(device), torch.where(lost, pairs.flip(-1), pairs).to(device)


def wall_seconds(function: Callable[[], object], device: str) -> float:
    """Seconds until the device has done what a function asks for.

    Args:
        function: What to time.
        device: Where it computes.
    """
    begin = time.perf_counter()
    function()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - begin


def waits(model: PreferenceGP, device: str) -> str:
    """How often a solve waits for the device.

    Args:
        model: With answers.
        device: Where it is.
    """
    if device != "cuda":
        return "-"
    prior, factors = model.prior(), model.factors()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            solution = model.engine.solve(prior, factors)
        finally:
            torch.cuda.set_sync_debug_mode("default")
    number = sum("synchronizing" in str(warning.message) for warning in seen)
    return f"{number} in {solution.iterations} steps"


def measured(kind: type[PreferenceGP], count: int, device: str) -> list[object]:
    """A row of the table.

    Args:
        kind: Of the model.
        count: Number of answers.
        device: Where to compute.
    """
    model = kind(*answers(count, device))
    mll = PreferenceMarginalLogLikelihood(model.likelihood, model)
    bounds = torch.tensor([[0.0], [1.0]], dtype=torch.float64, device=device)
    bounds = bounds.expand(2, DIMENSION)

    def ask() -> None:
        rule = AnalyticExpectedUtilityOfBestOption(model.eval())
        optimize_acqf(rule, bounds, q=2, num_restarts=RESTARTS, raw_samples=RAW)

    own = wall_seconds(lambda: mll.compute_custom_loss().backward(), device)
    asked = wall_seconds(ask, device)
    new = torch.rand(NEW, DIMENSION, dtype=torch.float64).to(device)
    with torch.no_grad():
        posterior = wall_seconds(lambda: model.posterior(new).variance, device)
    row: list[object] = [kind.__name__, count, device, own, asked, posterior]
    return [*row, waits(model, device)]


def main() -> None:
    """Prints the table."""
    start("Evidence, question and posterior on the processor and on a GPU")
    if not torch.cuda.is_available():
        print("torch finds no CUDA device here: only the processor is measured.")
    rows = [
        measured(kind, count, device)
        for kind, sizes in ((EPPreferenceGP, EXACT), (SparsePreferenceGP, SPARSE))
        for count in sizes
        for device in DEVICES
        if device == "cpu" or torch.cuda.is_available()
    ]
    heads = ["model", "answers", "device", "evidence, s", "ask, s"]
    print_table([*heads, "posterior, s", "waits"], rows)


if __name__ == "__main__":
    main()
