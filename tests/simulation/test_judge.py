import math

import pytest
import torch
from scipy.stats import norm

from botorch_pref.errors import BotorchPrefError
from botorch_pref.simulation import (
    Judge,
    LapsingJudge,
    LogisticJudge,
    ProbitJudge,
)


def total(X: torch.Tensor) -> torch.Tensor:
    return X.sum(-1)


def make(kind: str) -> Judge:
    mine, other = (torch.Generator().manual_seed(seed) for seed in (0, 1))
    return {
        "probit": lambda: ProbitJudge(total, 0.5, mine),
        "ties": lambda: ProbitJudge(total, 0.5, mine, tie_threshold=0.4),
        "logistic": lambda: LogisticJudge(total, 0.6, mine),
        "lapses": lambda: LapsingJudge(ProbitJudge(total, 0.5, mine), 0.3, other),
        "lapses, else exact": lambda: LapsingJudge(
            ProbitJudge(total, 0.0, mine), 0.3, other
        ),
    }[kind]()


# P(first) and P(tie) of a difference of 0.5, from the definitions of the judges.
LAWS = {
    "probit": (norm.cdf(0.5), 0.0),
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
    # Its own generators alone decide.
    torch.manual_seed(1)
    again = make(kind)
    assert [again(first, second) for _ in range(50)] == answers[:50]


def test_judges_without_noise() -> None:
    low, high = torch.tensor([0.25]), torch.tensor([0.5])
    shrugs = ProbitJudge(total, 0.0, torch.Generator(), tie_threshold=0.25)
    assert shrugs(low, high) is None
    assert shrugs(low, 2 * high) is False
    assert shrugs.probability(low, high) == 0.5
    assert shrugs.probability(low, 2 * high) == 0.0
    for kind in (LogisticJudge, ProbitJudge):
        exact = kind(total, 0.0, torch.Generator())
        assert exact(high, low) is True
        assert exact(low, high) is False
        assert exact(low, low) is True
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


@pytest.mark.parametrize("value", [-0.1, math.inf, math.nan])
def test_impossible_numbers(value: float) -> None:
    generator = torch.Generator()
    with pytest.raises(BotorchPrefError, match=r"noise is .*: give a finite variance"):
        ProbitJudge(total, value, generator)
    with pytest.raises(BotorchPrefError, match=r"tie threshold is .*: give a finite"):
        ProbitJudge(total, 1.0, generator, value)
    with pytest.raises(BotorchPrefError, match=r"scale is .*: give a finite number"):
        LogisticJudge(total, value, generator)
    with pytest.raises(BotorchPrefError, match=r"rate of lapses is .*: give a share"):
        LapsingJudge(ProbitJudge(total, 0.0, generator), value, generator)
