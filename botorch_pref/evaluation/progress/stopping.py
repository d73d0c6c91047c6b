"""Advice to stop asking, from what is left to gain and whether it would be noticed."""

from __future__ import annotations

import math
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
from botorch_pref.evaluation.progress.path_maxima import path_maxima
from botorch_pref.likelihoods.links.duel_link import DuelLink
from botorch_pref.models.predictions.model_link import model_link

TOLERANCE = 0.6
"""A chance of regret that need not be lowered; 1/2 is none."""

CONFIDENCE = 0.9
"""How sure one is that a chance or a gain is so low, where the advice is to stop."""

GAIN_TOLERANCE = 0.05
"""A gain that need not be made, as a share of the range of utilities shown."""


NUM_PATHS = 128
"""Functions whose largest values in a box are found."""


class StoppingAdvice(NamedTuple):
    """Advice whether to stop, with its reasons.

    Attributes:
        stop: Whether ``confidence`` or ``gain_confidence`` is as high as was asked for.
        chance_of_regret: Posterior mean of the chance that the person would prefer the
            best of the candidates to the recommended one: 1/2 where nothing better is
            left or nobody could tell, 1 where the best is sure to be noticed.
        confidence: Posterior probability that the chance is below the tolerance.
        expected_gain: Expected gain in utility of the best of the candidates over the
            recommended one, at least 0.
        gain_share: The expected gain as a share of the expected range of utilities
            shown: 0.03 where the best would add three hundredths of the distance
            between the worst and the best design that was shown; NaN where one point
            alone was.
        gain_confidence: Posterior probability that the gain is below ``gain_tolerance``
            times the range.
    """

    stop: bool
    chance_of_regret: float
    confidence: float
    expected_gain: float
    gain_share: float
    gain_confidence: float


def stopping_advice(
    model: Model,
    candidates: Tensor,
    tolerance: float = TOLERANCE,
    confidence: float = CONFIDENCE,
    *,
    recommended: Tensor | None = None,
    shown: Tensor | None = None,
    bounds: Tensor | None = None,
    gain_tolerance: float = GAIN_TOLERANCE,
    link: DuelLink | None = None,
    num_samples: int = NUM_SAMPLES,
    seed: int = 0,
) -> StoppingAdvice:
    r"""Advice to stop once a better design would hardly be preferred, or hardly better.

    With :math:`f^*` the largest utility of the candidates and :math:`f_r` that of the
    recommended one, the chance of regret is

    .. math:: \rho = \Phi\big((f^* - f_r) / \sqrt{2 \sigma^2}\big),

    :math:`\sigma^2` the noise of one presented item (or what another link says). A
    person who never errs prefers whatever is better at all: there the chance stays near
    1, and the gain says how much better. With :math:`R` the largest less the smallest
    utility of the points shown, and :math:`\gamma` the ``gain_tolerance``, the advice
    is to stop where

    .. math:: P(\rho < \text{tolerance} \mid D) \ge \text{confidence} \quad
        \text{or} \quad P(f^* - f_r < \gamma R \mid D) \ge \text{confidence} .

    Neither depends on the unit of utility. Both are as good as the model: one that is
    sure of a wrong optimum stops there. Candidates stand for the space, and leave out
    what lies between them: the best of any 512 points in six dimensions is far below
    the best of the cube. With ``bounds``, the largest utility of the box is found of
    each posterior draw, by gradients from its best candidates on; take those of
    :func:`.stopping_candidates`, of which a half is near the recommended point.
    ``docs/evaluation.md`` says how often the advice is wrong
    (``benchmarks/stopping_errors.py``).

    Args:
        model: Any BoTorch model with one output: without batches, or an ensemble, of
            which members count alike.
        candidates: ``n x d``.
        tolerance: In (1/2, 1).
        confidence: In (0, 1).
        recommended: ``1 x d``; the candidate of the largest posterior mean if there is
            none given.
        shown: ``m x d`` points that the person has seen, whose utilities have the
            range; all candidates if none are given.
        bounds: ``2 x d``, lower and upper ends of the box that is searched; without
            them the candidates alone are. Draws are then `NUM_PATHS` functions, as
            BoTorch draws them of the models of this package and of its own. Not for an
            ensemble.
        gain_tolerance: Share of the range, in (0, 1).
        link: From a difference of utilities to an answer; the model's by default.
        num_samples: Number of joint samples of the utilities; not used with bounds.
        seed: Of the samples; the global random state stays as it is.

    Raises:
        BotorchPrefError: A number outside its range, a batch of models, or bounds for
            an ensemble.
        UnsupportedFeedbackError: The model's likelihood says nothing of duels.
    """
    if not 0.5 < tolerance < 1:
        raise BotorchPrefError(
            f"tolerance is {tolerance}; give a chance in (0.5, 1): 0.5 is no regret."
        )
    if not 0 < confidence < 1:
        raise BotorchPrefError(f"confidence is {confidence}; give a number in (0, 1).")
    if not 0 < gain_tolerance < 1:
        raise BotorchPrefError(
            f"gain_tolerance is {gain_tolerance}; give a share in (0, 1) of the range "
            "of utilities shown."
        )
    if len(model.batch_shape) > 0 and not is_ensemble(model):
        raise BotorchPrefError(
            f"The model is a batch of shape {tuple(model.batch_shape)}; ask for advice "
            "about each of its models."
        )
    if bounds is not None and is_ensemble(model):
        raise BotorchPrefError(
            "bounds are given for an ensemble of models, whose functions cannot be "
            "followed uphill at once: leave bounds out, and give more candidates."
        )
    if recommended is None:
        recommended = _best_mean(model, candidates)
    seen = candidates if shown is None else shown
    if bounds is None:
        points = torch.cat([recommended, candidates, seen])
        utilities = utility_samples(model, points, num_samples, seed)
        best = utilities[..., : 1 + len(candidates)].amax(-1)
    else:
        points = torch.cat([recommended, seen])
        starts = torch.cat([recommended, candidates])
        utilities, best = path_maxima(model, points, starts, bounds, NUM_PATHS, seed)
    gain, of_seen = best - utilities[..., 0], utilities[..., -len(seen) :]
    extent = of_seen.amax(-1) - of_seen.amin(-1)
    with torch.no_grad():
        known = model_link(model) if link is None else link
        chance = known.win_probability(gain, torch.zeros_like(gain))
    reached = float((chance < tolerance).double().mean())
    wide = float(extent.mean())
    little = float((gain < gain_tolerance * extent).double().mean())
    return StoppingAdvice(
        stop=max(reached, little) >= confidence,
        chance_of_regret=float(chance.mean()),
        confidence=reached,
        expected_gain=float(gain.mean()),
        gain_share=float(gain.mean()) / wide if wide > 0 else math.nan,
        gain_confidence=little,
    )


def _best_mean(model: Model, candidates: Tensor) -> Tensor:
    with torch.no_grad():
        posterior = cast("TorchPosterior", model.posterior(candidates))
        mean = posterior.mean.squeeze(-1)
    best = mean.reshape(-1, len(candidates)).mean(0).argmax()
    return candidates[best].unsqueeze(0)
