"""A duel whose answer is foreseen, which shows whether answers can be relied on."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from botorch_pref.acquisition.design_space import DesignSpace
from botorch_pref.acquisition.duels import observed_points
from botorch_pref.feedback import Comparisons
from botorch_pref.likelihoods import LapsingProbitLikelihood
from botorch_pref.models import PreferenceGP
from botorch_pref.posteriors.gaussian import mean_at


def reliability_check(
    model: Any,
    space: DesignSpace,
    number: int,
    open_questions: Tensor,
    *,
    first: int = 6,
    every: int = 2,
    margin: float = 1.0,
    confidence: float = 0.9,
) -> Tensor | None:
    r"""Chooses a duel that shows whether answers can be relied on, where it is open.

    A search asks about designs that are about equally good, and a person who guesses
    answers such duels as one with a taste does. So now and then the design with the
    largest posterior mean meets the one that is most surely worse. These checks end
    once the log evidence :math:`L` of ``n`` duels is well above that of a coin,

    .. math:: L + n \log 2 \ge \text{margin},

    which takes one or two where somebody is steady (`docs/logbook/lapses.md`).

    Args:
        model: Any model. Only one of duels without ties that learns how often somebody
            lapses, as `default_model` does of duels, can gain from a check.
        space: The designs that may be shown; a check is of those that were.
        number: How many questions were asked before, answered or not.
        open_questions: ``k x 2 x d`` duels that wait for an answer.
        first: How many questions are asked before the first that may be a check.
        every: How many questions there are from one check to the next.
        margin: How much larger than a coin's the log evidence has to be, in nats.
        confidence: The least probability of the answer that is foreseen.

    Returns:
        ``2 x d``, the design that is expected to win first; None where no check is due
        or none can be asked that was not asked before.
    """
    if number < first or number % every or not _learns_lapses(model):
        return None
    duels: Comparisons = model.feedback[0]
    with torch.no_grad():
        gain = model.log_evidence() + duels.answer_counts.sum() * math.log(2)
    answered = observed_points(model)[duels.pairs]
    X = answered.flatten(0, 1).unique(dim=0)
    X = X[space.allows(X)]
    if float(gain) >= margin or not len(X):
        return None
    best = X[mean_at(model, X).argmax()]
    questions = torch.cat([answered, open_questions])
    # The best design was in a duel, and so is itself one that it has met, and no rival.
    met = questions[(questions == best).all(-1).any(-1)].flatten(0, 1)
    rivals = X[(X.unsqueeze(-2) != met).any(-1).all(-1)]
    if not len(rivals):
        return None
    with torch.no_grad():
        chance = model.duel_probability(
            best.expand_as(rivals), rivals, observation_noise=True
        )
    if float(chance.max()) < confidence:
        return None
    return torch.stack([best, rivals[chance.argmax()]])


def _learns_lapses(model: object) -> bool:
    """Tells whether a model is of duels alone, none a tie, and of a person's lapses."""
    if not isinstance(model, PreferenceGP) or model._is_ensemble:
        return False
    if not isinstance(model.likelihood, LapsingProbitLikelihood):
        return False
    blocks = model.feedback
    duels = [b for b in blocks if isinstance(b, Comparisons) and b.ties is None]
    return len(duels) == len(blocks) == 1
