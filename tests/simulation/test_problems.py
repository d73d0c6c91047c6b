import math

import pytest
import torch

from botorch_pref.errors import BotorchPrefError
from botorch_pref.simulation.problems import PROBLEM_NAMES, make_problem


@pytest.mark.parametrize("name", PROBLEM_NAMES)
def test_no_point_beats_the_best(name: str) -> None:
    problem = make_problem(name)
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(2000, problem.dim, generator=generator).double()
    assert problem.utility(X).shape == (2000,)
    assert problem.regret(X).min() >= 0.0


# Where the optima are on the unit cube, from the definitions of the functions.
@pytest.mark.parametrize(
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
@pytest.mark.parametrize(
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
