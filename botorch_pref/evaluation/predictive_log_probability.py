"""Log probabilities of held-out answers of any kind under a fitted model."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import singledispatch
from typing import Any, cast

import torch
from botorch.posteriors.torch import TorchPosterior
from botorch.sampling.get_sampler import get_sampler
from botorch.utils.transforms import is_ensemble
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
    Validity,
)
from botorch_pref.likelihoods import (
    AffineProbitLikelihood,
    PairwiseProbitLikelihood,
    PlackettLuceLikelihood,
)
from botorch_pref.likelihoods.links.duel_link import ProbitLink
from botorch_pref.models import PreferenceGP
from botorch_pref.numerics.thurstone_ranking import thurstone_ranking_log_probability
from botorch_pref.posteriors.skew_normal_posterior import SkewNormalPosterior

NUM_DRAWS = 128
"""Quasi-random draws of the utilities of each set."""

_SETS_AT_ONCE = 64
_SEED = 0


def predictive_log_probability(
    feedback: Feedback, model: PreferenceGP, datapoints: Tensor
) -> Tensor:
    """Log probability of each answer by itself, given what the model was fitted to.

    A density for ratings and strengths. Comparisons (pairs, then ties), validity,
    levels, ratings and strengths are exact under the posterior (mixtures of Gaussians
    in closed form, or by quadrature where the likelihood is Beta). Choices and rankings
    average the likelihood's own probabilities over `NUM_DRAWS` quasi-random draws of
    the utilities of the set, with a fixed seed. Of an ensemble, the probability is the
    mean of its members'.

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
    each = member_log_probability(feedback, model, datapoints)
    if not is_ensemble(model):
        return each
    return each.logsumexp(-1) - math.log(each.shape[-1])


@singledispatch
def member_log_probability(
    feedback: Feedback, model: PreferenceGP, datapoints: Tensor
) -> Tensor:
    """Log probability of each answer under each member of an ensemble.

    Args:
        feedback: `m` answers that the model has not seen.
        model: Has a likelihood of such answers.
        datapoints: `n x d`, what the indices of the answers point into.

    Returns:
        `m x S` for an ensemble of `S` models, `m` for one model.
    """
    kinds = set(member_log_probability.registry) - {object}
    known = ", ".join(sorted(kind.__name__ for kind in kinds))
    raise UnsupportedFeedbackError(
        f"The probability of held-out {type(feedback).__name__} is not known, only of "
        f"{known}; register a rule with member_log_probability.register."
    )


@member_log_probability.register
def _(feedback: Comparisons, model: PreferenceGP, datapoints: Tensor) -> Tensor:
    likelihood = _likelihood(model, feedback)
    parts = []
    if feedback.pairs is not None:
        moments = _of_duels(model, datapoints[feedback.pairs])
        parts.append(likelihood.win_probability(*moments).mean(0))
    if feedback.ties is not None:
        threshold = torch.as_tensor(getattr(likelihood, "tie_threshold", 0.0))
        if not bool((threshold > 0).all()):
            raise UnsupportedFeedbackError(
                "The model takes no ties to be possible; fit it to answers with ties, "
                "or score the pairs alone."
            )
        moments = _of_duels(model, datapoints[feedback.ties])
        parts.append(likelihood.tie_probability(*moments).mean(0))
    return torch.cat(parts).log()


@member_log_probability.register
def _(feedback: Validity, model: PreferenceGP, datapoints: Tensor) -> Tensor:
    likelihood = _likelihood(model, feedback)
    if not isinstance(likelihood, AffineProbitLikelihood):
        raise _unknown(likelihood, "valid trial", "AffineProbitLikelihood")
    posterior = model.posterior(datapoints[feedback.indices].unsqueeze(-2))
    means, variance = _components(posterior)
    sign = torch.where(feedback.valid, 1.0, -1.0).to(means)
    sign = sign.reshape(-1, *[1] * (variance.dim() - 1))
    # A duel is heard with two noises, a trial with one.
    link = ProbitLink(likelihood.noise / 2)
    each = link.log_win_probability(sign * means, variance)
    return each.logsumexp(0) - math.log(len(each))


