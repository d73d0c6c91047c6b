"""The functions of Fauvel and Chalk (2021): values, and optima that a search finds."""

import math

import pytest
import torch
from cases import in_turn
from scipy.optimize import minimize
from torch import Generator

from botorch_pref.simulation import make_problem
from botorch_pref.simulation.problems import FAUVEL_CHALK_NAMES

# Where each has an optimum, in its units and by its definition, and its domain.
OPTIMA = {
    "ackley": ([0, 0], (-32.768, 32.768)),
    "beale": ([3, 0.5], (-4.5, 4.5)),
    "bohachevsky": ([0, 0], (-100, 100)),
    "colville": ([1, 1, 1, 1], (-10, 10)),
    "crossintray": ([1.3494066, 1.3494066], (-10, 10)),
    "dixonprice": ([1, 0.5**0.5], (-5, 5)),
    "dropwave": ([0, 0], (-5.12, 5.12)),
    "eggholder": ([512, 404.2318051], (-512, 512)),
    "forrester": ([0.7572487577], (0, 1)),
    "goldsteinprice": ([0, -1], (-2, 2)),
    "gramacylee": ([0.5485634447], (0.5, 2.5)),
    "griewank": ([0, 0], (-600, 600)),
    "hartmann3": ([0.114614, 0.555649, 0.852547], (0, 1)),
    "hartmann4": ([0.1873953, 0.1941515, 0.5579178, 0.2647796], (0, 1)),
    "hartmann6": ([0.20169, 0.150011, 0.476874, 0.275332, 0.311652, 0.6573], (0, 1)),
    "holdertable": ([8.0550235, 9.6645900], (-10, 10)),
    "hyperellipsoid": ([0, 0], (-65.536, 65.536)),
    "langermann": ([2.7934022, 1.5972325], (0, 10)),
    "levy": ([1, 1], (-10, 10)),
    "levy13": ([1, 1], (-10, 10)),
    "perm": ([1, 2], (-2, 2)),
    "perm0": ([1, 0.5], (-2, 2)),
    "powell": ([0, 0, 0, 0], (-4, 5)),
    "rosenbrock-narrow": ([1, 1], (-2.048, 2.048)),
    "schaffer4": ([0, 1.2531318], (-100, 100)),
    "schwefel": ([420.9687466, 420.9687466], (-500, 500)),
    "shekel": ([4.0007465, 3.9995093, 4.0007465, 3.9995093], (0, 10)),
    "shubert": ([4.8580569, 5.4828642], (0, 10)),
    "sixhumpcamel": ([0.0898420, -0.7126564], None),
    "sphere": ([0, 0], (-5.12, 5.12)),
    "sumsquares": ([0, 0], (-10, 10)),
    "threehumpcamel": ([0, 0], (-5, 5)),
    "trid": ([2, 2], (-4, 4)),
    "ursemwaves": ([-0.6056895, -1.1775619], None),
}
BOXES = {
    "sixhumpcamel": [(-3, 3), (-2, 2)],
    "ursemwaves": [(-0.9, 1.2), (-1.2, 1.2)],
}


def on_cube(name: str, inputs: list[float]) -> torch.Tensor:
    box = BOXES.get(name) or [OPTIMA[name][1]] * len(inputs)
    shares = [
        (x - low) / (high - low) for x, (low, high) in zip(inputs, box, strict=True)
    ]
    return torch.tensor(shares, dtype=torch.double)


def test_there_are_34() -> None:
    assert sorted(FAUVEL_CHALK_NAMES) == sorted(OPTIMA)
    assert len(set(FAUVEL_CHALK_NAMES)) == 34


@in_turn("name", OPTIMA)
def test_the_optimum_is_where_it_should_be(name: str) -> None:
    problem = make_problem(name)
    point = on_cube(name, OPTIMA[name][0])
    assert problem.dim == len(point)
    # Optima are given to seven digits, which the steepest, Egg Holder and Holder's
    # table, feel to 1e-5.
    assert abs(problem.regret(point)) < 1e-5


@in_turn("name", OPTIMA)
def test_a_search_from_many_starts_finds_nothing_better(name: str) -> None:
    """From the best of a cloud, of two levels, and from around the optimum."""
    problem = make_problem(name)
    generator = Generator().manual_seed(0)
    cloud = torch.rand(8000, problem.dim, generator=generator, dtype=torch.double)
    near = on_cube(name, OPTIMA[name][0]) + 0.02 * (cloud[:2000] - 0.5)
    starts = [torch.cat([cloud, cloud.round()]), near.clamp(0.0, 1.0)]
    ends = []
    for points in starts:
        regrets = problem.regret(points)
        assert regrets.min() > -1e-9
        for place in regrets.argsort()[:2]:
            search = minimize(
                lambda x: float(problem.regret(torch.as_tensor(x))),
                points[place].numpy(),
                method="Nelder-Mead",
                bounds=[(0.0, 1.0)] * problem.dim,
                options={"maxfev": 120, "xatol": 1e-7, "fatol": 1e-9},
            )
            ends.append(search.fun)
    extent = float(problem.regret(cloud).max())
    assert min(ends) > -1e-9
    assert min(ends) < 1e-4 * extent


# Values that can be had by hand, in the functions' units.
@in_turn(
    ("name", "inputs", "cost"),
    [
        ("bohachevsky", [1, 0.5], 1 + 0.5 + 0.3 - 0.4 + 0.7),
        ("colville", [0, 0, 0, 0], 1 + 1 + 20.2 + 19.8),
        ("colville", [2, 1, 1, 3], 900 + 1 + 360 + 10.1 * 4),
        ("crossintray", [0, 3], -1e-4),
        ("gramacylee", [1.25], 1 / 2.5 + 0.25**4),
        ("hyperellipsoid", [2, 3], 2 * 4 + 9),
        (
            "langermann",
            [3, 5],
            1
            + 2 * math.exp(-13 / math.pi) * -1
            + 5 * math.exp(-17 / math.pi) * -1
            + 2 * math.exp(-5 / math.pi) * -1
            + 3 * math.exp(-32 / math.pi),
        ),
        ("levy13", [0.5, 0.5], 1 + 0.25 * 2 + 0.25),
        # (1.5 * 0 + 2.5 * -1)^2 + (1.5 * 0 + 4.5 * -1)^2.
        ("perm", [1, 0], 6.25 + 20.25),
        # (11 * -1 + 12 * 0.5)^2 + (11 * -1 + 12 * 0.75)^2.
        ("perm0", [0, 1], 25 + 4),
        ("schaffer4", [1, 1], 0.5 + 0.5 / 1.002**2),
        ("schwefel", [math.pi**2 / 4, 0], -(math.pi**2) / 4),
        ("shubert", [0, 0], sum(i * math.cos(i) for i in range(1, 6)) ** 2),
        ("sphere", [1, -2], 5),
        ("sumsquares", [1, -2], 9),
        ("trid", [3, -1], 4 + 4 + 3),
        ("ursemwaves", [1, 1], -0.027 - 3.5 + 4.7),
    ],
)
def test_a_cost_at_a_point(name: str, inputs: list[float], cost: float) -> None:
    utility = make_problem(name).utility(on_cube(name, inputs))
    assert -utility.item() == pytest.approx(cost, abs=1e-8)
