"""Shared fixtures of the tests of the benchmarks."""

from functools import partial
from typing import Any

import botorch.fit
import pytest
from botorch.optim import optimize
from torch import Tensor

from benchmarks.suite.runs import batch_player, models, rivals

FEW = {"options": {"maxiter": 3}}


@pytest.fixture
def few_iterations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fits and searches end after a few iterations, wherever they would."""
    short_fit = partial(botorch.fit.fit_gpytorch_mll, optimizer_kwargs=FEW)
    for module in (botorch.fit, models, rivals):
        monkeypatch.setattr(module, "fit_gpytorch_mll", short_fit)
    search = optimize.gen_candidates_scipy
    monkeypatch.setattr(
        optimize,
        "gen_candidates_scipy",
        lambda *args, **options: search(*args, **options | FEW),
    )


@pytest.fixture
def short_fits_of_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fits of batches end after a few iterations; their searches go on to the end."""
    minimised = batch_player.minimised

    def few(*arguments: Any) -> Tensor:
        *first_arguments, iterations = arguments
        is_fit = first_arguments[2] is None  # without bounds
        return minimised(*first_arguments, 3 if is_fit else iterations)

    monkeypatch.setattr(batch_player, "minimised", few)
