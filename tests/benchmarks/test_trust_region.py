"""The trust region of the suite's local rules, against a machine of one run."""

import pytest
import torch
from torch import Generator, Tensor

from benchmarks.suite.cell import Rule
from benchmarks.suite.runs.batch_player import BatchPlayer
from benchmarks.suite.runs.trust_region import TrustRegion
from botorch_pref.acquisition.duels import observed_points
from botorch_pref.simulation import make_problem

REGION = TrustRegion(first=0.4, smallest=0.15, largest=0.7, successes=2, failures=2)


def a_log(runs: int, duels: int, dim: int, dtype: torch.dtype) -> Tensor:
    """Draws duels of new points and of ones that were shown, winners first."""
    source = Generator().manual_seed(7)
    played_duels = torch.rand(runs, duels, 2, dim, generator=source, dtype=dtype)
    for run in range(runs):
        for duel in range(1, duels):
            kind = int(torch.randint(5, (), generator=source))
            earlier = int(torch.randint(duel, (), generator=source))
            if kind < 4:  # winner or loser was shown before, or neither
                played_duels[run, duel, kind // 2] = played_duels[
                    run, earlier, kind % 2
                ]
    return played_duels


def machine(told: list[list[tuple[float, ...]]], region: TrustRegion) -> float:
    """Computes the side after the duels of one run, one after the other."""
    side, streak, lengths = region.first, 0, set()
    for winner, loser in told:
        if winner in lengths or loser in lengths:
            success = winner not in lengths
            streak = max(streak, 0) + 1 if success else min(streak, 0) - 1
        if streak == region.successes:
            side, streak = min(2 * side, region.largest), 0
        elif streak == -(region.failures or max(4, len(winner))):
            side, streak = side / 2, 0
            side = side if side >= region.smallest else region.first
        lengths |= {winner, loser}
    return side


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("region", [REGION, TrustRegion(successes=2)])
def test_the_side_is_that_of_the_machine(
    region: TrustRegion, dtype: torch.dtype
) -> None:
    duels = a_log(20, 60, 5, dtype)
    lengths = set()
    for number in range(1, 60):
        side = region.side(duels[:, :number])
        assert side.dtype == dtype
        tuples = [
            [tuple(map(tuple, duel)) for duel in run[:number].tolist()] for run in duels
        ]
        alone = [machine(run, region) for run in tuples]
        assert side.tolist() == torch.tensor(alone, dtype=dtype).tolist()
        lengths |= {round(length, 6) for length in alone}
    assert len(lengths) >= 3  # it grew and shrank


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_box_has_the_shape_of_the_lengthscales(dtype: torch.dtype) -> None:
    duels, source = a_log(4, 30, 5, dtype), Generator().manual_seed(1)
    scales = torch.rand(4, 1, 5, generator=source, dtype=dtype) + 0.8
    centre = torch.full((4, 1, 5), 0.5, dtype=dtype)
    low, high = REGION.box(duels, centre, scales)
    assert low.min() > 0.0  # the cube cuts nothing here
    assert high.max() < 1.0
    width = high - low
    digits = 8 * torch.finfo(dtype).eps
    torch.testing.assert_close(
        width.prod(-1).squeeze(-1), REGION.side(duels) ** 5, rtol=5 * digits, atol=0.0
    )
    torch.testing.assert_close(
        width / width[..., :1], scales / scales[..., :1], rtol=digits, atol=0.0
    )
    corner = torch.tensor([0.0, 1.0, 0.02, 0.98, 0.5], dtype=dtype).expand(4, 1, 5)
    low, high = REGION.box(duels, corner, scales)
    assert low.min() == 0.0
    assert high.max() == 1.0
    assert ((low <= corner) & (corner <= high) & (low < high)).all()


@pytest.mark.usefixtures("short_fits_of_batches")
def test_a_run_that_is_resumed_asks_in_the_box_of_its_log() -> None:
    problem, rule = make_problem("levy20"), Rule("ep", "exploring-eiig-local")
    sources = [Generator().manual_seed(seed) for seed in range(2)]
    duels = a_log(2, 8, problem.dim, torch.float64)
    order = problem.utility(duels).argsort(-1, descending=True)
    duels = duels.gather(2, order.unsqueeze(-1).expand_as(duels))
    questions = []
    for resumed in (False, True):
        sources = [Generator().manual_seed(seed) for seed in range(2)]
        player = BatchPlayer(rule, problem, True, sources)
        for number in [8] if resumed else [6, 7, 8]:
            player.learn(duels[:, :number])
        question = player.ask()
        assert torch.equal(question[:, 1:], player.best)
        assert player.model is not None
        kernel = player.model.covar_module
        region = TrustRegion(first=0.4, failures=4)
        scales = kernel.base_kernel.lengthscale.detach()
        low, high = region.box(duels, player.best, scales)
        slack = 1e-12  # of mapping the cube to the box
        assert (question[:, :1] >= low - slack).all()
        assert (question[:, :1] <= high + slack).all()
        questions.append(
            region.side(observed_points(player.model).unflatten(1, (-1, 2)))
        )
    assert torch.equal(questions[0], region.side(duels))
    assert torch.equal(questions[1], questions[0])
