"""The Gaussian process of utilities behind every engine."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from botorch.exceptions.warnings import InputDataWarning, _get_single_precision_warning
from botorch.models.transforms.input import InputTransform
from botorch.utils.probability.utils import ndtr
from gpytorch.distributions import MultivariateNormal
from gpytorch.kernels import Kernel
from gpytorch.means import Mean
from gpytorch.models import GP
from linear_operator import to_linear_operator
from torch import Tensor
from torch.nn import ModuleDict

from botorch_pref.errors import (
    FeedbackError,
)
from botorch_pref.feedback import Comparisons, Feedback
from botorch_pref.likelihoods.resolve import (
    DEFAULT_LIKELIHOODS,
    AnyLikelihood,
    LikelihoodArgument,
    resolve_likelihoods,
)
from botorch_pref.models.data.training_arguments import check_training_inputs
from botorch_pref.models.data.training_set import TrainingSet, collect_feedback
from botorch_pref.models.default_prior import default_covar_module, default_mean_module
from botorch_pref.models.fantasies_mixin import FantasiesMixin
from botorch_pref.models.inference_mixin import InferenceMixin
from botorch_pref.models.prediction import Moments, contrast, predict
from botorch_pref.models.supported_feedback import check_supported
from botorch_pref.models.utility_prediction import UtilityPrediction


class PreferenceGP(  # type: ignore[misc]
    UtilityPrediction, InferenceMixin, GP, FantasiesMixin
):
    r"""Utilities ``f ~ GP(m, k)`` seen through what people say of them.

    Subclasses name an engine. Everything else, from validation to prediction, is the
    same for all: see ``docs/models.md``.

    Args:
        datapoints: ``batch_shape x n x d``; None for a model of the prior alone.
        comparisons: ``batch_shape x m x 2`` integers into ``datapoints``, winner first.
        feedback: Other answers, at most one container of a kind.
        likelihood: A likelihood instead of the default of its kind of feedback, or a
            mapping from kinds to likelihoods.
        mean_module: The prior mean. Default: zero where only differences are seen, a
            learned constant where some answer is absolute.
        covar_module: The kernel. Default: a scaled RBF-ARD kernel with BoTorch's
            dimension-scaled lengthscale prior.
        input_transform: Applied to all inputs, as everywhere in BoTorch.

    Warns:
        InputDataWarning: Of datapoints in single precision, as all of BoTorch's models.

    Raises:
        FeedbackError: Data that cannot mean anything.
        UnsupportedFeedbackError: Data or a likelihood that the engine does not take.
    """

    default_likelihoods: ClassVar[Mapping[type[Feedback], type[AnyLikelihood]]] = (
        DEFAULT_LIKELIHOODS
    )
    """The likelihood of each kind of answer where the user names none."""

    def __init__(
        self,
        datapoints: Tensor | None = None,
        comparisons: Tensor | Comparisons | None = None,
        *,
        feedback: Sequence[Feedback] = (),
        likelihood: LikelihoodArgument = None,
        mean_module: Mean | None = None,
        covar_module: Kernel | None = None,
        input_transform: InputTransform | None = None,
    ) -> None:
        super().__init__()
        blocks = collect_feedback(comparisons, feedback)
        if datapoints is None and blocks:
            raise FeedbackError("There is feedback but there are no datapoints.")
        chosen = resolve_likelihoods(blocks, likelihood, self.default_likelihoods)
        check_supported(type(self), chosen, engines())
        self.likelihoods = ModuleDict({k.__name__: v for k, v in chosen.items()})
        if datapoints is not None:
            self._set_data(TrainingSet(datapoints, blocks))
            if datapoints.dtype == torch.float32:
                text = _get_single_precision_warning(str(datapoints.dtype))
                warnings.warn(text, InputDataWarning, stacklevel=2)
        features = self.dim
        if input_transform is not None:
            self.input_transform = input_transform
        if datapoints is not None:
            self.to(datapoints)
            with torch.no_grad():
                # A transform that learns from the data does so in train mode only.
                features = self.transform_inputs(datapoints).shape[-1]
        batch = self.batch_shape
        self.mean_module = mean_module or default_mean_module(blocks, batch)
        self.covar_module = covar_module or default_covar_module(features, batch)
        if datapoints is not None:
            self.to(datapoints)
        if blocks:
            self._factors()

    def forward(self, *inputs: Tensor) -> MultivariateNormal:
        """The prior at the training inputs in train mode, else the posterior.

        Args:
            inputs: One tensor, ``batch_shape x q x d``; the training inputs in train
                mode.

        Raises:
            FeedbackError: In train mode, other points than the training inputs.
        """
        if self.training:
            points = check_training_inputs(inputs, self.train_inputs)
            return self._prior(self.transform_inputs(points))
        (x,) = inputs
        posterior: Any = self._make_posterior(self._moments(x))
        covariance = to_linear_operator(posterior.covariance_matrix)
        return MultivariateNormal(posterior.mean.squeeze(-1), covariance)

    def _moments(self, X: Tensor) -> Moments:
        self.eval()
        X = self.transform_inputs(X)
        return predict(self.mean_module, self.covar_module, self._posterior_terms(), X)

    def duel_probability(
        self, X1: Tensor, X2: Tensor, observation_noise: bool = False
    ) -> Tensor:
        r"""P(X1 beats X2).

        Args:
            X1: ``batch_shape x q x d``.
            X2: ``batch_shape x q x d`` or ``batch_shape x 1 x d``.
            observation_noise: Whether of an answer as the likelihood gives it (with the
                tie threshold, if there is one), or of the utilities themselves.

        Returns:
            ``batch_shape x q``.
        """
        pairs = torch.stack(torch.broadcast_tensors(X1, X2), dim=-2)
        # Room for batches of the model, for which the pairs would be taken below.
        pairs = pairs.reshape(
            (1,) * (len(self.batch_shape) + 3 - pairs.dim()) + pairs.shape
        )
        # Each pair is a batch element of its own: covariances of pairs are not needed.
        pairs = pairs.movedim(-3, 0)
        moments = contrast(self._moments(pairs), 1)
        means, variance = moments.means.squeeze(-1), moments.covariance[..., 0, 0]
        if observation_noise:
            likelihood = self._likelihood_of(Comparisons)
            win = likelihood.win_probability(means, variance)
        else:
            # Of equal points variance and mean are zero, and the probability a half.
            tiny = torch.finfo(variance.dtype).tiny
            win = ndtr(means / variance.clamp_min(tiny).sqrt())
        return win.mean(0).movedim(0, -1)


def engines(base: type[PreferenceGP] | None = None) -> list[type[PreferenceGP]]:
    """All classes of models with an engine of their own, by name.

    Args:
        base: Those below it; by default all.
    """
    below = (base or PreferenceGP).__subclasses__()
    found = [cls for cls in below if hasattr(cls, "takes") and not cls._is_ensemble]
    found += [leaf for cls in below for leaf in engines(cls)]
    return sorted(found, key=lambda cls: cls.__name__)
