"""A problem: a utility on the unit cube, and the parameters that its columns code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from botorch_pref.errors import BotorchPrefError


@dataclass(frozen=True)
class Parameter:
    """A parameter of a problem: a number, or an unordered choice.

    Attributes:
        columns: Columns of the unit cube that code it: one for a number, and one for
            each level of a choice, which is coded one-hot.
        steps: Into how many equal steps the range of a number is divided; 0 where it
            may have any value.
        dead: Whether it does nothing to the utility.

    Raises:
        BotorchPrefError: It has no column, or is a choice with steps.
    """

    columns: tuple[int, ...]
    steps: int = 0
    dead: bool = False

    def __post_init__(self) -> None:
        """Refuses a parameter without a column, and a choice with steps."""
        if not self.columns or (self.is_choice and self.steps):
            raise BotorchPrefError(
                f"a parameter has columns {self.columns} and {self.steps} steps: give "
                "one column, or several without steps for an unordered choice"
            )

    @property
    def is_choice(self) -> bool:
        """Whether it is an unordered choice."""
        return len(self.columns) > 1


def numbers(*dead: bool) -> tuple[Parameter, ...]:
    """Makes parameters that are numbers without steps, some of them dead."""
    return tuple(Parameter((i,), dead=flag) for i, flag in enumerate(dead))


@dataclass(frozen=True)
class SumLimit:
    r"""Linear constraint on designs: :math:`\sum_{i \in c} x_i \le l`.

    Attributes:
        columns: The columns :math:`c`, of numbers.
        limit: The limit :math:`l`.
    """

    columns: tuple[int, ...]
    limit: float

    @property
    def inequality(self) -> tuple[Tensor, Tensor, float]:
        """The constraint as BoTorch's optimisers take it: `sum(a * x) >= b`."""
        weights = torch.full((len(self.columns),), -1.0, dtype=torch.double)
        return torch.tensor(self.columns), weights, -self.limit


@dataclass(frozen=True)
class Problem:
    """A utility on the unit cube whose largest value is known.

    Where parameters are choices or have steps, not every point of the cube is a design.
    `project` gives the design of a point, and the utility of a point is that of its
    design.

    Attributes:
        name: Name among `PROBLEM_NAMES`.
        dim: Number of inputs `d`.
        best: The largest utility on the cube, of valid points where not all are.
        utility: Maps `batch_shape x d` points of the unit cube to `batch_shape`.
        valid: Maps them to `batch_shape` truths; None where all are valid.
        worst: The least utility on the cube; None where it is not known.
        parameters: What the columns code; empty where each is a number without steps.
        sum_limit: A constraint that all designs satisfy, if there is one.

    Raises:
        BotorchPrefError: The parameters do not have every column once.
    """

    name: str
    dim: int
    best: float
    utility: Callable[[Tensor], Tensor]
    valid: Callable[[Tensor], Tensor] | None = None
    worst: float | None = None
    parameters: tuple[Parameter, ...] = ()
    sum_limit: SumLimit | None = None

    def __post_init__(self) -> None:
        """Refuses parameters that do not have every column once."""
        columns = [column for part in self.parameters for column in part.columns]
        if columns and sorted(columns) != list(range(self.dim)):
            raise BotorchPrefError(
                f"the parameters of a problem have the columns {columns}: give each of "
                f"{self.dim} columns to one parameter"
            )

    @property
    def dead(self) -> tuple[int, ...]:
        """Columns of the parameters that do nothing."""
        dead = (part.columns for part in self.parameters if part.dead)
        return tuple(column for columns in dead for column in columns)

    @property
    def cube(self) -> Tensor:
        """The ends of all columns, ``2 x d``."""
        ends = torch.tensor([[0.0], [1.0]], dtype=torch.double)
        return ends.expand(2, self.dim)

    @property
    def categorical(self) -> list[tuple[int, ...]]:
        """The columns of each unordered choice."""
        return [part.columns for part in self.parameters if part.is_choice]

    @property
    def discrete_dims(self) -> dict[int, list[float]]:
        """The values of each number with steps, by its column."""
        return {
            part.columns[0]: [step / part.steps for step in range(part.steps + 1)]
            for part in self.parameters
            if part.steps
        }

    @property
    def is_cube(self) -> bool:
        """Whether every point of the cube is a design."""
        numbers_only = not any(p.is_choice or p.steps for p in self.parameters)
        return numbers_only and self.sum_limit is None

    def regret(self, X: Tensor) -> Tensor:
        """Computes simple regret `best - utility(X)` of `batch_shape x d` points."""
        return self.best - self.utility(X)

    def project(self, X: Tensor) -> Tensor:
        """Projects `batch_shape x d` points of the unit cube to designs.

        A number with steps becomes the nearest step, and a choice the level of the
        largest column. Where a sum is limited, numbers without steps shrink in
        proportion until it is kept. Derivatives are those of numbers without steps.

        Args:
            X: Points of the unit cube.
        """
        return project(X, self.parameters, self.sum_limit)


def project(
    X: Tensor, parameters: Sequence[Parameter], sum_limit: SumLimit | None
) -> Tensor:
    """Projects points of the unit cube to designs, see `Problem.project`."""
    columns = list(X.unbind(-1))
    for parameter in parameters:
        if parameter.is_choice:
            levels = torch.stack([columns[i] for i in parameter.columns], -1)
            coded = one_hot(levels.argmax(-1), levels.shape[-1]).to(X)
            for i, column in zip(parameter.columns, coded.unbind(-1), strict=True):
                columns[i] = column
        elif parameter.steps:
            (i,) = parameter.columns
            # Detached, as between two steps nothing changes.
            columns[i] = (columns[i].detach() * parameter.steps).round()
            columns[i] = columns[i] / parameter.steps
    # After the steps, which take their part of the sum first.
    if sum_limit is not None:
        stepped = {p.columns[0] for p in parameters if p.steps}
        fixed = [columns[i] for i in sum_limit.columns if i in stepped]
        free = [i for i in sum_limit.columns if i not in stepped]
        room = torch.full_like(columns[0], sum_limit.limit)
        room = room - sum(fixed, torch.zeros_like(room))
        amount = sum((columns[i] for i in free), torch.zeros_like(room))
        # Where there is enough room, nothing is divided by a sum that may be 0.
        over = amount > room
        share = torch.where(over, room / torch.where(over, amount, 1.0), 1.0)
        for i in free:
            columns[i] = columns[i] * share
    return torch.stack(columns, -1)
