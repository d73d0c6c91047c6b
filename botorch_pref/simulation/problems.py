"""Problems by name: test functions as utilities to be maximised, and tasks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from botorch.test_functions import synthetic
from torch import Tensor

from botorch_pref.errors import BotorchPrefError
from botorch_pref.simulation import functions
from botorch_pref.simulation.problem import Problem
from botorch_pref.simulation.tasks import TASKS


def _on_cube(
    cost: Callable[[Tensor], Tensor], minimum: float, *bounds: tuple[float, float]
) -> Problem:
    """Makes a cost on a box, to be minimised, a utility on the unit cube.

    ``minimum`` is the least cost there; its negative is the largest utility.
    """
    unit = _to_box(*bounds)
    # Subtracted from 0, so that of 0 there is no negative zero.
    return Problem("", len(bounds), 0.0 - minimum, lambda X: -cost(unit(X)))


def _to_box(*bounds: tuple[float, float]) -> Callable[[Tensor], Tensor]:
    low, high = torch.tensor(bounds, dtype=torch.double).unbind(-1)
    return lambda X: low.to(X) + (high - low).to(X) * X


def _botorch(
    function: synthetic.SyntheticTestFunction,
    bounds: list[tuple[float, float]] | None = None,
    minimum: float | None = None,
) -> Problem:
    """Makes a problem of BoTorch's function, with a more precise optimum if given."""
    box = function._bounds if bounds is None else bounds
    value = function.optimal_value if minimum is None else minimum
    return _on_cube(function.evaluate_true, value, *box)


def _six_hump_camel(*bounds: tuple[float, float]) -> Problem:
    return _botorch(synthetic.SixHumpCamel(), [*bounds], minimum=-1.0316284534898774)


def _sasena() -> Problem:
    """Makes Sasena's problem with the penalty of Benavoli et al. (2021, section 6)."""
    box = (0.0, 5.0), (0.0, 5.0)

    def penalised(X: Tensor) -> Tensor:
        excess = functions.sasena_constraint(X).clamp_min(0.0)
        return functions.sasena(X) + 1e8 * excess.square()

    def valid(X: Tensor) -> Tensor:
        return functions.sasena_constraint(_to_box(*box)(X)) <= 0.0

    return replace(_on_cube(penalised, -1.1742743288663489, *box), valid=valid)


def _of_many_inputs(name: str, dim: int) -> Problem:
    if name == "styblinskitang":
        return _botorch(synthetic.StyblinskiTang(dim), minimum=-39.16616570377142 * dim)
    scalable = {"levy": synthetic.Levy, "rosenbrock": synthetic.Rosenbrock}
    return _botorch(scalable[name](dim))


def _square(
    cost: Callable[[Tensor], Tensor], minimum: float, low: float, high: float
) -> Problem:
    """Makes a problem of a cost of two inputs of the same range."""
    return _on_cube(cost, minimum, *[(low, high)] * 2)


FAUVEL_CHALK: dict[str, Callable[[], Problem]] = {
    "bohachevsky": lambda: _square(functions.bohachevsky, 0.0, -100.0, 100.0),
    "colville": lambda: _on_cube(functions.colville, 0.0, *[(-10.0, 10.0)] * 4),
    "crossintray": lambda: _square(
        functions.cross_in_tray, -2.0626118708227397, -10.0, 10.0
    ),
    "dixonprice": lambda: _botorch(synthetic.DixonPrice(dim=2), [(-5.0, 5.0)] * 2),
    "eggholder": lambda: _botorch(synthetic.EggHolder(), minimum=-959.640662720851),
    "gramacylee": lambda: _on_cube(
        functions.gramacy_lee, -0.8690111349894999, (0.5, 2.5)
    ),
    "hartmann4": lambda: _botorch(
        synthetic.Hartmann(dim=4), minimum=-3.1344941447601555
    ),
    "holdertable": lambda: _botorch(
        synthetic.HolderTable(), minimum=-19.208502567886747
    ),
    "hyperellipsoid": lambda: _square(
        functions.rotated_hyper_ellipsoid, 0.0, -65.536, 65.536
    ),
    "langermann": lambda: _square(functions.langermann, -4.155809291847786, 0.0, 10.0),
    "levy13": lambda: _square(functions.levy13, 0.0, -10.0, 10.0),
    "perm": lambda: _square(functions.perm, 0.0, -2.0, 2.0),
    "perm0": lambda: _square(functions.perm0, 0.0, -2.0, 2.0),
    "powell": lambda: _botorch(synthetic.Powell(dim=4)),
    "rosenbrock-narrow": lambda: _botorch(
        synthetic.Rosenbrock(dim=2), [(-2.048, 2.048)] * 2
    ),
    "schaffer4": lambda: _square(
        functions.schaffer4, 0.29257863203598045, -100.0, 100.0
    ),
    "schwefel": lambda: _square(functions.schwefel, -837.9657745448676, -500.0, 500.0),
    "shubert": lambda: _square(functions.shubert, -186.73090883102392, 0.0, 10.0),
    "sphere": lambda: _square(functions.sphere, 0.0, -5.12, 5.12),
    "sumsquares": lambda: _square(functions.sum_squares, 0.0, -10.0, 10.0),
    "threehumpcamel": lambda: _botorch(synthetic.ThreeHumpCamel()),
    "trid": lambda: _square(functions.trid, -2.0, -4.0, 4.0),
    "ursemwaves": lambda: _on_cube(
        functions.ursem_waves, -7.306998731324461, (-0.9, 1.2), (-1.2, 1.2)
    ),
}
"""The functions of Fauvel and Chalk (2021) that no other study has, on the domains of
their code; the others have the domain there that `_PROBLEMS` has."""

