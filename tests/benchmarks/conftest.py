"""What tests of the benchmarks share."""

from functools import partial

import botorch.fit
import pytest
from botorch.optim import optimize

from benchmarks.suite.runs import models, rivals

FEW = {"options": {"maxiter": 3}}


@pytest.fixture
def few_iterations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fits and searches end after a few iterations, wherever they would."""
    few = partial(botorch.fit.fit_gpytorch_mll, optimizer_kwargs=FEW)
    for module in (botorch.fit, models, rivals):
        monkeypatch.setattr(module, "fit_gpytorch_mll", few)
    search = optimize.gen_candidates_scipy
    monkeypatch.setattr(
        optimize,
        "gen_candidates_scipy",
        lambda *args, **given: search(*args, **given | FEW),
    )
