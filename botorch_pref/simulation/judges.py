"""Simulated judges who compare two points by a known utility, and err."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from botorch_pref.errors import BotorchPrefError

Utility = Callable[[Tensor], Tensor]
"""Maps `batch_shape x d` points to `batch_shape` utilities."""


class Judge(ABC):
    """A person who prefers one of two points, or neither."""

    @abstractmethod
    def __call__(self, first: Tensor, second: Tensor) -> bool | None:
        """Answers whether the first of two `d`-points is preferred; None for a tie."""

    @abstractmethod
    def probability(self, first: Tensor, second: Tensor) -> float:
        """Probability that the first of two `d`-points is preferred.

        Half of a tie's probability is in it.
        """


@dataclass(frozen=True)
class ProbitJudge(Judge):
    r"""Probit judge: prefers the point of larger utility plus fresh Gaussian noise.

    With independent noise :math:`N(0, \sigma^2)` on each presented item,

    .. math:: P(\text{first preferred}) =
        \Phi\Big(\frac{u_1 - u_2 - \delta}{\sqrt{2 \sigma^2}}\Big),

    the probit likelihood of Chu and Ghahramani (2005) with the threshold of Glenn and
    David (1960). Without noise and threshold the better point always wins, and the
    first wins an exact tie.

    Attributes:
        utility: Maps `batch_shape x d` inputs to utilities.
        noise: Variance of the noise per presented item, at least 0.
        generator: Source of the noise.
        tie_threshold: Perceived differences of at most this are ties; 0 for a judge who
            always decides.

    Raises:
        BotorchPrefError: A noise or a threshold that is negative or not finite.
    """

    utility: Utility
    noise: float
    generator: Generator
    tie_threshold: float = 0.0

    def __post_init__(self) -> None:
        check_parameter("noise", self.noise, "variance")
        check_parameter("tie threshold", self.tie_threshold, "difference")

    def __call__(self, first: Tensor, second: Tensor) -> bool | None:
        """See base class."""
        perceived = self.utility(torch.stack([first, second]))
        if self.noise > 0.0:
            draws = torch.randn(2, generator=self.generator, dtype=perceived.dtype)
            perceived = perceived + self.noise**0.5 * draws
        difference = float(perceived[0] - perceived[1])
        if self.tie_threshold > 0.0 and abs(difference) <= self.tie_threshold:
            return None
        return difference >= 0.0

    def probability(self, first: Tensor, second: Tensor) -> float:
        """See base class."""
        gap = difference_of(self.utility, first, second)
        if self.noise == 0.0:
            return 0.5 if abs(gap) <= self.tie_threshold else float(gap > 0.0)
        ends = torch.stack([gap - self.tie_threshold, gap + self.tie_threshold])
        return float(torch.special.ndtr(ends / (2 * self.noise) ** 0.5).mean())


def difference_of(utility: Utility, first: Tensor, second: Tensor) -> Tensor:
    """Utility of the first of two points less that of the second, a scalar."""
    values = utility(torch.stack([first, second]))
    return values[0] - values[1]


def check_parameter(name: str, value: float, what: str) -> None:
    """Checks that a parameter of a judge is finite and not negative."""
    if not 0.0 <= value < float("inf"):
        raise BotorchPrefError(
            f"the judge's {name} is {value}: give a finite {what} >= 0"
        )
