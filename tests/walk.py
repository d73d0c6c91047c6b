"""The walk of a comparison from its container to a candidate, as it is traced."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from botorch.fit import fit_gpytorch_mll
from botorch.optim import optimize_acqf

import botorch_pref
from botorch_pref import (
    Comparisons,
    DistinctOptions,
    DuelingExploringEIIG,
    DuelKernel,
    EPPreferenceGP,
    PreferenceMarginalLogLikelihood,
    incumbent,
)

PACKAGE = Path(botorch_pref.__file__).parent


def watch(run: Callable[[], Any], note: Callable[..., None]) -> None:
    """Tells of every function that is called or left, as `sys.setprofile` does."""
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(before)


def files_passed(run: Callable[[], Any]) -> list[str]:
    """Files of the package whose code runs, in the order in which they are entered.

    Args:
        run: What to run.
    """
    entered: dict[str, None] = {}

    def note(frame: FrameType, event: str, _: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(PACKAGE):
            entered.setdefault(path.relative_to(PACKAGE).as_posix())

    watch(run, note)
    return list(entered)


def walk() -> dict[str, list[str]]:
    """Files that each step of a walk is the first to enter, by the step's name."""
    X = torch.tensor([[0.1, 0.2], [0.8, 0.3], [0.4, 0.9]], dtype=torch.double)
    bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double)
    objects: dict[str, Any] = {}

    def fit() -> None:
        model = objects["model"]
        fit_gpytorch_mll(PreferenceMarginalLogLikelihood(model.likelihood, model))

    def choose() -> None:
        optimize_acqf(objects["acqf"], bounds, q=1, num_restarts=2, raw_samples=8)

    steps: dict[str, Callable[[], Any]] = {
        "Comparisons": lambda: objects.update(
            answers=Comparisons(torch.tensor([[0, 1], [0, 2]]))
        ),
        "EPPreferenceGP": lambda: objects.update(
            model=EPPreferenceGP(X, objects["answers"], covar_module=DuelKernel(dim=2))
        ),
        "fit_gpytorch_mll": fit,
        "posterior": lambda: objects["model"].posterior(X),
        "incumbent": lambda: objects.update(best=incumbent(objects["model"])),
        "DuelingExploringEIIG": lambda: objects.update(
            acqf=DistinctOptions(
                DuelingExploringEIIG(objects["model"], objects["best"])
            )
        ),
        "optimize_acqf": choose,
    }
    passed: set[str] = set()
    files = {}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        for name, step in steps.items():
            files[name] = [path for path in files_passed(step) if path not in passed]
            passed.update(files[name])
    return files
