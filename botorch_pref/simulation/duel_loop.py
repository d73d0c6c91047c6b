"""The loop of duels by any rule: propose a duel, ask, fit, repeat."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.models.model import Model
from botorch.optim.optimize import optimize_acqf
from botorch.utils.sampling import manual_seed
from torch import Generator, Tensor

from botorch_pref.acquisition import incumbent
from botorch_pref.datasets.data import distinct_items, pairs_and_ties
from botorch_pref.feedback import Comparisons
from botorch_pref.models.answer_likelihoods import duel_share
from botorch_pref.posteriors.gaussian import difference_mixture


@dataclass(frozen=True)
class Proposal:
    """A duel to ask: a ``challenger`` and another ``opponent``, of `d` inputs each.

    The ``source`` is `"random"`, or the name of the acquisition function that chose.
    """

    challenger: Tensor
    opponent: Tensor
    source: str


@dataclass(frozen=True)
class Duel:
    """A duel that was answered, and the model's view of it.

    Attributes:
        number: Position in the run, from 0.
        proposal: The two points, and why they meet.
        probability: The model's probability, before the answer, that the challenger is
            preferred, noise of the answer included; 0.5 where there was no model yet.
        challenger_won: The answer; None for a tie.
        incumbent: `d` inputs of the winner so far, by the model after the answer; of
            the challenger while there is no model.
    """

    number: int
    proposal: Proposal
    probability: float
    challenger_won: bool | None
    incumbent: Tensor


class Propose(Protocol):
    """Rule that chooses the next duel.

    ``propose(number, model, best)`` gives the `Proposal` of duel ``number``, from 0.
    The model is that of the answers so far, and ``best`` its incumbent, `d` inputs;
    both are None before there is one.
    """

    def __call__(
        self, number: int, model: Model | None, best: Tensor | None
    ) -> Proposal:
        """Proposes duel `number`, given the model of the answers so far, if any."""
        ...


Answer = Callable[[Tensor, Tensor], bool | None]
"""Says whether the first of two points is preferred; None for a tie."""

Fit = Callable[[Tensor, Comparisons], Model | None]
"""Fits a model of duels, `PairwiseGP` included, to `n x d` points and answers; None
where it can learn nothing from them."""


def run_duels(
    propose: Propose, answer: Answer, fit: Fit, num_duels: int
) -> Iterator[Duel]:
    """Runs ``num_duels`` duels, refitting the model after every answer.

    Yields each one that ``propose`` chose as soon as ``answer``, the judge, has
    answered it, and ``fit`` has made the model of all answers so far.
    """
    model: Model | None = None
    best: Tensor | None = None
    answers: list[tuple[Proposal, bool | None]] = []
    for number in range(num_duels):
        proposal = propose(number, model, best)
        first, second = proposal.challenger, proposal.opponent
        probability = 0.5 if model is None else predict_win(model, first, second)
        challenger_won = answer(first, second)
        answers.append((proposal, challenger_won))
        model = fit_answers(answers, fit)
        best = None if model is None else incumbent(model).reshape(-1)
        recommended = first if best is None else best
        yield Duel(number, proposal, probability, challenger_won, recommended)


def fit_answers(
    answers: Sequence[tuple[Proposal, bool | None]], fit: Fit
) -> Model | None:
    """Fits a model to duels with answers: whether the challenger won, None for a tie.

    The result is None where ``fit`` can learn nothing from the answers.
    """
    challengers = torch.stack([proposal.challenger for proposal, _ in answers])
    opponents = torch.stack([proposal.opponent for proposal, _ in answers])
    points, index = index_pairs(challengers, opponents)
    lost = torch.tensor([won is False for _, won in answers])
    tied = torch.tensor([won is None for _, won in answers])
    pairs = torch.where(lost.unsqueeze(-1), index.flip(-1), index)
    return fit(points, pairs_and_ties(pairs, tied))


def predict_win(model: Model, first: Tensor, second: Tensor) -> float:
    """Predicts how probably the first of two points wins, with half of a tie's."""
    with torch.no_grad():
        mixture = difference_mixture(model.posterior(torch.stack([first, second])))
        return float(duel_share(model, *mixture).mean())


def index_pairs(winners: Tensor, losers: Tensor) -> tuple[Tensor, Tensor]:
    """Finds distinct points, `n x d`, and indices of `m` pairs, winner first."""
    return distinct_items(torch.stack([winners, losers], dim=-2))


MakeAcquisition = Callable[[Any, Tensor], AcquisitionFunction]
"""Makes the acquisition function of a model and the incumbent, `1 x d`.

Its own `X_ref` is the opponent, which need not be the incumbent; a function without one
chooses both points."""

NUM_RESTARTS = 4
RAW_SAMPLES = 256


@dataclass(frozen=True)
class ChosenDuels:
    """Duels of the unit cube: ``num_random`` at random, then an acquisition function's.

    ``dim`` is the number of inputs, ``acquisition`` the name of the function for the
    record, which ``make_acquisition`` makes, and ``generator`` the source of all draws.
    """

    dim: int
    num_random: int
    acquisition: str
    make_acquisition: MakeAcquisition
    generator: Generator

    def __call__(
        self, number: int, model: Model | None, best: Tensor | None
    ) -> Proposal:
        """Proposes the next duel, see `Propose`.

        The duel of a challenger equal to its opponent would teach nothing: a random
        point takes the challenger's place, and the proposal's source is "random".
        """
        if model is None or best is None or number < self.num_random:
            return Proposal(self._random_point(), self._random_point(), "random")
        challenger, opponent = self._choose(model, best.unsqueeze(0))
        if torch.equal(challenger, opponent):
            return Proposal(self._random_point(), opponent, "random")
        return Proposal(challenger, opponent, self.acquisition)

    def _random_point(self) -> Tensor:
        return torch.rand(self.dim, generator=self.generator, dtype=torch.double)

    def _choose(self, model: Model, best: Tensor) -> tuple[Tensor, Tensor]:
        """Chooses a challenger and an opponent by the acquisition function.

        The opponent is the function's own `X_ref`, if it has one; both are chosen if
        not.
        """
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
                options={
                    "sample_around_best": True,
                    **getattr(acquisition, "optimizer_options", {}),
                },
            )
        duel = candidates.detach()
        return duel[0], duel[1] if reference is None else reference[0]
