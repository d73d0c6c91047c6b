"""A simulated judge who compares two points by a known utility and noise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from botorch_pref.errors import BotorchPrefError


@dataclass(frozen=True)
class ProbitJudge:
    """Probit judge: prefers the point of larger utility plus fresh Gaussian noise.

    With independent noise `N(0, noise)` on each presented item,
    `P(first preferred) = Phi((u(first) - u(second)) / sqrt(2 noise))`, the probit
    likelihood of Chu and Ghahramani (2005). Without noise the better point always wins,
    and the first wins an exact tie.

    Attributes:
        utility: Maps `d` inputs to a scalar.
        noise: Variance of the noise per presented item, at least 0.
        generator: Source of the noise.
    """

    utility: Callable[[Tensor], Tensor]
    noise: float
    generator: Generator

    def __post_init__(self) -> None:
        if not 0.0 <= self.noise < float("inf"):
            raise BotorchPrefError(
                f"the judge's noise is {self.noise}: give a finite variance >= 0"
            )

    def __call__(self, first: Tensor, second: Tensor) -> bool:
        """Answers whether the first of two `d`-points is preferred."""
        perceived = self.utility(torch.stack([first, second]))
        if self.noise > 0.0:
            draws = torch.randn(2, generator=self.generator, dtype=perceived.dtype)
            perceived = perceived + self.noise**0.5 * draws
        return bool(perceived[0] >= perceived[1])
