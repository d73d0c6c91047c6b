"""Problems that are like people's tasks: their best and worst, designs, dead inputs."""

import math

import pytest
import torch
from cases import in_turn
from torch import Generator

from botorch_pref import Rankings
from botorch_pref.errors import BotorchPrefError
from botorch_pref.simulation import Parameter, Problem, SumLimit, make_problem
from botorch_pref.simulation.question_loop import problem_model, problem_question
from botorch_pref.simulation.tasks import TASK_NAMES

# Where utilities are largest and least, from the definitions; dead inputs are 0.
HARTMANN = [0.114614, 0.0, 0.555649, 0.0, 0.852547, 0.0]
ENDS = {
    "bump": ([0.3, 0.7], [1.0, 0.0]),
    "choices": ([0.4, 0.0, 0.0, 0.0, 1.0], [1.0, 0.0, 0.0, 0.0, 0.0, 1.0]),
    "dominant": ([0.7, 0.3, 0.7, 0.3], [0.0, 1.0, 0.0, 1.0]),
    "hartmann3-dead": (HARTMANN, [1.0, 0.0, 1.0, 0.0, 0.0]),
    "mixed": ([0.7, 0.5, 1.0], [0.0, 0.0, 0.0, 0.0, 1.0]),
    "parts": ([0.2, 0.65, 1.0, 0.0, 0.4], [1.0, 0.0, 0.0, 1.0, 0.9]),
    "plateau": ([0.2, 0.7, 0.9], [1.0, 0.0, 0.0]),
    "thresholds": ([0.5, 0.5, 0.3], [0.2, 0.7, 0.5]),
    "two-humps": ([0.2, 0.8], [0.0, 1.0]),
}


def uniform(problem: Problem, number: int) -> torch.Tensor:
    generator = Generator().manual_seed(0)
    return torch.rand(number, problem.dim, generator=generator, dtype=torch.double)


@in_turn("name", TASK_NAMES)
def test_the_best_and_the_worst_are_where_they_should_be(name: str) -> None:
    problem = make_problem(name)
    points = torch.zeros(2, problem.dim, dtype=torch.double)
    for point, inputs in zip(points, ENDS[name], strict=True):
        point[: len(inputs)] = torch.tensor(inputs, dtype=torch.double)
    values = problem.utility(points)
    ends = torch.tensor([problem.best, problem.worst], dtype=torch.double)
    torch.testing.assert_close(values, ends, rtol=0, atol=1e-9)
    # Nowhere else is better or worse: all over the cube, at its corners, and around.
    cloud = uniform(problem, 20_000)
    near = (points.unsqueeze(1) + 0.05 * (cloud[:2000] - 0.5)).clamp(0.0, 1.0)
    for X in (cloud, cloud.round(), near):
        utility = problem.utility(X)
        assert utility.max() <= problem.best + 1e-9
        assert utility.min() >= problem.worst - 1e-9


@in_turn("name", TASK_NAMES)
def test_dead_parameters_do_nothing_and_others_do(name: str) -> None:
    problem, X = make_problem(name), uniform(make_problem(name), 500)
    values, Z = problem.utility(X), X.flip(0)
    assert problem.dead
    for parameter in problem.parameters:
        moved = X.clone()
        columns = list(parameter.columns)
        moved[:, columns] = Z[:, columns]
        change = (problem.utility(moved) - values).abs().max()
        extent = problem.best - problem.worst
        assert change == 0.0 if parameter.dead else change > 0.05 * extent
        assert parameter.dead == all(i in problem.dead for i in columns)


# Values that can be had by hand.
@in_turn(
    ("name", "inputs", "utility"),
    [
        ("bump", [0.8, 0.2, 0.0, 0.0, 0.0], -1.0 - 0.125),
        ("dominant", [0.0, 0.3, 0.0, 0.3, 0.5], -1.1),
        ("parts", [0.0, 0.15, 0.25, 1.0, 0.9] + [0.0] * 3, -0.2 - 1.5 - 0.6 - 0.045),
        ("plateau", [0.5, 0.3, 0.5, 0.0], -0.05 - 0.7 * 0.15 - 0.5 * 0.15),
        ("thresholds", [0.35, 0.61, 1.0, 0.0, 0.0], 0.4),
        ("thresholds", [0.34, 0.6, 0.3, 0.0, 0.0], 0.3),
        ("two-humps", [0.7, 0.6, 0.0], 0.75 * math.exp(-0.5)),
        ("two-humps", [0.2, 0.7, 0.0], math.exp(-0.5)),
        # 0.72 is rounded to 0.7, and the third level is the largest column.
        ("mixed", [0.72, 0.4, 0.1, 0.2, 0.3, *[0.0] * 5], -0.01 - 0.25 - 0.3),
        # Dose and time are 1.5 together: the time shrinks to 0.5.
        ("mixed", [0.7, 0.8, 1.0, 0.0, 0.0, *[0.0] * 5], -0.01 - 0.01),
        ("choices", [0.9, 0.0, 0.1, 0.4, 0.2, 0.3, *[0.0] * 3], -0.5 - 0.2),
    ],
)
def test_a_utility_at_a_point(name: str, inputs: list[float], utility: float) -> None:
    value = make_problem(name).utility(torch.tensor(inputs, dtype=torch.double))
    assert value.item() == pytest.approx(utility, abs=1e-9)


