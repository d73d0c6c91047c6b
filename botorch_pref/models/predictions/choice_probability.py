"""The probability that each item of a set is chosen as its best."""

from __future__ import annotations

from typing import Any, cast

import torch
from botorch.posteriors.torch import TorchPosterior
from botorch.sampling.get_sampler import get_sampler
from torch import Tensor

from botorch_pref.errors import UnsupportedFeedbackError
from botorch_pref.feedback import Choices, Feedback, Rankings
from botorch_pref.likelihoods.preference_likelihood import PreferenceLikelihood
from botorch_pref.models.preference_gp import PreferenceGP
from botorch_pref.models.regression.plackett_luce_regression import (
    PlackettLuceRegression,
)
from botorch_pref.numerics.argument_ranges import check_count, checked_arguments

_KINDS: tuple[type[Feedback], ...] = (Choices, Rankings)


@checked_arguments
def choice_probability(
    model: PreferenceGP | PlackettLuceRegression,
    X: Tensor,
    num_samples: int = 512,
    seed: int = 0,
) -> Tensor:
    """P(a person chooses each of the points of a set as the best of it).

    The likelihood's own probabilities given utilities, averaged over quasi-random
    draws of the joint posterior: differentiable in ``X``, and probabilities of a set
    sum to one. The error is below ``0.5 / sqrt(num_samples)``.

    Args:
        model: Has a likelihood of choices or rankings.
        X: ``batch_shape x k x d``, a set of k points each.
        num_samples: How many draws.
        seed: Of the draws.

    Returns:
        ``batch_shape x k``.

    Raises:
        FeedbackError: The number of draws is none.
        UnsupportedFeedbackError: The model has no likelihood of sets.
    """
    check_count("num_samples", num_samples, at_least=1)
    likelihood = _set_likelihood(model)
    posterior = cast("TorchPosterior", model.posterior(X))
    sampler = get_sampler(posterior, torch.Size([num_samples]), seed=seed)
    utilities = sampler(posterior).squeeze(-1)
    return likelihood.log_choice_probability(utilities).exp().mean(0)


def _set_likelihood(
    model: PreferenceGP | PlackettLuceRegression,
) -> PreferenceLikelihood[Any]:
    if isinstance(model, PlackettLuceRegression):
        return model.likelihood
    for kind in _KINDS:
        if kind.__name__ in model.likelihoods:
            return model.likelihood_of(kind)
    raise UnsupportedFeedbackError(
        "The model has no likelihood of choices or rankings; build it with "
        "likelihood={Choices: PairwiseProbitLikelihood()} or another of sets."
    )
