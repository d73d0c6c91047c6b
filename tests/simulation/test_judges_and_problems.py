"""Simulated judges, and test functions as problems."""

import math

import pytest
import torch
from cases import in_turn
from scipy.stats import norm

from botorch_pref.errors import BotorchPrefError
from botorch_pref.simulation import (
    Judge,
    LapsingJudge,
    LogisticJudge,
    ProbitJudge,
)
from botorch_pref.simulation.problems import PROBLEM_NAMES, make_problem


def total(X: torch.Tensor) -> torch.Tensor:
    return X.sum(-1)


def make(kind: str) -> Judge:
    judge_generator, item_generator = (
        torch.Generator().manual_seed(seed) for seed in (0, 1)
    )
    return {
        "probit": lambda: ProbitJudge(total, 0.5, judge_generator),
        "ties": lambda: ProbitJudge(total, 0.5, judge_generator, tie_threshold=0.4),
        "logistic": lambda: LogisticJudge(total, 0.6, judge_generator),
        "lapses": lambda: LapsingJudge(
            ProbitJudge(total, 0.5, judge_generator), 0.3, item_generator
        ),
        "lapses, else exact": lambda: LapsingJudge(
            ProbitJudge(total, 0.0, judge_generator), 0.3, item_generator
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


@in_turn("kind", LAWS)
def test_answers_and_probabilities_follow_the_law(kind: str) -> None:
    judge, num_answers = make(kind), 4000
    first, second = torch.tensor([0.7]).double(), torch.tensor([0.2]).double()
    answers = [judge(first, second) for _ in range(num_answers)]
    won, tied = LAWS[kind]
    for share, law in [(answers.count(True), won), (answers.count(None), tied)]:
        assert abs(share / num_answers - law) <= 4 * math.sqrt(
            law * (1 - law) / num_answers
        )
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
        probabilities = [exact.probability(x, low) for x in (low / 2, low, high)]
        assert probabilities == [0.0, 0.5, 1.0]


def test_lapses_do_not_move_the_noise_of_other_answers() -> None:
    points = torch.tensor([0.3]), torch.tensor([0.2])

    def answers(rate: float) -> list[bool | None]:
        judge_generator, item_generator = (
            torch.Generator().manual_seed(seed) for seed in (0, 1)
        )
        judge = LapsingJudge(
            ProbitJudge(total, 1.0, judge_generator), rate, item_generator
        )
        return [judge(*points) for _ in range(200)]

    # Half of the lapses change the answer: 10 of 200, with a deviation of 3.1.
    differ = sum(a != b for a, b in zip(answers(0.0), answers(0.1), strict=True))
    assert 0 < differ < 10 + 4 * 3.1


@in_turn("value", [-0.1, math.inf, math.nan])
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


@in_turn("name", PROBLEM_NAMES)
def test_no_point_beats_the_best(name: str) -> None:
    problem = make_problem(name)
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(2000, problem.dim, generator=generator).double()
    assert problem.utility(X).shape == (2000,)
    assert problem.regret(X).min() >= 0.0


# Where the optima are on the unit cube, from the definitions of the functions.
@in_turn(
    ("name", "inputs"),
    [
        ("ackley", [0.5, 0.5]),
        ("branin", [(torch.pi + 5) / 15, 2.275 / 15]),
        ("hartmann6", [0.20169, 0.150011, 0.476874, 0.275332, 0.311652, 0.6573]),
        ("ackley6", [0.5] * 6),
        ("alpine7", [0.5] * 7),
        ("cosinebump", [0.5]),
        ("forrester", [0.7572487577]),
        ("goldsteinprice", [0.5, 0.25]),
        ("levy", [0.55, 0.55]),
        ("levy20", [0.55] * 20),
        ("rosenbrock32", [0.4] * 32),
        ("styblinskitang64", [0.5 - 0.2903534] * 64),
        ("rosenbrock", [0.4, 0.4]),
        ("rosenbrock5", [0.4] * 5),
        ("sasena", [2.7450 / 5, 2.3523 / 5]),
        ("sixhumpcamel-narrow", [(0.0898 + 2) / 4, (-0.7126 + 1) / 2]),
        ("sixhumpcamel", [(0.0898 + 3) / 6, (-0.7126 + 2) / 4]),
    ],
)
def test_regret_is_zero_at_the_optimum(name: str, inputs: list[float]) -> None:
    problem = make_problem(name)
    regret = problem.regret(torch.tensor(inputs).double())
    assert regret.abs() < 1e-3


# Values that can be had by hand, in the problems' own units.
@in_turn(
    ("name", "inputs", "cost"),
    [
        ("alpine7", [0.5 + math.pi / 40] + [0.5] * 6, math.pi / 2 + 0.05 * math.pi),
        ("cosinebump", [0.75], -math.cos(6.5) - math.exp(-0.5 * 1.3**2)),
        ("forrester", [0.0], -4 * math.sin(4)),
        ("goldsteinprice", [0.5, 0.5], 600.0),
        ("rosenbrock5", [1 / 3] * 5, 4.0),
        ("sasena", [0.0, 0.8], 2 + 0.16 + 1 + 8),
        ("sixhumpcamel-narrow", [0.75, 0.75], 4 - 2.1 + 1 / 3 + 0.5 - 4 / 4 + 4 / 16),
    ],
)
def test_a_cost_at_a_point(name: str, inputs: list[float], cost: float) -> None:
    utility = make_problem(name).utility(torch.tensor(inputs, dtype=torch.double))
    assert -utility.item() == pytest.approx(cost, abs=1e-6)


def test_where_sasenas_inputs_are_valid() -> None:
    problem = make_problem("sasena")
    X = torch.tensor([[2.0, 1.0], [1.0, 2.0]]).double() / 5
    # sin(1 - pi / 8) > 0 and sin(-1 - pi / 8) < 0.
    assert problem.valid(X).tolist() == [True, False]
    assert problem.regret(X[1]) > 1e6 * 0.9
    assert make_problem("branin").valid is None


def test_an_unknown_problem_is_named() -> None:
    with pytest.raises(BotorchPrefError, match=r"unknown problem 'hartman'.*hartmann6"):
        make_problem("hartman")
