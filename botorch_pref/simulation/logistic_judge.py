"""A simulated judge with logistic noise."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from botorch_pref.simulation.judge import (
    Judge,
    Utility,
    check_parameter,
    difference_of,
)


@dataclass(frozen=True)
class LogisticJudge(Judge):
    r"""Logistic judge, the noise of the protocols of Astudillo et al. (2023).

    .. math:: P(\text{first preferred}) =
        \frac{1}{1 + \exp(-(u_1 - u_2) / \lambda)}

    Attributes:
        utility: Maps `batch_shape x d` inputs to utilities.
        scale: :math:`\lambda`, at least 0; at 0 the better point always wins, and the
            first wins an exact tie.
        generator: Source of the noise.

    Raises:
        BotorchPrefError: A scale that is negative or not finite.
    """

    utility: Utility
    scale: float
    generator: Generator

    def __post_init__(self) -> None:
        check_parameter("scale", self.scale, "number")

    def __call__(self, first: Tensor, second: Tensor) -> bool:
        """See base class; never a tie."""
        if self.scale == 0.0:
            return bool(difference_of(self.utility, first, second) >= 0.0)
        draw = torch.rand((), generator=self.generator, dtype=torch.double)
        return float(draw) < self.probability(first, second)

    def probability(self, first: Tensor, second: Tensor) -> float:
        """See base class."""
        gap = difference_of(self.utility, first, second)
        if self.scale == 0.0:
            return float(0.5 * (gap.sign() + 1.0))
        return float(torch.sigmoid(gap / self.scale))
