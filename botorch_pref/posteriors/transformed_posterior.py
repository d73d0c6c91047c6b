"""Posteriors as BoTorch's protocol noises and transforms them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeGuard, cast

import torch
from botorch.acquisition.objective import (
    PosteriorTransform,
    ScalarizedPosteriorTransform,
)
from botorch.exceptions.errors import UnsupportedError
from botorch.posteriors.posterior import Posterior
from torch import Tensor

from botorch_pref.errors import FeedbackError
from botorch_pref.posteriors.moments import Moments


def check_output_indices(output_indices: list[int] | None) -> None:
    """Checks the outputs that are asked for: there is one.

    Args:
        output_indices: None or ``[0]``.

    Raises:
        UnsupportedError: Something else.
    """
    if output_indices not in (None, [0]):
        raise UnsupportedError(
            f"output_indices={output_indices}, but the utility is one output."
        )


def with_observation_noise(
    moments: Moments, observation_noise: bool | Tensor, likelihood: Any
) -> Moments:
    """Moments of utilities as a person hears them.

    Args:
        moments: Of utilities at q points.
        observation_noise: Variances, ``batch_shape x q x 1``; True for those with which
            the likelihood hears each presented item.
        likelihood: Of the model.

    Raises:
        FeedbackError: It is neither, or a variance is negative or not finite.
    """
    if not isinstance(observation_noise, bool | Tensor):
        raise FeedbackError(
            f"observation_noise is {observation_noise!r}; give True, False, or a "
            "tensor of variances, batch_shape x q x 1."
        )
    noise = (
        likelihood.observation_variance.unsqueeze(-1)
        if observation_noise is True
        else cast("Tensor", observation_noise).squeeze(-1)
    )
    if not bool(((noise >= 0) & noise.isfinite()).all()):
        raise FeedbackError(
            "observation_noise holds variances that are negative or not finite; give "
            "variances of at least 0, batch_shape x q x 1."
        )
    # An input transform may turn one point into several.
    num_points = moments.covariance.shape[-1]
    diagonal = torch.diag_embed(noise.expand(*noise.shape[:-1], num_points))
    return moments.with_more_covariance(diagonal.to(moments.covariance))


def transformed_posterior(
    make: Callable[[Moments], Posterior],
    moments: Moments,
    transform: PosteriorTransform | None,
    X: Tensor,
) -> Posterior:
    """The posterior of some moments, as BoTorch's protocol transforms it.

    Args:
        make: The class of the posterior, or what makes it.
        moments: Of utilities.
        transform: None for the posterior itself.
        X: Where the moments are of, before any input transform.
    """
    if _scales(transform):
        return make(_scaled(moments, transform))
    posterior = make(moments)
    return posterior if transform is None else transform(posterior=posterior, X=X)


def _scales(
    transform: PosteriorTransform | None,
) -> TypeGuard[ScalarizedPosteriorTransform]:
    # Subclasses may do more; wrong numbers of weights are for BoTorch to refuse.
    if type(transform) is not ScalarizedPosteriorTransform:
        return False
    return cast("Tensor", transform.weights).numel() == 1


def _scaled(moments: Moments, transform: ScalarizedPosteriorTransform) -> Moments:
    """Moments of ``weight f + offset``, exact for every component of a mixture."""
    weight = cast("Tensor", transform.weights)[0]
    return moments.combined(lambda points: weight * points, transform.offset)
