"""The log probability of held-out answers of any kind under a fitted model."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

import torch
from botorch.posteriors.torch import TorchPosterior
from botorch.sampling.get_sampler import get_sampler
from botorch.utils.transforms import is_ensemble
from torch import Tensor

from botorch_pref.errors import FeedbackError, UnsupportedFeedbackError
from botorch_pref.feedback import Choices, Feedback, OrdinalRatings, Rankings
from botorch_pref.likelihoods import PreferenceLikelihood
from botorch_pref.likelihoods.factors.factors import ScalarFactors
from botorch_pref.linalg.sparse_design import SparseDesign
from botorch_pref.models import PreferenceGP
from botorch_pref.posteriors.difference import shared_covariance_mixture

NUM_DRAWS = 128
"""Quasi-random draws of the utilities of each set."""

_SETS_AT_ONCE = 64
_SEED = 0


def predictive_log_probability(
    feedback: Feedback, model: PreferenceGP, datapoints: Tensor
) -> Tensor:
    """Log probability of each answer by itself under a fitted model.

    A density for ratings and strengths. Answers that see one number each (all but
    choices and rankings) are exact under the posterior: the log partitions of the
    likelihood's factors, in closed form or by quadrature. Choices and rankings average
    the likelihood's own probabilities over `NUM_DRAWS` quasi-random draws of the
    utilities of the set, with a fixed seed. Of an ensemble, the probability is the mean
    of its members'.

    Args:
        feedback: `m` answers that the model has not seen.
        model: Has a likelihood of such answers.
        datapoints: `n x d`, what the indices of the answers point into.

    Returns:
        `m` log probabilities; of comparisons those of pairs, then of ties. Each is of
        one answer, however often it was given: weigh them by
        `feedback.answer_counts`.

    Raises:
        FeedbackError: An answer about a point that there is not.
        UnsupportedFeedbackError: If the model has no likelihood of such answers, or one
            that says nothing of them.
    """
    each = member_log_probability(feedback, model, datapoints)
    if not is_ensemble(model):
        return each
    return each.logsumexp(-1) - math.log(each.shape[-1])


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

    Raises:
        FeedbackError: As `predictive_log_probability`.
        UnsupportedFeedbackError: As `predictive_log_probability`.
    """
    if not isinstance(feedback, Feedback):
        raise UnsupportedFeedbackError(
            f"The probability of held-out {type(feedback).__name__} is not known; give "
            "a container of answers, such as Comparisons."
        )
    feedback.check_indices(datapoints.shape[-2])
    likelihood = _likelihood_of(model, type(feedback))
    if isinstance(feedback, Choices):
        first_chosen = _first_of(likelihood.log_choice_probability)
        return _of_sets(feedback.stages(), first_chosen, model, datapoints)
    if isinstance(feedback, Rankings):
        in_order = likelihood.log_order_probability
        return _of_sets(feedback.orders, in_order, model, datapoints)
    return _of_rows(feedback, likelihood, model, datapoints)


def level_probabilities(model: PreferenceGP, X: Tensor) -> Tensor:
    """Probabilities of the levels that points will be given.

    Args:
        model: Has a likelihood of ordinal ratings.
        X: `m x d`.

    Returns:
        `m x K`, exact under the posterior; `m x S x K` for an ensemble.
    """
    likelihood: Any = _likelihood_of(model, OrdinalRatings)
    means, covariance = shared_covariance_mixture(model.posterior(X.unsqueeze(-2)))
    levels = likelihood.level_probabilities(means[..., 0], covariance[..., 0, 0])
    return levels.mean(0)


def _of_rows(
    feedback: Feedback,
    likelihood: PreferenceLikelihood[Any],
    model: PreferenceGP,
    datapoints: Tensor,
) -> Tensor:
    """The log partitions of rows, each an answer, under the posterior's mixture."""
    try:
        factors = likelihood.factors(feedback, datapoints.shape[-2])
    except FeedbackError as error:
        raise UnsupportedFeedbackError(
            f"The model's {type(likelihood).__name__} does not explain the held-out "
            f"{type(feedback).__name__}: {error}"
        ) from error
    if not isinstance(factors, ScalarFactors) or factors.noise is not None:
        raise UnsupportedFeedbackError(
            f"The factors that {type(likelihood).__name__} makes of "
            f"{type(feedback).__name__} are not one for each answer; the probability "
            "of held-out answers needs ScalarFactors without shared noise."
        )
    means, variance = _row_moments(factors.rows, model, datapoints)
    # Members of an ensemble are batches of the likelihood's parameters, before rows.
    last = means.movedim(1, -1), variance.movedim(0, -1)
    each = factors.log_partition(*last).value.movedim(-1, 1)
    return each.logsumexp(0) - math.log(len(each))


def _row_moments(
    rows: SparseDesign, model: PreferenceGP, datapoints: Tensor
) -> tuple[Tensor, Tensor]:
    """Means and variances of the mixture of each row's latent.

    Means are `s x m` and variances `m`; `s x m x S` and `m x S` for an ensemble.
    """
    posterior = model.posterior(datapoints[rows.indices])
    means, covariance = shared_covariance_mixture(posterior)
    c = rows.coefficients
    c = c.reshape(len(c), *[1] * (means.dim() - 3), c.shape[-1])
    variance = (c.unsqueeze(-1) * covariance * c.unsqueeze(-2)).sum((-2, -1))
    # Of a point and itself the difference is known, but for rounding.
    variance = variance.clamp_min(torch.finfo(variance.dtype).tiny)
    return (c * means).sum(-1), variance


def _first_of(
    log_choice_probability: Callable[[Tensor], Tensor],
) -> Callable[[Tensor], Tensor]:
    return lambda utilities: log_choice_probability(utilities)[..., 0]


def _of_sets(
    sets: Tensor,
    log_probability: Callable[[Tensor], Tensor],
    model: PreferenceGP,
    datapoints: Tensor,
) -> Tensor:
    """Averages over draws; sets of one size at once, in portions for memory."""
    sizes = (sets >= 0).sum(-1)
    done, order = [], []
    for size in sizes.unique().tolist():
        for rows in (sizes == size).nonzero()[:, 0].split(_SETS_AT_ONCE):
            posterior = model.posterior(datapoints[sets[rows, :size]])
            sampler = get_sampler(
                cast("TorchPosterior", posterior), torch.Size([NUM_DRAWS]), seed=_SEED
            )
            each = log_probability(sampler(posterior).squeeze(-1))
            done.append(each.logsumexp(0) - math.log(NUM_DRAWS))
            order.append(rows)
    return torch.cat(done)[torch.cat(order).argsort()]


def _likelihood_of(
    model: PreferenceGP, kind: type[Feedback]
) -> PreferenceLikelihood[Any]:
    if not hasattr(model, "likelihoods"):
        return model.likelihood
    if kind.__name__ not in model.likelihoods:
        raise UnsupportedFeedbackError(
            f"The model has no likelihood for {kind.__name__}; build it with "
            f"likelihood={{{kind.__name__}: ...}}."
        )
    return cast("PreferenceLikelihood[Any]", model.likelihoods[kind.__name__])
