"""The base of utilities that another model implies."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.exceptions.errors import UnsupportedError
from botorch.models.model import Model
from botorch.posteriors.posterior import Posterior
from botorch.utils.transforms import is_ensemble
from torch import Tensor

from botorch_pref.posteriors import Moments
from botorch_pref.posteriors.gaussian import check_output_indices, transformed_posterior


class DerivedModel(Model):
    """A utility that another model implies: it is predicted, and gives no answers."""

    @property
    @abstractmethod
    def _source(self) -> Model:
        """The other model."""

    @abstractmethod
    def moments(self, X: Tensor) -> Moments:
        """Computes moments of utilities at untransformed ``X``, ``... x q x d``."""

    @abstractmethod
    def make_posterior(self, moments: Moments) -> Posterior:
        """Makes a posterior of moments of utilities or their linear combinations."""

    def of_own_points(self, marks: Tensor) -> Tensor:
        """Translates booleans of the other model's points to those of this model's.

        For instance which points somebody was shown, ``batch_shape x n``. Both models
        have the same points, unless a subclass says how they differ.
        """
        return marks

    @property
    def likelihood(self) -> Any:
        """Likelihood of the other model."""
        return self._source.likelihood

    @property
    def num_outputs(self) -> int:
        """One, the utility."""
        return 1

    @property
    def batch_shape(self) -> torch.Size:
        """Batch shape of the other model."""
        return self._source.batch_shape

    @property
    def _is_ensemble(self) -> bool:  # type: ignore[override]
        """Whether the other model is one, as BoTorch's ``is_ensemble`` asks."""
        return is_ensemble(self._source)

    def posterior(
        self,
        X: Tensor,
        output_indices: list[int] | None = None,
        observation_noise: bool | Tensor = False,
        posterior_transform: PosteriorTransform | None = None,
    ) -> Posterior:
        """Computes the joint posterior of utilities, see `UtilityModel.posterior`.

        ``observation_noise`` is an error: there are no answers that it could be in.
        """
        check_output_indices(output_indices)
        if observation_noise is not False:
            raise UnsupportedError(
                f"observation_noise={observation_noise}: a {type(self).__name__} gives "
                "no answers."
            )
        return transformed_posterior(
            self.make_posterior, self.moments(X), posterior_transform, X
        )
