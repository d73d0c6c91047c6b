"""A trust region for questions in many dimensions, derived from the answers alone.

TuRBO (Eriksson et al. 2019) for duels. Nothing is kept between questions: the box is a
function of the answers in their order, of the incumbent and of the lengthscales, so
that a run that is resumed asks in the same box.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from torch import Tensor


@dataclass(frozen=True)
class TrustRegion:
    """How a box around the incumbent grows and shrinks.

    Attributes:
        first: Side that it starts with, in the unit cube.
        smallest: A side below this one starts again with the first.
        largest: No side is longer.
        successes: The side doubles after this many in a row.
        failures: It is halved after this many in a row; None for the number of inputs.
    """

    first: float = 0.8
    smallest: float = 2.0**-7
    largest: float = 1.6
    successes: int = 3
    failures: int | None = None

    def side(self, told: Tensor) -> Tensor:
        """The mean side of the box after some answers.

        An answer is a success where a new option won over one that was shown before,
        and a failure where an option that was shown before won. Questions all of whose
        options are new change nothing.

        Args:
            told: The options of all questions in their order, each with the winner
                first, `batch_shape x m x k x d`.

        Returns:
            `batch_shape`.
        """
        *batch, number, size, dim = told.shape
        allowed = max(4, dim) if self.failures is None else self.failures
        side = told.new_full(batch, self.first)
        won = torch.zeros(batch, dtype=torch.long)
        lost = torch.zeros(batch, dtype=torch.long)
        for i in range(1, number):
            before = told[..., :i, :, :].reshape(*batch, 1, i * size, dim)
            shown = (told[..., i, :, None, :] == before).all(-1).any(-1)
            counts = shown.any(-1)
            success, failure = counts & ~shown[..., 0], counts & shown[..., 0]
            won = torch.where(success, won + 1, torch.where(failure, 0, won))
            lost = torch.where(failure, lost + 1, torch.where(success, 0, lost))
            grows, shrinks = won == self.successes, lost == allowed
            side = torch.where(grows, (2 * side).clamp_max(self.largest), side)
            side = torch.where(shrinks, side / 2, side)
            side = torch.where(side < self.smallest, self.first, side)
            won, lost = won.masked_fill(grows, 0), lost.masked_fill(shrinks, 0)
        return side

    def box(self, told: Tensor, centre: Tensor, lengthscales: Tensor) -> Tensor:
        """Bounds of the next question's new options.

        Sides are in proportion to the lengthscales, with a geometric mean of `side`
        before the box is cut at the unit cube.

        Args:
            told: See `side`.
            centre: The incumbent, `batch_shape x 1 x d`.
            lengthscales: `batch_shape x 1 x d`.

        Returns:
            Least and largest inputs, `2 x batch_shape x 1 x d`.
        """
        shape = lengthscales / lengthscales.log().mean(-1, keepdim=True).exp()
        half = 0.5 * self.side(told)[..., None, None] * shape
        return torch.stack([centre - half, centre + half]).clamp(0.0, 1.0)


class InBox(AcquisitionFunction):
    """An acquisition function whose unit cube is a box.

    Args:
        inner: Of points of the space.
        box: `2 x batch_shape x 1 x d`, see `TrustRegion.box`.
    """

    def __init__(self, inner: AcquisitionFunction, box: Tensor) -> None:
        super().__init__(inner.model)
        self.inner, self.low, self.width = inner, box[0], box[1] - box[0]

    def to_space(self, X: Tensor) -> Tensor:
        """Points of the space for those of the unit cube."""
        return self.low + self.width * X

    def to_cube(self, X: Tensor) -> Tensor:
        """Points of the unit cube for those of the box."""
        return (X - self.low) / self.width

    def forward(self, X: Tensor) -> Tensor:
        """The inner value of `batch_shape x q x d` points of the unit cube."""
        value: Tensor = self.inner(self.to_space(X))
        return value
