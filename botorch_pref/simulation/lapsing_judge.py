"""A simulated judge whose attention lapses."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from botorch_pref.errors import BotorchPrefError
from botorch_pref.simulation.judge import Judge


@dataclass(frozen=True)
class LapsingJudge(Judge):
    """A judge who answers some duels without having looked, either way.

    Attributes:
        attentive: Who answers the others.
        rate: Share of the duels that are answered by a fair coin, in [0, 1].
        generator: Source of lapses and coins; another than that of the attentive
            judge, whose noise is then the same at any rate.

    Raises:
        BotorchPrefError: The rate is no share.
    """

    attentive: Judge
    rate: float
    generator: Generator

    def __post_init__(self) -> None:
        if not 0.0 <= self.rate <= 1.0:
            raise BotorchPrefError(
                f"the judge's rate of lapses is {self.rate}: give a share in [0, 1]"
            )

    def __call__(self, first: Tensor, second: Tensor) -> bool | None:
        """See base class."""
        # Both are drawn for every duel: whether one lapses moves no later draw.
        lapse, coin = torch.rand(2, generator=self.generator, dtype=torch.double)
        answer = self.attentive(first, second)
        return bool(coin < 0.5) if lapse < self.rate else answer

    def probability(self, first: Tensor, second: Tensor) -> float:
        """See base class."""
        attentive = self.attentive.probability(first, second)
        return (1.0 - self.rate) * attentive + 0.5 * self.rate
