"""Two processes with some of the answers each, against one process with all."""

from pathlib import Path

import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from models.shared_answers import SHARES, findings, made, share, work
from torch import distributed, multiprocessing

from botorch_pref import (
    BotorchPrefError,
    PreferenceMarginalLogLikelihood,
    SparsePreferenceGP,
    Strengths,
)
from botorch_pref.inference.sparse import SparseExpectationPropagation


def everything() -> SparsePreferenceGP:
    """Makes the model of the answers of all processes."""
    (points, first), (second_points, second) = map(share, range(2))
    shifted_blocks = {type(block): block.shifted(len(points)) for block in second}
    joined_blocks = [
        block.followed_by(shifted_blocks[type(block)])
        if type(block) in shifted_blocks
        else block
        for block in first
    ]
    return made(torch.cat([points, second_points]), joined_blocks)


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore:This process .* is multi-threaded", "ignore:os.fork.. was called"
)
def test_processes_find_what_all_answers_say(tmp_path: Path) -> None:
    # Forked, since another interpreter takes seconds to import everything.
    multiprocessing.start_processes(
        work, (tmp_path,), nprocs=len(SHARES), start_method="fork"
    )
    model = everything()
    mll = PreferenceMarginalLogLikelihood(model.likelihood, model)
    expected = findings(model, -mll.log_posterior())
    fit_gpytorch_mll(mll)
    for rank in range(len(SHARES)):
        solution, fitted, rounding, messages = torch.load(tmp_path / f"{rank}.pt")
        # Fixed points agree to the tolerance of moments, 1e-7 deviations.
        torch.testing.assert_close(solution, expected, rtol=1e-6, atol=1e-6)
        # An optimum, to the tolerance of its search.
        initial = {n: p.detach() for n, p in model.named_parameters()}
        torch.testing.assert_close(fitted, initial, rtol=1e-3, atol=1e-3)
        model_there = everything()
        model_there.load_state_dict(fitted, strict=False)
        assert rounding == pytest.approx(model_there.solution().rounding, rel=1e-3)
        # One of the processes has answers without numbers, or other inducing points.
        assert messages[0].startswith("PrecisionError")
        for refusal in messages[1:]:
            assert "assign the same inducing_points" in refusal
    # The other one died in the midst of a solution.
    assert torch.load(tmp_path / "death.pt").startswith("RuntimeError")


def test_a_process_without_answers_says_so() -> None:
    points = share(0)[0]
    model = SparsePreferenceGP(points, num_inducing=4)
    model.engine = SparseExpectationPropagation(shared=True)
    for step in (model.log_evidence, lambda: model.posterior(points)):
        with pytest.raises(BotorchPrefError, match="give it some of those of the"):
            step()


def test_processes_share_answers_by_inducing_points() -> None:
    model = SparsePreferenceGP(*map(torch.tensor, ([[0.1], [0.9]], [[0, 1]])))
    model.engine = SparseExpectationPropagation(shared=True)
    with pytest.raises(BotorchPrefError, match="inducing_points"):
        model.log_evidence()


def test_processes_do_not_share_answers_that_widen_the_posterior(
    tmp_path: Path,
) -> None:
    points = torch.linspace(0, 1, 12, dtype=torch.float64).unsqueeze(-1)
    pairs = torch.tensor([[0, 11]]).expand(6, 2)
    ratings = torch.tensor([0.98] * 5 + [0.02], dtype=torch.float64)
    model = SparsePreferenceGP(
        points, feedback=[Strengths(pairs, ratings)], num_inducing=4
    )
    model.likelihood.precision, model.likelihood.noise = 6.0, 0.5
    assert bool((model.solution().sites.precision < 0).any())
    model.engine = SparseExpectationPropagation(shared=True)
    meeting = f"file://{tmp_path / 'meeting'}"
    distributed.init_process_group("gloo", meeting, rank=0, world_size=1)
    try:
        with pytest.raises(BotorchPrefError, match="contradict"):
            model.log_evidence()
    finally:
        distributed.destroy_process_group()
