"""Two processes with some of the answers each, against one process with all."""

from pathlib import Path

import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from models.shared_answers import SHARES, findings, made, share, work
from torch import multiprocessing

from botorch_pref import (
    BotorchPrefError,
    PreferenceMarginalLogLikelihood,
    SparsePreferenceGP,
)
from botorch_pref.inference.sparse import SparseExpectationPropagation


def everything() -> SparsePreferenceGP:
    """The model of the answers of all processes."""
    (points, first), (others, second) = map(share, range(2))
    both = [
        block.followed_by(more.shifted(len(points)))
        for block, more in zip(first, second, strict=True)
    ]
    return made(torch.cat([points, others]), both)


@pytest.mark.slow
def test_processes_find_what_all_answers_say(tmp_path: Path) -> None:
    multiprocessing.spawn(work, (tmp_path,), nprocs=len(SHARES))
    model = everything()
    mll = PreferenceMarginalLogLikelihood(model.likelihood, model)
    expected = findings(model, mll.compute_custom_loss())
    fit_gpytorch_mll(mll)
    for rank in range(len(SHARES)):
        found, fitted = torch.load(tmp_path / f"{rank}.pt")
        # Fixed points agree to the tolerance of moments, 1e-7 deviations.
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)
        # An optimum, to the tolerance of its search.
        own = {n: p.detach() for n, p in model.named_parameters()}
        torch.testing.assert_close(fitted, own, rtol=1e-3, atol=1e-3)


def test_processes_share_answers_by_inducing_points() -> None:
    model = SparsePreferenceGP(*map(torch.tensor, ([[0.1], [0.9]], [[0, 1]])))
    model.engine = SparseExpectationPropagation(shared=True)
    with pytest.raises(BotorchPrefError, match="inducing_points"):
        model.log_evidence()
