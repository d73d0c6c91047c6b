"""Advice to stop asking, from the chance that a better design would be noticed."""

from __future__ import annotations

from typing import NamedTuple, cast

import torch
from botorch.models.model import Model
from botorch.posteriors.torch import TorchPosterior
from botorch.utils.transforms import is_ensemble
from torch import Tensor

from botorch_pref.errors import BotorchPrefError
from botorch_pref.evaluation.progress.best_probability import (
    NUM_SAMPLES,
    utility_samples,
)
from botorch_pref.likelihoods.links.duel_link import DuelLink
from botorch_pref.models.predictions.model_link import model_link

TOLERANCE = 0.6
"""A chance of regret that need not be lowered; 1/2 is none."""

CONFIDENCE = 0.9
"""How sure one is that it is as low as that, where the advice is to stop."""


class StoppingAdvice(NamedTuple):
    """Advice whether to stop, with its reasons.

    Attributes:
        stop: Whether ``confidence`` is reached.
        chance_of_regret: Posterior mean of the chance that the person would prefer the
            best of the candidates to the recommended one: 1/2 where nothing better is
            left or nobody could tell, 1 where the best is sure to be noticed.
        confidence: Posterior probability that the chance is below the tolerance.
    """

    stop: bool
    chance_of_regret: float
    confidence: float


def stopping_advice(
    model: Model,
    candidates: Tensor,
    tolerance: float = TOLERANCE,
    confidence: float = CONFIDENCE,
    *,
    recommended: Tensor | None = None,
    link: DuelLink | None = None,
    num_samples: int = NUM_SAMPLES,
    seed: int = 0,
) -> StoppingAdvice:
    r"""Advice to stop once a better design would hardly be preferred.

    With :math:`f^*` the largest utility of the candidates and :math:`f_r` that of the
    recommended one, the chance of regret is

    .. math:: \rho = \Phi\big((f^* - f_r) / \sqrt{2 \sigma^2}\big),

    :math:`\sigma^2` the noise of one presented item (or what another link says), and
    the advice is to stop where

    .. math:: P(\rho < \text{tolerance} \mid D) \ge \text{confidence} .

    It is measured in what the person could notice, whatever the unit of utility. As
    good as the model: one that is sure of a wrong optimum stops there. Candidates stand
    for the space, and leave out what lies between them: take those of
    :func:`.stopping_candidates`, of which a half is near the recommended one. Among 256
    points all over the cube alone, 22 of 50 runs with a judge who never errs were told
    to stop below the top of a hill in six dimensions
    (``benchmarks/stopping_errors.py``).

    Args:
        model: Any BoTorch model with one output: without batches, or an ensemble, of
            which members count alike.
        candidates: ``n x d``.
        tolerance: In (1/2, 1).
        confidence: In (0, 1).
        recommended: ``1 x d``; the candidate of the largest posterior mean if there is
            none given.
        link: From a difference of utilities to an answer; the model's by default.
        num_samples: Number of joint samples of the utilities.
        seed: Of the samples; the global random state stays as it is.

    Raises:
        BotorchPrefError: A number outside its range, or a batch of models.
        UnsupportedFeedbackError: The model's likelihood says nothing of duels.
    """
    if not 0.5 < tolerance < 1:
        raise BotorchPrefError(
            f"tolerance is {tolerance}; give a chance in (0.5, 1): 0.5 is no regret."
        )
    if not 0 < confidence < 1:
        raise BotorchPrefError(f"confidence is {confidence}; give a number in (0, 1).")
    if len(model.batch_shape) > 0 and not is_ensemble(model):
        raise BotorchPrefError(
            f"The model is a batch of shape {tuple(model.batch_shape)}; ask for advice "
            "about each of its models."
        )
    if recommended is None:
        recommended = _best_mean(model, candidates)
    points = torch.cat([recommended, candidates])
    utilities = utility_samples(model, points, num_samples, seed)
    gain = utilities.amax(-1) - utilities[..., 0]
    with torch.no_grad():
        known = model_link(model) if link is None else link
        chance = known.win_probability(gain, torch.zeros_like(gain))
    reached = float((chance < tolerance).double().mean())
    return StoppingAdvice(reached >= confidence, float(chance.mean()), reached)


def _best_mean(model: Model, candidates: Tensor) -> Tensor:
    with torch.no_grad():
        posterior = cast("TorchPosterior", model.posterior(candidates))
        mean = posterior.mean.squeeze(-1)
    best = mean.reshape(-1, len(candidates)).mean(0).argmax()
    return candidates[best].unsqueeze(0)
