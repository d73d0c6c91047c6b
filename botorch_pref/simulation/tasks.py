r"""Problems that are like people's tasks.

Utilities that people have differ from the functions on which optimisers are tried. Many
parameters do nothing, others add up, many designs are equally good, and a choice among
brands or shapes has no order. Each task below has one such trait, and at least one
parameter that does nothing. Its best and its worst utility follow from its parts.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from botorch.test_functions import synthetic
from torch import Tensor

from botorch_pref.simulation.problem import (
    Parameter,
    Problem,
    SumLimit,
    numbers,
    project,
)

LIVE, DEAD = False, True


def bump(X: Tensor) -> Tensor:
    r"""Evaluates one hump: :math:`-4 (x_1 - 0.3)^2 - 0.5 (x_2 - 0.7)^2`."""
    return -4 * (X[..., 0] - 0.3).square() - 0.5 * (X[..., 1] - 0.7).square()


def parts(X: Tensor) -> Tensor:
    r"""Evaluates a sum of five parts of one parameter each, and one interaction.

    .. math:: -|x_1 - 0.2| - 2 (x_2 - 0.65)^2 - (1 - \sqrt{x_3}) - 0.5 x_4
        - 0.3 (1 - \cos 2 \pi (x_5 - 0.4)) - 0.5 (x_1 - x_2 + 0.45)^2

    Each term is at most 0, and all are 0 at (0.2, 0.65, 1, 0, 0.4).
    """
    a, b, c, d, e = X[..., :5].unbind(-1)
    alone = (a - 0.2).abs() + 2 * (b - 0.65).square() + (1 - c.sqrt()) + 0.5 * d
    waves = 0.3 * (1 - (2 * torch.pi * (e - 0.4)).cos())
    return -alone - waves - 0.5 * (a - b + 0.45).square()


def plateau(X: Tensor) -> Tensor:
    r"""Evaluates a utility that is 0 in a box, and falls with the distance from it.

    .. math:: -\sum_i w_i \max(0, |x_i - c_i| - 0.15),

    with :math:`w = (1, 0.7, 0.5)` and :math:`c = (0.3, 0.6, 0.8)`.
    """
    centre, weight = X.new_tensor([0.3, 0.6, 0.8]), X.new_tensor([1.0, 0.7, 0.5])
    outside = ((X[..., :3] - centre).abs() - 0.15).clamp_min(0.0)
    return -(weight * outside).sum(-1)


def thresholds(X: Tensor) -> Tensor:
    r"""Evaluates two thresholds, and one parameter that counts beyond the first.

    .. math:: 0.4 \cdot 1[x_1 \ge 0.35] + 0.3 \cdot 1[x_2 \le 0.6]
        + 0.3 \cdot 1[x_1 \ge 0.35] \, \big(1 - ((x_3 - 0.3) / 0.7)^2\big)
    """
    works, quiet = (X[..., 0] >= 0.35).to(X), (X[..., 1] <= 0.6).to(X)
    near = 1 - ((X[..., 2] - 0.3) / 0.7).square()
    return 0.4 * works + 0.3 * quiet + 0.3 * works * near


def dominant(X: Tensor) -> Tensor:
    r"""Evaluates one parameter that matters ten times as much as each of three others.

    .. math:: -\sum_i w_i (x_i - c_i)^2 / 0.49

    with :math:`w = (1, 0.1, 0.1, 0.1)` and :math:`c = (0.7, 0.3, 0.7, 0.3)`.
    """
    centre = X.new_tensor([0.7, 0.3, 0.7, 0.3])
    weight = X.new_tensor([1.0, 0.1, 0.1, 0.1])
    return -(weight * (X[..., :4] - centre).square()).sum(-1) / 0.49


def two_humps(X: Tensor) -> Tensor:
    r"""Evaluates two humps of which the lower is wider.

    .. math:: \max\big(e^{-r_1^2 / (2 \cdot 0.1^2)},
        0.75 e^{-r_2^2 / (2 \cdot 0.3^2)}\big),

    with the distances :math:`r_1` of the first two inputs from (0.2, 0.8) and
    :math:`r_2` from (0.7, 0.3).
    """
    high, wide = X.new_tensor([0.2, 0.8]), X.new_tensor([0.7, 0.3])
    near = (X[..., :2] - high).square().sum(-1)
    far = (X[..., :2] - wide).square().sum(-1)
    return torch.maximum((-near / 0.02).exp(), 0.75 * (-far / 0.18).exp())


def choices(X: Tensor) -> Tensor:
    r"""Evaluates a number, and a choice of levels worth -0.4, -0.2, 0 and -0.6.

    .. math:: -2 (x_1 - 0.4)^2 + v_c

    The worth :math:`v_c` is that of the column, of the third to the sixth, that is 1.
    """
    worth = X.new_tensor([-0.4, -0.2, 0.0, -0.6])
    return -2 * (X[..., 0] - 0.4).square() + (X[..., 2:6] * worth).sum(-1)


def mixed(X: Tensor) -> Tensor:
    r"""Evaluates a dose in tenths, a time, and a choice that shifts the best time.

    .. math:: -(x_1 - 0.8)^2 - (x_2 - t_c)^2 - v_c

    The three levels have :math:`t = (0.6, 0.3, 0.9)` and :math:`v = (0, 0.15, 0.3)`.
    Dose and time are at most 1.2 together, so that the best design of the first level,
    (0.7, 0.5), is at the limit.
    """
    levels = X[..., 2:5]
    time = (levels * X.new_tensor([0.6, 0.3, 0.9])).sum(-1)
    loss = (levels * X.new_tensor([0.0, 0.15, 0.3])).sum(-1)
    return -(X[..., 0] - 0.8).square() - (X[..., 1] - time).square() - loss


def _projected(
    utility: Callable[[Tensor], Tensor],
    best: float,
    worst: float,
    *parameters: Parameter,
    sum_limit: SumLimit | None = None,
) -> Problem:
    """Makes a problem whose utility is that of the design of a point, see `project`.

    ``best`` and ``worst`` are the ends of the utility over all designs.
    """
    dim = sum(len(parameter.columns) for parameter in parameters)
    return Problem(
        "",
        dim,
        best,
        lambda X: utility(project(X, parameters, sum_limit)),
        worst=worst,
        parameters=parameters,
        sum_limit=sum_limit,
    )


def _of_numbers(
    utility: Callable[[Tensor], Tensor], best: float, worst: float, *dead: bool
) -> Problem:
    parameters = numbers(*dead)
    return Problem("", len(dead), best, utility, worst=worst, parameters=parameters)


def _hartmann3() -> Problem:
    """Makes the problem of Hartmann's function of every second input of six."""
    function = synthetic.Hartmann(dim=3)
    best, worst = 3.862779860974306, 3.77271851e-05
    return _of_numbers(
        lambda X: -function.evaluate_true(X[..., ::2]),
        best,
        worst,
        *(LIVE, DEAD) * 3,
    )


