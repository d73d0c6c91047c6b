"""The loop of preferential optimisation: propose a duel, ask, fit, repeat."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.models.model import Model
from botorch.optim.optimize import optimize_acqf
from botorch.utils.sampling import manual_seed
from torch import Generator, Tensor

from botorch_pref.acquisition import incumbent
from botorch_pref.feedback import Comparisons, Validity
from botorch_pref.models.answers import model_link
from botorch_pref.posteriors.difference import difference_mixture


@dataclass(frozen=True)
class Proposal:
    """A duel to ask.

    Attributes:
        challenger: `d` inputs.
        opponent: `d` inputs, not equal to the challenger's.
        source: What chose the challenger: `"random"` or the acquisition's name.
    """

    challenger: Tensor
    opponent: Tensor
    source: str


@dataclass(frozen=True)
class Duel:
    """A duel that was answered, and what the model made of it.

    Attributes:
        number: Position in the run, from 0.
        proposal: Who met whom, and why.
        probability: The model's probability, before the answer, that the challenger is
            preferred, noise of the answer included; 0.5 where there was no model yet.
        challenger_won: The answer; None for a tie, or where a point was not valid.
        incumbent: `d` inputs of the winner so far, by the model after the answer; of
            the challenger while there is no model.
    """

    number: int
    proposal: Proposal
    probability: float
    challenger_won: bool | None
    incumbent: Tensor


class Propose(Protocol):
    """Rule that chooses the next duel."""

    def __call__(self, number: int, model: Model | None) -> Proposal:
        """Proposes duel `number`, given the model of the answers so far, if any."""
        ...


Answer = Callable[[Tensor, Tensor], bool | None]
"""Says whether the first of two points is preferred; None for a tie."""

Fit = Callable[[Tensor, Comparisons], Model]
"""Fits a model of duels, `PairwiseGP` included, to `n x d` points and answers."""

FitTrials = Callable[[Tensor, Comparisons, Validity], Model]
"""Fits a model that also hears which points are valid."""

Check = Callable[[Tensor], Tensor]
"""Says which of `2 x d` points are valid."""


def run_duels(
    propose: Propose,
    answer: Answer,
    fit: Fit | FitTrials,
    num_duels: int,
    valid: Check | None = None,
) -> Iterator[Duel]:
    """Runs duels one after another, refitting the model after every answer.

    Args:
        propose: Chooses each duel.
        answer: The judge.
        fit: Makes the model of all answers so far.
        num_duels: How many duels to run.
        valid: Where points may fail: tries both points of a duel, which is answered
            only if neither does. ``fit`` then takes the labels too.

    Yields:
        Each duel as soon as it is answered and the model fitted.
    """
    model: Model | None = None
    answers: list[tuple[Proposal, bool | None]] = []
    tried: list[Tensor] = []
    for number in range(num_duels):
        proposal = propose(number, model)
        first, second = proposal.challenger, proposal.opponent
        probability = 0.5 if model is None else predict_win(model, first, second)
        works = None if valid is None else valid(torch.stack([first, second]))
        fails = works is not None and not bool(works.all())
        challenger_won = None if fails else answer(first, second)
        answers.append((proposal, challenger_won))
        if works is None:
            model = fit_answers(answers, fit)  # type: ignore[arg-type]
        else:
            tried.append(works)
            model = fit_trials(answers, tried, fit)  # type: ignore[arg-type]
        best = first if model is None else incumbent(model).reshape(-1)
        yield Duel(number, proposal, probability, challenger_won, best)


def fit_answers(answers: Iterable[tuple[Proposal, bool | None]], fit: Fit) -> Model:
    """Model of answered duels.

    Args:
        answers: Each duel, and whether its challenger won; None for a tie.
        fit: See `run_duels`.
    """
    pairs, ties = [], []
    for proposal, challenger_won in answers:
        ends = (proposal.challenger, proposal.opponent)
        pairs.append(torch.stack(ends[::-1] if challenger_won is False else ends))
        ties.append(challenger_won is None)
    winners, losers = torch.stack(pairs).unbind(1)
    points, indices = index_pairs(winners, losers)
    return fit(points, split_ties(indices, torch.tensor(ties)))


def fit_trials(
    answers: Sequence[tuple[Proposal, bool | None]],
    tried: Sequence[Tensor],
    fit: FitTrials,
) -> Model | None:
    """Model of duels of which some could not be answered.

    Args:
        answers: As in `fit_answers`; None too where a point was not valid.
        tried: For each duel, which of its two points are valid.
        fit: See `run_duels`.

    Returns:
        The model; None while no duel was answered.
    """
    works = torch.stack(list(tried))
    shown = torch.stack([torch.stack([p.challenger, p.opponent]) for p, _ in answers])
    points, index = torch.unique(shown.flatten(0, 1), dim=0, return_inverse=True)
    index = index.view(-1, 2)
    answered = works.all(-1)
    if not answered.any():
        return None
    lost = torch.tensor([won is False for _, won in answers])
    tied = torch.tensor([won is None for _, won in answers])
    pairs = torch.where(lost.unsqueeze(-1), index.flip(-1), index)
    labels = torch.zeros(len(points), dtype=torch.bool)
    labels[index[works]] = True
    comparisons = split_ties(pairs[answered], tied[answered])
    return fit(points, comparisons, Validity(torch.arange(len(points)), labels))


def predict_win(model: Model, first: Tensor, second: Tensor) -> float:
    """Probability that a model gives to the answer "the first of two `d`-points".

    Half of a tie's probability is in it.
    """
    with torch.no_grad():
        mixture = difference_mixture(model.posterior(torch.stack([first, second])))
        return float(model_link(model).win_probability(*mixture).mean())


def split_ties(pairs: Tensor, tied: Tensor) -> Comparisons:
    """Makes comparisons of `m x 2` pairs, winner first, of which some are ties."""
    return Comparisons(
        pairs=None if tied.all() else pairs[~tied],
        ties=pairs[tied] if tied.any() else None,
    )


def index_pairs(winners: Tensor, losers: Tensor) -> tuple[Tensor, Tensor]:
    """Turns `m` pairs of points into distinct points and indices.

    Args:
        winners: `m x d`.
        losers: `m x d`.

    Returns:
        Distinct points `n x d`, and comparisons `m x 2` among them, winner first.
    """
    points, inverse = torch.unique(
        torch.cat([winners, losers]), dim=0, return_inverse=True
    )
    return points, inverse.reshape(2, -1).T.contiguous()


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
