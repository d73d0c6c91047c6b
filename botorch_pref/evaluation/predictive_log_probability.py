"""Log probabilities of held-out answers of any kind under a fitted model."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import singledispatch
from typing import Any, cast

import torch
from botorch.posteriors.torch import TorchPosterior
from botorch.sampling.get_sampler import get_sampler
from gpytorch.likelihoods import Likelihood
from torch import Tensor

from botorch_pref.errors import UnsupportedFeedbackError
from botorch_pref.feedback import (
    Choices,
    Comparisons,
    Feedback,
    OrdinalRatings,
    Rankings,
    Ratings,
    Strengths,
)
from botorch_pref.likelihoods import (
    PairwiseProbitLikelihood,
    PlackettLuceLikelihood,
)
from botorch_pref.models import PreferenceGP
from botorch_pref.numerics.heard_order import heard_order_log_probability
from botorch_pref.posteriors.skew_normal_posterior import SkewNormalPosterior

NUM_DRAWS = 128
"""Quasi-random draws of the utilities of each set."""

_SETS_AT_ONCE = 64
_SEED = 0


@singledispatch
def predictive_log_probability(
    feedback: Feedback, model: PreferenceGP, datapoints: Tensor
) -> Tensor:
    """Log probability of each answer by itself, given what the model was fitted to.

    A density for ratings and strengths. Comparisons, levels, ratings and strengths are
    exact under the posterior (mixtures of Gaussians in closed form, or by quadrature
    where the likelihood is Beta). Choices and rankings average the likelihood's own
    probabilities over `NUM_DRAWS` quasi-random draws of the utilities of the set, with
    a fixed seed.

    Args:
        feedback: `m` answers that the model has not seen.
        model: Has a likelihood of such answers.
        datapoints: `n x d`, what the indices of the answers point into.

    Returns:
        `m` log probabilities.

    Raises:
        UnsupportedFeedbackError: If there is no rule for this kind of feedback, or for
            the likelihood that the model has of it.
    """
    kinds = set(predictive_log_probability.registry) - {object}
    known = ", ".join(sorted(kind.__name__ for kind in kinds))
    raise UnsupportedFeedbackError(
        f"The probability of held-out {type(feedback).__name__} is not known, only of "
        f"{known}; register a rule with predictive_log_probability.register."
    )


@predictive_log_probability.register
def _(feedback: Comparisons, model: PreferenceGP, datapoints: Tensor) -> Tensor:
    if feedback.pairs is None or feedback.ties is not None:
        raise UnsupportedFeedbackError(
            "Held-out Comparisons with ties have no rule; score the pairs alone."
        )
    first, second = datapoints[feedback.pairs].unbind(-2)
    posterior = model.duel_posterior(first.unsqueeze(-2), second.unsqueeze(-2))
    win = _likelihood(model, feedback).win_probability(*_components(posterior))
    return win.mean(0).log()


@predictive_log_probability.register
def _(feedback: OrdinalRatings, model: PreferenceGP, datapoints: Tensor) -> Tensor:
    levels = level_probabilities(model, datapoints[feedback.indices])
    return levels.gather(-1, feedback.levels.unsqueeze(-1)).squeeze(-1).log()


@predictive_log_probability.register
def _(feedback: Ratings, model: PreferenceGP, datapoints: Tensor) -> Tensor:
    posterior = model.posterior(datapoints[feedback.indices].unsqueeze(-2))
    return _log_density(model, feedback, feedback.ratings, posterior)


@predictive_log_probability.register
def _(feedback: Strengths, model: PreferenceGP, datapoints: Tensor) -> Tensor:
    first, second = datapoints[feedback.pairs].unbind(-2)
    posterior = model.duel_posterior(first.unsqueeze(-2), second.unsqueeze(-2))
    return _log_density(model, feedback, feedback.strengths, posterior)


@predictive_log_probability.register
def _(feedback: Choices, model: PreferenceGP, datapoints: Tensor) -> Tensor:
    return _of_sets(feedback.stages(), feedback, model, datapoints, _log_first_chosen)


@predictive_log_probability.register
def _(feedback: Rankings, model: PreferenceGP, datapoints: Tensor) -> Tensor:
    return _of_sets(feedback.orders, feedback, model, datapoints, log_order_probability)


def level_probabilities(model: PreferenceGP, X: Tensor) -> Tensor:
    """Probabilities of the levels that points will be given.

    Args:
        model: Has a likelihood of ordinal ratings.
        X: `m x d`.

    Returns:
        `m x K`, exact under the posterior.
    """
    likelihood = _likelihood_of(model, OrdinalRatings)
    moments = _components(model.posterior(X.unsqueeze(-2)))
    return likelihood.level_probabilities(*moments).mean(0)


def _log_first_chosen(likelihood: Any, utilities: Tensor) -> Tensor:
    """Log probability that the first item of a set is chosen as its best."""
    return likelihood.log_choice_probability(utilities)[..., 0]


@singledispatch
def log_order_probability(likelihood: Likelihood, utilities: Tensor) -> Tensor:
    """Log probability that the items of a set are ranked in their order, best first.

    Args:
        likelihood: Of rankings.
        utilities: `... x k`.

    Returns:
        `...`.

    Raises:
        UnsupportedFeedbackError: If the likelihood is not known.
    """
    raise _unknown(likelihood, "ranking")


@log_order_probability.register
def _(likelihood: PairwiseProbitLikelihood, utilities: Tensor) -> Tensor:
    return heard_order_log_probability(utilities, likelihood.noise)


@log_order_probability.register
def _(likelihood: PlackettLuceLikelihood, utilities: Tensor) -> Tensor:
    # The normaliser of each stage: of an item and those behind it.
    behind = utilities.flip(-1).logcumsumexp(-1).flip(-1)
    return (utilities - behind).sum(-1)


def _of_sets(
    sets: Tensor,
    feedback: Feedback,
    model: PreferenceGP,
    datapoints: Tensor,
    log_probability: Callable[[Likelihood, Tensor], Tensor],
) -> Tensor:
    """Averages over draws; sets of one size at once, in portions for memory."""
    likelihood = _likelihood(model, feedback)
    sizes = (sets >= 0).sum(-1)
    out = datapoints.new_empty(len(sets))
    for size in sizes.unique().tolist():
        for rows in (sizes == size).nonzero()[:, 0].split(_SETS_AT_ONCE):
            posterior = model.posterior(datapoints[sets[rows, :size]])
            sampler = get_sampler(
                cast("TorchPosterior", posterior), torch.Size([NUM_DRAWS]), seed=_SEED
            )
            each = log_probability(likelihood, sampler(posterior).squeeze(-1))
            out[rows] = each.logsumexp(0) - math.log(NUM_DRAWS)
    return out


def _log_density(
    model: PreferenceGP, feedback: Feedback, answers: Tensor, posterior: Any
) -> Tensor:
    likelihood = _likelihood(model, feedback)
    each = likelihood.answer_log_density(answers, *_components(posterior))
    return each.logsumexp(0) - math.log(len(each))


def _components(posterior: Any) -> tuple[Tensor, Tensor]:
    """Means `s x m` and variances `m` of a mixture at `m` batches of one point."""
    if isinstance(posterior, SkewNormalPosterior):
        means, variance = posterior.component_means, posterior.component_covariance
        return means.squeeze(-1), variance[..., 0, 0]
    mean, variance = posterior.mean, posterior.variance
    return mean[..., 0, 0].unsqueeze(0), variance[..., 0, 0]


def _likelihood(model: PreferenceGP, feedback: Feedback) -> Any:
    return _likelihood_of(model, type(feedback))


def _likelihood_of(model: PreferenceGP, kind: type[Feedback]) -> Any:
    if not hasattr(model, "likelihoods"):
        return model.likelihood
    if kind.__name__ not in model.likelihoods:
        raise UnsupportedFeedbackError(
            f"The model has no likelihood for {kind.__name__}; build it with "
            f"likelihood={{{kind.__name__}: ...}}."
        )
    return model.likelihoods[kind.__name__]


def _unknown(likelihood: Likelihood, answer: str) -> UnsupportedFeedbackError:
    return UnsupportedFeedbackError(
        f"The probability of a {answer} under {type(likelihood).__name__} is not "
        "known; use PairwiseProbitLikelihood or PlackettLuceLikelihood."
    )