TASKS: dict[str, Callable[[], Problem]] = {
    "bump": lambda: _of_numbers(bump, 0.0, -2.205, LIVE, LIVE, DEAD, DEAD, DEAD),
    "choices": lambda: _projected(
        choices,
        0.0,
        -1.32,
        Parameter((0,)),
        Parameter((1,), dead=True),
        Parameter((2, 3, 4, 5)),
        Parameter((6, 7, 8), dead=True),
    ),
    "dominant": lambda: _of_numbers(dominant, 0.0, -1.3, *(LIVE,) * 4, DEAD),
    "hartmann3-dead": _hartmann3,
    "mixed": lambda: _projected(
        mixed,
        -0.02,
        -1.75,
        Parameter((0,), steps=10),
        Parameter((1,)),
        Parameter((2, 3, 4)),
        Parameter((5, 6, 7, 8), dead=True),
        Parameter((9,), dead=True),
        sum_limit=SumLimit((0, 1), 1.2),
    ),
    "parts": lambda: _of_numbers(parts, 0.0, -4.79625, *(LIVE,) * 5, *(DEAD,) * 3),
    "plateau": lambda: _of_numbers(plateau, 0.0, -1.19, *(LIVE,) * 3, DEAD),
    "thresholds": lambda: _of_numbers(thresholds, 1.0, 0.0, *(LIVE,) * 3, DEAD, DEAD),
    "two-humps": lambda: _of_numbers(two_humps, 1.0, math.exp(-4), LIVE, LIVE, DEAD),
}
"""Problems that are like people's tasks, by name; `make_problem` makes them."""

TASK_NAMES = tuple(TASKS)
