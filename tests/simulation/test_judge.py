import math

import pytest
import torch
from scipy.stats import norm

from botorch_pref.errors import BotorchPrefError
from botorch_pref.simulation.judge import ProbitJudge


def judge(noise: float, seed: int = 0) -> ProbitJudge:
    return ProbitJudge(lambda X: X.sum(-1), noise, torch.Generator().manual_seed(seed))


def test_without_noise_the_better_wins() -> None:
    low, high = torch.tensor([0.1, 0.2]), torch.tensor([0.1, 0.3])
    ask = judge(0.0)
    assert ask(high, low)
    assert not ask(low, high)
    assert ask(low, low)


@pytest.mark.parametrize(("gap", "noise"), [(0.0, 1.0), (0.7, 0.25), (-1.0, 2.0)])
def test_wins_follow_the_probit_law(gap: float, noise: float) -> None:
    ask, asked = judge(noise), 4000
    first, second = torch.tensor([gap]).double(), torch.tensor([0.0]).double()
    share = sum(ask(first, second) for _ in range(asked)) / asked
    expected = norm.cdf(gap / math.sqrt(2 * noise))
    assert abs(share - expected) < 4 * math.sqrt(expected * (1 - expected) / asked)


def test_its_generator_alone_decides() -> None:
    point = torch.tensor([0.0])
    first = [judge(1.0, seed=5)(point, point) for _ in range(1)]
    torch.manual_seed(1)
    asks = judge(1.0, seed=5)
    assert [asks(point, point)] == first


@pytest.mark.parametrize("noise", [-0.1, math.inf, math.nan])
def test_impossible_noise(noise: float) -> None:
    with pytest.raises(BotorchPrefError, match=r"noise is .*: give a finite variance"):
        judge(noise)