def test_designs_are_the_nearest_steps_and_levels_within_the_limit() -> None:
    problem = make_problem("mixed")
    X = uniform(problem, 300)
    designs = problem.project(X)
    torch.testing.assert_close(problem.project(designs), designs)
    grid = torch.linspace(0, 1, 11, dtype=torch.double)
    nearest = grid[(X[:, :1] - grid).abs().argmin(-1)]
    torch.testing.assert_close(designs[:, 0], nearest)
    for columns in ([2, 3, 4], [5, 6, 7, 8]):
        assert torch.equal(designs[:, columns].argmax(-1), X[:, columns].argmax(-1))
        assert torch.equal(designs[:, columns].sum(-1), torch.ones(300).double())
    room = torch.minimum(X[:, 1], 1.2 - nearest)
    torch.testing.assert_close(designs[:, 1], room)
    torch.testing.assert_close(designs[:, 9], X[:, 9])
    columns, weights, limit = problem.sum_limit.inequality
    assert ((designs[:, columns] * weights).sum(-1) >= limit - 1e-12).all()


def test_questions_about_numbers_with_steps_are_of_different_designs() -> None:
    problem = make_problem("mixed")
    first = problem_question(problem, None, 4)
    for seed in range(3):
        designs = [problem_question(problem, None, 4, k).options for k in range(6)]
        X = torch.cat(designs)
        orders = problem.utility(X).view(6, 4).argsort(-1, descending=True)
        rankings = Rankings(orders + 4 * torch.arange(6).unsqueeze(-1))
        model = problem_model(problem, X, rankings)
        options = problem_question(problem, model, 4, seed).options
        for shown in (first.options, options):
            torch.testing.assert_close(problem.project(shown), shown)
            assert len(shown.unique(dim=0)) == 4


def test_numbers_without_steps_share_the_room_and_have_derivatives() -> None:
    problem = Problem(
        "",
        3,
        0.0,
        torch.sum,
        parameters=(Parameter((0,)), Parameter((1,)), Parameter((2,), steps=2)),
        sum_limit=SumLimit((0, 1, 2), 1.5),
    )
    X = torch.tensor([0.9, 0.6, 0.6], dtype=torch.double)
    # One step of a half leaves 1.0 for both, in proportion.
    expected = torch.tensor([0.6, 0.4, 0.5], dtype=torch.double)
    torch.testing.assert_close(problem.project(X), expected)
    jacobian = torch.autograd.functional.jacobian(problem.project, X)
    step = 1e-6 * torch.eye(3).double()
    ends = problem.project(X + step) - problem.project(X - step)
    torch.testing.assert_close(jacobian, ends.T / 2e-6, rtol=0, atol=1e-8)
    origin = torch.zeros(3).double()
    slopes = torch.autograd.functional.jacobian(problem.project, origin)
    torch.testing.assert_close(slopes, torch.diag(torch.tensor([1.0, 1, 0]).double()))


def test_which_problems_fill_the_cube() -> None:
    rounded = {name for name in TASK_NAMES if not make_problem(name).is_cube}
    assert rounded == {"choices", "mixed"}
    branin = make_problem("branin")
    X = torch.rand(5, 2, generator=Generator().manual_seed(0))
    assert branin.is_cube
    assert branin.dead == ()
    assert torch.equal(branin.project(X), X)


def test_impossible_parameters_are_named() -> None:
    with pytest.raises(BotorchPrefError, match=r"columns .0, 1. and 3 steps: give"):
        Parameter((0, 1), steps=3)
    with pytest.raises(BotorchPrefError, match=r"have the columns \[0, 0\]: give each"):
        Problem("", 2, 0.0, torch.sum, parameters=(Parameter((0,)), Parameter((0,))))
