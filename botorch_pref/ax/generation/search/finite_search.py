"""The best question among designs that can be counted."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from math import comb

import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.exceptions.errors import CandidateGenerationError
from botorch.models.model import Model
from botorch.optim.optimize import (
    optimize_acqf_discrete,
    optimize_acqf_discrete_local_search,
)
from botorch.utils.transforms import is_ensemble
from torch import Tensor

from botorch_pref.acquisition.reference.incumbent import incumbent
from botorch_pref.ax.generation.search.told_apart import ToldApart, can_be_told
from botorch_pref.posteriors.difference import difference_mixture

MAX_QUESTIONS = 20_000
"""Up to so many questions are valued one by one; of more, neighbours are searched."""

_HOPELESS = 0.005
"""Probability below which nobody need ask whether a design is better than the best.
Models of few answers are often too sure of themselves."""

_CHUNK = 2_048
_EVALUATIONS = 100_000


def best_of_designs(
    acquisition: AcquisitionFunction, designs: Tensor, size: int, apart: ToldApart
) -> Tensor:
    """The most valuable question that was not asked, as long as one is worth asking.

    Worth asking is a question with an option that is better than the reference, or the
    incumbent, with a probability of 0.005 or more. When all of them were asked, those
    that were asked least often count; then those that are not worth it.

    Args:
        acquisition: What values options, ``batch_shape x size x d``.
        designs: ``N x d``.
        size: How many options are chosen, jointly.
        apart: What the options must differ from.

    Returns:
        ``size x d``.

    Raises:
        CandidateGenerationError: No question is left whose options can be told apart
            and that is not pending.
    """
    reference = apart.reference
    if reference is None:
        reference = incumbent(acquisition.model).reshape(-1, designs.shape[-1])
    reference = reference[:1]
    hopeful = _win_probability(acquisition.model, designs, reference) >= _HOPELESS
    hopeful &= (designs != reference).any(-1)

    def rank(places: Tensor) -> Tensor:
        """Place of a question in the order of asking; infinite if not at all."""
        options = designs[places]
        allowed = can_be_told(apart.smallest_gap(options)) & ~apart.is_pending(options)
        asked = apart.times_asked(options)
        late = asked + (len(apart.asked) + 1) * ~hopeful[places].any(-1)
        return torch.where(allowed, late.double(), torch.inf)

    if comb(len(designs), size) > MAX_QUESTIONS:
        return designs[_searched(acquisition, designs, size, rank)]
    places = torch.tensor([*combinations(range(len(designs)), size)]).view(-1, size)
    ranks = _by_chunks(rank, places) if len(places) else torch.zeros(0)
    first = ranks.min() if len(ranks) else torch.inf
    if first == torch.inf:
        raise CandidateGenerationError("No question is left to ask about designs.")
    return designs[_best_of(acquisition, designs, places[ranks == first])]


def _best_of(
    acquisition: AcquisitionFunction, designs: Tensor, places: Tensor
) -> Tensor:
    """The most valuable of some questions, as places of designs."""
    by_place = _AtPlaces(acquisition, designs, places.shape[-1])
    best, _ = optimize_acqf_discrete(
        by_place, 1, places.to(designs), max_batch_size=_CHUNK
    )
    return best.squeeze(0).long()


def _searched(
    acquisition: AcquisitionFunction,
    designs: Tensor,
    size: int,
    rank: Callable[[Tensor], Tensor],
) -> Tensor:
    """The most valuable question that is found by exchanging one option at a time."""
    neighbours = len(designs) * size
    restarts = min(max(_EVALUATIONS // (4 * neighbours), 1), 8)
    choices = [torch.arange(len(designs)).to(designs)] * size
    for last in (0.0, torch.inf):
        by_place = _AtPlaces(acquisition, designs, size, rank, last)
        best, value = optimize_acqf_discrete_local_search(
            by_place, choices, 1, num_restarts=restarts, raw_samples=1_024
        )
        if value > -torch.inf:
            return best.squeeze(0).long()
    raise CandidateGenerationError("No question was found to ask about designs.")


class _AtPlaces(AcquisitionFunction):
    """Value of questions by the places of their options among designs."""

    def __init__(
        self,
        acquisition: AcquisitionFunction,
        designs: Tensor,
        size: int,
        rank: Callable[[Tensor], Tensor] | None = None,
        last: float = torch.inf,
    ) -> None:
        super().__init__(acquisition.model)
        self.acquisition = acquisition
        self._designs, self._size = designs, size
        self._rank, self._last = rank, last

    def forward(self, X: Tensor) -> Tensor:
        """The value; minus infinity of a question that may not be asked.

        Args:
            X: Places, ``b x 1 x size``.
        """
        places = X.squeeze(-2).long()
        with torch.no_grad():
            value: Tensor = self.acquisition(self._designs[places])
            if self._rank is None:
                return value
            ranks = self._rank(places)
        allowed = (ranks <= self._last) & (ranks < torch.inf)
        return torch.where(allowed, value, -torch.inf)


def _win_probability(model: Model, designs: Tensor, reference: Tensor) -> Tensor:
    """Probability that each design is better than the reference, ``N``."""

    def of(points: Tensor) -> Tensor:
        pairs = torch.stack([points, reference.expand_as(points)], dim=-2)
        if is_ensemble(model):
            pairs = pairs.unsqueeze(-3)
        with torch.no_grad():
            means, variance = difference_mixture(model.posterior(pairs), 0, 1)
        wins = torch.special.ndtr(means / variance.clamp_min(1e-12).sqrt()).mean(0)
        return wins.mean(-1) if is_ensemble(model) else wins

    return _by_chunks(of, designs)


def _by_chunks(function: Callable[[Tensor], Tensor], X: Tensor) -> Tensor:
    return torch.cat([function(chunk) for chunk in X.split(_CHUNK)])
