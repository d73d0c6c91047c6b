"""Proposals of the next duel: random, chosen by acquisition, or recorded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.models.model import Model
from botorch.optim.optimize import optimize_acqf
from botorch.utils.sampling import manual_seed
from torch import Generator, Tensor

from botorch_pref.acquisition import incumbent
from botorch_pref.simulation.duel_loop import Proposal

MakeAcquisition = Callable[[Any, Tensor], AcquisitionFunction]
"""Makes the acquisition function of a model and the incumbent, `1 x d`.

Its own `X_ref` is the opponent, which need not be the incumbent; a function without one
chooses both points.
"""

NUM_RESTARTS = 4
RAW_SAMPLES = 256


@dataclass(frozen=True)
class ChosenDuels:
    """Random duels first, then ones that an acquisition function chooses.

    Attributes:
        dim: Number of inputs `d`; points are drawn from the unit cube.
        num_random: How many duels start the run at random.
        acquisition: Its name, for the record.
        make_acquisition: Makes it.
        generator: Source of every draw.
    """

    dim: int
    num_random: int
    acquisition: str
    make_acquisition: MakeAcquisition
    generator: Generator

    def __call__(self, number: int, model: Model | None) -> Proposal:
        """Proposes the next duel.

        A challenger equal to its opponent would teach nothing, so a random point takes
        its place; the proposal's source says so.
        """
        if model is None or number < self.num_random:
            return Proposal(self._random_point(), self._random_point(), "random")
        challenger, opponent = self._choose(model)
        if torch.equal(challenger, opponent):
            return Proposal(self._random_point(), opponent, "random")
        return Proposal(challenger, opponent, self.acquisition)

    def _random_point(self) -> Tensor:
        return torch.rand(self.dim, generator=self.generator, dtype=torch.double)

    def _choose(self, model: Model) -> tuple[Tensor, Tensor]:
        best = incumbent(model).reshape(1, -1)
        # BoTorch's parts draw from torch's global generator, here seeded and restored.
        with manual_seed(int(torch.randint(2**31, (), generator=self.generator))):
            acquisition = self.make_acquisition(model, best)
            reference: Tensor | None = getattr(acquisition, "X_ref", None)
            candidates, _ = optimize_acqf(
                acquisition,
                bounds=torch.tensor([[0.0], [1.0]]).double().expand(2, self.dim),
                q=2 if reference is None else 1,
                num_restarts=NUM_RESTARTS,
                raw_samples=RAW_SAMPLES,
                # The best duels are often with a near neighbour of the incumbent, where
                # uniform raw samples hardly fall.
                options={"sample_around_best": True},
            )
        duel = candidates.detach()
        return duel[0], duel[1] if reference is None else reference[0]


@dataclass(frozen=True)
class RandomChallengers:
    """Random duels first, then duels of random points with the incumbent.

    Attributes:
        dim: Number of inputs `d`; points are drawn from the unit cube.
        num_random: How many duels start the run at random.
        generator: Source of every draw.
    """

    dim: int
    num_random: int
    generator: Generator

    def __call__(self, number: int, model: Model | None) -> Proposal:
        """Proposes the next duel."""
        points = torch.rand(2, self.dim, generator=self.generator, dtype=torch.double)
        if model is None or number < self.num_random:
            return Proposal(points[0], points[1], "random")
        return Proposal(points[0], incumbent(model).reshape(-1), "random")


@dataclass(frozen=True)
class RecordedDuels:
    """The duels of a finished run, in their order.

    Attributes:
        proposals: The duels, without their answers.
    """

    proposals: Sequence[Proposal]

    def __call__(self, number: int, model: Model | None) -> Proposal:
        """Repeats duel `number`, whatever the model is."""
        return self.proposals[number]