_PROBLEMS: dict[str, Callable[[], Problem]] = {
    "ackley": lambda: _botorch(synthetic.Ackley(dim=2)),
    # The domain of Astudillo et al. (2023).
    "ackley6": lambda: _botorch(synthetic.Ackley(dim=6), [(-2.0, 2.0)] * 6),
    "alpine7": lambda: _on_cube(functions.alpine1, 0.0, *[(-10.0, 10.0)] * 7),
    "beale": lambda: _botorch(synthetic.Beale()),
    "branin": lambda: _botorch(synthetic.Branin(), minimum=0.39788735772973816),
    "cosinebump": lambda: _on_cube(functions.cosine_bump, -2.0, (-2.6, 2.6)),
    "dropwave": lambda: _botorch(synthetic.DropWave()),
    "forrester": lambda: _on_cube(functions.forrester, -6.020740055767083, (0.0, 1.0)),
    "goldsteinprice": lambda: _on_cube(
        functions.goldstein_price, 3.0, *[(-2.0, 2.0)] * 2
    ),
    "griewank": lambda: _botorch(synthetic.Griewank(dim=2)),
    "hartmann3": lambda: _botorch(
        synthetic.Hartmann(dim=3), minimum=-3.862779860974306
    ),
    "hartmann6": lambda: _botorch(
        synthetic.Hartmann(dim=6), minimum=-3.322368004440186
    ),
    "levy": lambda: _botorch(synthetic.Levy(dim=2)),
    "rastrigin": lambda: _botorch(synthetic.Rastrigin(dim=2)),
    "rosenbrock": lambda: _botorch(synthetic.Rosenbrock(dim=2)),
    "rosenbrock5": lambda: _botorch(synthetic.Rosenbrock(dim=5)),
    "sasena": _sasena,
    "shekel": lambda: _botorch(synthetic.Shekel(), minimum=-10.536443153052808),
    "sixhumpcamel": lambda: _six_hump_camel((-3.0, 3.0), (-2.0, 2.0)),
    "sixhumpcamel-narrow": lambda: _six_hump_camel((-2.0, 2.0), (-1.0, 1.0)),
    "styblinskitang": lambda: _botorch(
        synthetic.StyblinskiTang(dim=2), minimum=-78.33233140754282
    ),
    **{
        f"{name}{dim}": partial(_of_many_inputs, name, dim)
        for dim in (8, 12, 20, 32, 64)
        for name in ("levy", "rosenbrock", "styblinskitang")
    },
    **FAUVEL_CHALK,
    **TASKS,
}

PROBLEM_NAMES = tuple(_PROBLEMS)

FAUVEL_CHALK_NAMES = (
    *("ackley", "beale", "dropwave", "forrester", "goldsteinprice", "griewank"),
    *("hartmann3", "hartmann6", "levy", "shekel", "sixhumpcamel"),
    *FAUVEL_CHALK,
)
"""The 34 functions of Fauvel and Chalk (2021)."""


def make_problem(name: str) -> Problem:
    """Makes the problem of a ``name`` of `PROBLEM_NAMES`.

    Args:
        name: Of a test function, whose negative is the utility, or of a task.

    Raises:
        BotorchPrefError: There is no problem of this name.
    """
    if name not in _PROBLEMS:
        raise BotorchPrefError(
            f"unknown problem {name!r}: choose one of {', '.join(PROBLEM_NAMES)}"
        )
    return replace(_PROBLEMS[name](), name=name)