@member_log_probability.register
def _(feedback: OrdinalRatings, model: PreferenceGP, datapoints: Tensor) -> Tensor:
    levels = level_probabilities(model, datapoints[feedback.indices])
    given = feedback.levels.reshape(-1, *[1] * (levels.dim() - 1))
    given = given.expand(*levels.shape[:-1], 1)
    return levels.gather(-1, given).squeeze(-1).log()


@member_log_probability.register
def _(feedback: Ratings, model: PreferenceGP, datapoints: Tensor) -> Tensor:
    posterior = model.posterior(datapoints[feedback.indices].unsqueeze(-2))
    return _log_density(model, feedback, feedback.ratings, _components(posterior))


@member_log_probability.register
def _(feedback: Strengths, model: PreferenceGP, datapoints: Tensor) -> Tensor:
    moments = _of_duels(model, datapoints[feedback.pairs])
    return _log_density(model, feedback, feedback.strengths, moments)


@member_log_probability.register
def _(feedback: Choices, model: PreferenceGP, datapoints: Tensor) -> Tensor:
    return _of_sets(feedback.stages(), feedback, model, datapoints, _log_first_chosen)


@member_log_probability.register
def _(feedback: Rankings, model: PreferenceGP, datapoints: Tensor) -> Tensor:
    return _of_sets(feedback.orders, feedback, model, datapoints, log_order_probability)


def level_probabilities(model: PreferenceGP, X: Tensor) -> Tensor:
    """Probabilities of the levels that points will be given.

    Args:
        model: Has a likelihood of ordinal ratings.
        X: `m x d`.

    Returns:
        `m x K`, exact under the posterior; `m x S x K` for an ensemble.
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
    raise _unknown(
        likelihood, "ranking", "PairwiseProbitLikelihood or PlackettLuceLikelihood"
    )


@log_order_probability.register
def _(likelihood: PairwiseProbitLikelihood, utilities: Tensor) -> Tensor:
    return thurstone_ranking_log_probability(utilities, likelihood.noise)


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
    done, order = [], []
    for size in sizes.unique().tolist():
        for rows in (sizes == size).nonzero()[:, 0].split(_SETS_AT_ONCE):
            posterior = model.posterior(datapoints[sets[rows, :size]])
            sampler = get_sampler(
                cast("TorchPosterior", posterior), torch.Size([NUM_DRAWS]), seed=_SEED
            )
            each = log_probability(likelihood, sampler(posterior).squeeze(-1))
            done.append(each.logsumexp(0) - math.log(NUM_DRAWS))
            order.append(rows)
    return torch.cat(done)[torch.cat(order).argsort()]


def _log_density(
    model: PreferenceGP,
    feedback: Feedback,
    answers: Tensor,
    moments: tuple[Tensor, Tensor],
) -> Tensor:
    likelihood = _likelihood(model, feedback)
    answers = answers.reshape(-1, *[1] * (moments[1].dim() - 1))
    each = likelihood.answer_log_density(answers, *moments)
    return each.logsumexp(0) - math.log(len(each))


def _of_duels(model: PreferenceGP, pairs: Tensor) -> tuple[Tensor, Tensor]:
    """Moments of the differences of `m` pairs, `m x 2 x d`; see `_components`."""
    first, second = pairs.unsqueeze(-2).unbind(-3)
    return _components(model.duel_posterior(first, second))


def _components(posterior: Any) -> tuple[Tensor, Tensor]:
    """Means and variances of a mixture at `m` batches of one point.

    Means are `s x m` and variances `m`; `1 x m x S` and `m x S` for an ensemble.
    """
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


def _unknown(
    likelihood: Likelihood, answer: str, others: str
) -> UnsupportedFeedbackError:
    return UnsupportedFeedbackError(
        f"The probability of a {answer} under {type(likelihood).__name__} is not "
        f"known; use {others}."
    )
