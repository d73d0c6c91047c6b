"""What every model of utilities predicts, in BoTorch's words."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from copy import deepcopy
from typing import Any, Self, TypeGuard, cast

import torch
from botorch.acquisition.objective import (
    PosteriorTransform,
    ScalarizedPosteriorTransform,
)
from botorch.exceptions.errors import UnsupportedError
from botorch.models.model import Model
from botorch.posteriors.posterior import Posterior
from torch import Tensor

from botorch_pref.models.prediction import Moments, contrast


class UtilityPrediction(Model):
    """Posteriors of utilities and of their differences, from their moments."""

    @abstractmethod
    def _moments(self, X: Tensor) -> Moments:
        """The moments of utilities at untransformed points; ends train mode."""

    @abstractmethod
    def _make_posterior(self, moments: Moments) -> Posterior:
        """The engine's posterior class of some moments."""

    def posterior(
        self,
        X: Tensor,
        output_indices: list[int] | None = None,
        observation_noise: bool | Tensor = False,
        posterior_transform: PosteriorTransform | None = None,
    ) -> Posterior:
        """The joint posterior of utilities.

        Args:
            X: ``batch_shape x q x d``; leading dimensions broadcast against
                the model's.
            output_indices: None or ``[0]``.
            observation_noise: Whether to add the noise with which the likelihood hears
                each presented item; or variances to add, ``batch_shape x q x 1``.
            posterior_transform: Applied to the posterior. Scaling by a
                ``ScalarizedPosteriorTransform`` gives a posterior of the same kind.

        Returns:
            A posterior over ``batch_shape x q x 1``.
        """
        if output_indices not in (None, [0]):
            raise UnsupportedError(
                f"output_indices={output_indices}, but the utility is one output."
            )
        moments = self._moments(X)
        if observation_noise is not False:
            likelihood = cast("Any", self).likelihood
            noise = (
                likelihood.observation_variance.unsqueeze(-1)
                if observation_noise is True
                else observation_noise.squeeze(-1)
            )
            # An input transform may turn one point into several.
            num_points = moments.means.shape[-1]
            diagonal = torch.diag_embed(noise.expand(*noise.shape[:-1], num_points))
            moments = Moments(
                moments.means, moments.covariance + diagonal.to(moments.means)
            )
        return transformed_posterior(
            self._make_posterior, moments, posterior_transform, X
        )

    def duel_posterior(self, X: Tensor, X_ref: Tensor) -> Posterior:
        """The joint posterior of differences ``f(X) - f(X_ref)``.

        Args:
            X: ``batch_shape x q x d``.
            X_ref: ``batch_shape x 1 x d``, one reference for all, or
                ``batch_shape x q x d``, one each.

        Returns:
            A posterior over ``batch_shape x q x 1``.
        """
        batch = torch.broadcast_shapes(X.shape[:-2], X_ref.shape[:-2])
        both = torch.cat(
            [X.expand(*batch, -1, -1), X_ref.expand(*batch, -1, -1)], dim=-2
        )
        return self._make_posterior(contrast(self._moments(both), X.shape[-2]))

    def subset_output(self, idcs: list[int]) -> Self:
        """The model itself: it has one output.

        Args:
            idcs: ``[0]``.
        """
        if list(idcs) != [0]:
            raise UnsupportedError(f"idcs={idcs}, but there is one output.")
        return deepcopy(self)


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
    means = weight * moments.means + transform.offset
    return Moments(means, weight**2 * moments.covariance)
