"""BoTorch's test functions as utilities on the unit cube, to be maximised."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from botorch.test_functions import synthetic
from botorch.utils.transforms import unnormalize
from torch import Tensor

from botorch_pref.errors import BotorchPrefError

_FUNCTIONS: dict[str, Callable[[], synthetic.SyntheticTestFunction]] = {
    "ackley": lambda: synthetic.Ackley(dim=2, negate=True),
    "beale": lambda: synthetic.Beale(negate=True),
    "branin": lambda: synthetic.Branin(negate=True),
    "dropwave": lambda: synthetic.DropWave(negate=True),
    "griewank": lambda: synthetic.Griewank(dim=2, negate=True),
    "hartmann3": lambda: synthetic.Hartmann(dim=3, negate=True),
    "hartmann6": lambda: synthetic.Hartmann(dim=6, negate=True),
    "levy": lambda: synthetic.Levy(dim=2, negate=True),
    "rastrigin": lambda: synthetic.Rastrigin(dim=2, negate=True),
    "rosenbrock": lambda: synthetic.Rosenbrock(dim=2, negate=True),
    "shekel": lambda: synthetic.Shekel(negate=True),
    "sixhumpcamel": lambda: synthetic.SixHumpCamel(negate=True),
    "styblinskitang": lambda: synthetic.StyblinskiTang(dim=2, negate=True),
}

PROBLEM_NAMES = tuple(_FUNCTIONS)


@dataclass(frozen=True)
class Problem:
    """A utility on the unit cube whose largest value is known.

    Attributes:
        name: Name among `PROBLEM_NAMES`.
        dim: Number of inputs `d`.
        best: The largest utility on the cube.
        utility: Maps `batch_shape x d` points of the unit cube to `batch_shape`.
    """

    name: str
    dim: int
    best: float
    utility: Callable[[Tensor], Tensor]

    def regret(self, X: Tensor) -> Tensor:
        """Simple regret `best - utility(X)` of `batch_shape x d` points."""
        return self.best - self.utility(X)


def make_problem(name: str) -> Problem:
    """Makes the problem of a name.

    Args:
        name: One of `PROBLEM_NAMES`.

    Returns:
        The negated test function on normalised inputs.

    Raises:
        BotorchPrefError: If there is no such problem; the message names them all.
    """
    if name not in _FUNCTIONS:
        raise BotorchPrefError(
            f"unknown problem {name!r}: choose one of {', '.join(PROBLEM_NAMES)}"
        )
    function = _FUNCTIONS[name]()

    bounds = function.get_buffer("bounds")

    def utility(X: Tensor) -> Tensor:
        return function(unnormalize(X, bounds.to(X)))

    return Problem(name, function.dim, float(function.optimal_value), utility)
