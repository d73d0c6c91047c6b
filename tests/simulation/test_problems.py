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
    assert problem.regret(X).min() >= -1e-4 * max(1.0, abs(problem.best))


# Where the optima are on the unit cube, from the definitions of the functions.
@pytest.mark.parametrize(
    ("name", "inputs"),
    [
        ("ackley", [0.5, 0.5]),
        ("branin", [(torch.pi + 5) / 15, 2.275 / 15]),
        ("hartmann6", [0.20169, 0.150011, 0.476874, 0.275332, 0.311652, 0.6573]),
        ("levy", [0.55, 0.55]),
        ("rosenbrock", [0.4, 0.4]),
        ("sixhumpcamel", [(0.0898 + 3) / 6, (-0.7126 + 2) / 4]),
    ],
)
def test_regret_is_zero_at_the_optimum(name: str, inputs: list[float]) -> None:
    problem = make_problem(name)
    regret = problem.regret(torch.tensor(inputs).double())
    assert regret.abs() < 1e-3


def test_an_unknown_problem_is_named() -> None:
    with pytest.raises(BotorchPrefError, match=r"unknown problem 'hartman'.*hartmann6"):
        make_problem("hartman")
