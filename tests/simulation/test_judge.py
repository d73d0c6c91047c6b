import math

import pytest
import torch
from scipy.stats import norm

from botorch_pref.errors import BotorchPrefError
from botorch_pref.simulation.judges import (
    Judge,
    LapsingJudge,
    LogisticJudge,
    ProbitJudge,
)


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


@pytest.mark.parametrize("threshold", [-0.1, math.inf, math.nan])
def test_impossible_tie_threshold(threshold: float) -> None:
    with pytest.raises(BotorchPrefError, match=r"tie threshold is .*: give a finite"):
        ProbitJudge(total, 1.0, torch.Generator(), threshold)


def total(X: torch.Tensor) -> torch.Tensor:
    return X.sum(-1)


def make(kind: str) -> Judge:
    mine, other = (torch.Generator().manual_seed(seed) for seed in (0, 1))
    return {
        "ties": lambda: ProbitJudge(total, 0.5, mine, tie_threshold=0.4),
        "logistic": lambda: LogisticJudge(total, 0.6, mine),
        "lapses": lambda: LapsingJudge(ProbitJudge(total, 0.5, mine), 0.3, other),
        "lapses, else exact": lambda: LapsingJudge(
            ProbitJudge(total, 0.0, mine), 0.3, other
        ),
    }[kind]()


# P(first) and P(tie) of a difference of 0.5, from the definitions of the judges.
LAWS = {
    "ties": (norm.sf(0.4 - 0.5), norm.cdf(0.4 - 0.5) - norm.cdf(-0.4 - 0.5)),
    "logistic": (1 / (1 + math.exp(-0.5 / 0.6)), 0.0),
    "lapses": (0.7 * norm.cdf(0.5) + 0.15, 0.0),
    "lapses, else exact": (0.85, 0.0),
}


@pytest.mark.parametrize("kind", LAWS)
def test_answers_and_probabilities_follow_the_law(kind: str) -> None:
    judge, asked = make(kind), 4000
    first, second = torch.tensor([0.7]).double(), torch.tensor([0.2]).double()
    answers = [judge(first, second) for _ in range(asked)]
    won, tied = LAWS[kind]
    for share, law in [(answers.count(True), won), (answers.count(None), tied)]:
        assert abs(share / asked - law) <= 4 * math.sqrt(law * (1 - law) / asked)
    assert judge.probability(first, second) == pytest.approx(won + tied / 2, abs=1e-7)
    assert judge.probability(second, first) == pytest.approx(1 - won - tied / 2)


def test_judges_without_noise() -> None:
    low, high = torch.tensor([0.25]), torch.tensor([0.5])
    shrugs = ProbitJudge(total, 0.0, torch.Generator(), tie_threshold=0.25)
    assert shrugs(low, high) is None
    assert shrugs(low, 2 * high) is False
    assert shrugs.probability(low, high) == 0.5
    assert shrugs.probability(low, 2 * high) == 0.0
    exact = LogisticJudge(total, 0.0, torch.Generator())
    assert exact(high, low) is True
    assert exact(low, high) is False
    assert exact.probability(low, high) == 0.0


def test_lapses_do_not_move_the_noise_of_other_answers() -> None:
    points = torch.tensor([0.3]), torch.tensor([0.2])

    def answers(rate: float) -> list[bool | None]:
        mine, other = (torch.Generator().manual_seed(seed) for seed in (0, 1))
        judge = LapsingJudge(ProbitJudge(total, 1.0, mine), rate, other)
        return [judge(*points) for _ in range(200)]

    # Half of the lapses change the answer: 10 of 200, with a deviation of 3.1.
    differ = sum(a != b for a, b in zip(answers(0.0), answers(0.1), strict=True))
    assert 0 < differ < 10 + 4 * 3.1


@pytest.mark.parametrize("rate", [-0.1, 1.1, math.nan])
def test_impossible_rate_of_lapses(rate: float) -> None:
    with pytest.raises(BotorchPrefError, match=r"rate of lapses is .*: give a share"):
        LapsingJudge(judge(0.0), rate, torch.Generator())


def test_impossible_scale() -> None:
    with pytest.raises(BotorchPrefError, match=r"scale is -1.*: give a finite number"):
        LogisticJudge(total, -1.0, torch.Generator())
