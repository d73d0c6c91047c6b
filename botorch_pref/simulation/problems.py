"""Problems by name: test functions as utilities to be maximised, and tasks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from botorch.test_functions import synthetic
from torch import Tensor

from botorch_pref.errors import BotorchPrefError
from botorch_pref.simulation.problem import Problem
from botorch_pref.simulation.tasks import TASKS


def alpine1(X: Tensor) -> Tensor:
    r"""The first function of Alpine, :math:`\sum_i |x_i \sin x_i + 0.1 x_i|`."""
    return (X * X.sin() + 0.1 * X).abs().sum(-1)


def cosine_bump(X: Tensor) -> Tensor:
    r"""The negative of :math:`\cos 5x + e^{-x^2 / 2}` (Benavoli et al. 2021)."""
    x = X[..., 0]
    return -(5 * x).cos() - (-0.5 * x.square()).exp()


def forrester(X: Tensor) -> Tensor:
    r"""The function of Forrester et al. (2008), :math:`(6x - 2)^2 \sin(12x - 4)`."""
    x = X[..., 0]
    return (6 * x - 2).square() * (12 * x - 4).sin()


def goldstein_price(X: Tensor) -> Tensor:
    """The function of Goldstein and Price (1971), at least 3, its value at (0, -1)."""
    x, y = X.unbind(-1)
    a = 19 - 14 * x + 3 * x**2 - 14 * y + 6 * x * y + 3 * y**2
    b = 18 - 32 * x + 12 * x**2 + 48 * y - 36 * x * y + 27 * y**2
    return (1 + (x + y + 1) ** 2 * a) * (30 + (2 * x - 3 * y) ** 2 * b)


def sasena(X: Tensor) -> Tensor:
    r"""The objective of Sasena, Papalambros and Goovaerts (2002).

    .. math:: 2 + \tfrac{1}{100} (x_2 - x_1^2)^2 + (1 - x_1)^2 + 2 (2 - x_2)^2
        + 7 \sin(\tfrac12 x_1) \sin(\tfrac{7}{10} x_1 x_2)

    Among inputs with :func:`sasena_constraint` at most 0 the least value is -1.1743, at
    (2.7450, 2.3523).
    """
    x, y = X.unbind(-1)
    waves = 7 * (0.5 * x).sin() * (0.7 * x * y).sin()
    return 2 + 0.01 * (y - x**2) ** 2 + (1 - x) ** 2 + 2 * (2 - y) ** 2 + waves


def sasena_constraint(X: Tensor) -> Tensor:
    r"""Sasena's constraint :math:`-\sin(x_1 - x_2 - \pi / 8)`, valid at most 0."""
    return -(X[..., 0] - X[..., 1] - torch.pi / 8).sin()


def _on_cube(
    cost: Callable[[Tensor], Tensor], minimum: float, *bounds: tuple[float, float]
) -> Problem:
    """A cost on a box, to be minimised, as a utility on the unit cube."""
    unit = _to_box(*bounds)
    return Problem("", len(bounds), 0.0 - minimum, lambda X: -cost(unit(X)))


def _to_box(*bounds: tuple[float, float]) -> Callable[[Tensor], Tensor]:
    low, high = torch.tensor(bounds, dtype=torch.double).unbind(-1)
    return lambda X: low.to(X) + (high - low).to(X) * X


def _botorch(
    function: synthetic.SyntheticTestFunction,
    bounds: list[tuple[float, float]] | None = None,
    minimum: float | None = None,
) -> Problem:
    """BoTorch's function, with its optimum to more digits where they are given."""
    box = function._bounds if bounds is None else bounds
    value = function.optimal_value if minimum is None else minimum
    return _on_cube(function.evaluate_true, value, *box)


def _six_hump_camel(*bounds: tuple[float, float]) -> Problem:
    return _botorch(synthetic.SixHumpCamel(), [*bounds], minimum=-1.0316284534898774)


def _sasena() -> Problem:
    """Sasena's problem with the penalty of Benavoli et al. (2021, section 6)."""
    box = (0.0, 5.0), (0.0, 5.0)

    def penalised(X: Tensor) -> Tensor:
        excess = sasena_constraint(X).clamp_min(0.0)
        return sasena(X) + 1e8 * excess.square()

    def valid(X: Tensor) -> Tensor:
        return sasena_constraint(_to_box(*box)(X)) <= 0.0

    return replace(_on_cube(penalised, -1.1742743288663489, *box), valid=valid)


def _of_many_inputs(name: str, dim: int) -> Problem:
    if name == "styblinskitang":
        return _botorch(synthetic.StyblinskiTang(dim), minimum=-39.16616570377142 * dim)
    functions = {"levy": synthetic.Levy, "rosenbrock": synthetic.Rosenbrock}
    return _botorch(functions[name](dim))


_PROBLEMS: dict[str, Callable[[], Problem]] = {
    "ackley": lambda: _botorch(synthetic.Ackley(dim=2)),
    # The domain of Astudillo et al. (2023).
    "ackley6": lambda: _botorch(synthetic.Ackley(dim=6), [(-2.0, 2.0)] * 6),
    "alpine7": lambda: _on_cube(alpine1, 0.0, *[(-10.0, 10.0)] * 7),
    "beale": lambda: _botorch(synthetic.Beale()),
    "branin": lambda: _botorch(synthetic.Branin(), minimum=0.39788735772973816),
    "cosinebump": lambda: _on_cube(cosine_bump, -2.0, (-2.6, 2.6)),
    "dropwave": lambda: _botorch(synthetic.DropWave()),
    "forrester": lambda: _on_cube(forrester, -6.020740055767083, (0.0, 1.0)),
    "goldsteinprice": lambda: _on_cube(goldstein_price, 3.0, *[(-2.0, 2.0)] * 2),
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
    **TASKS,
}

PROBLEM_NAMES = tuple(_PROBLEMS)


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
