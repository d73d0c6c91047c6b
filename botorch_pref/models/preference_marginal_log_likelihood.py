"""Objective of hyper-parameters: the log evidence and log priors."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

from gpytorch.distributions import MultivariateNormal
from gpytorch.likelihoods import Likelihood
from gpytorch.mlls import MarginalLogLikelihood
from torch import Tensor

from botorch_pref.models.data.training_arguments import (
    check_training_inputs,
    check_training_targets,
)
from botorch_pref.models.preference_gp import PreferenceGP
from botorch_pref.models.utility_model import UtilityModel
from botorch_pref.numerics.argument_ranges import checked_arguments


class PreferenceMarginalLogLikelihood(MarginalLogLikelihood):
    r"""The log evidence of all answers plus the log priors of hyper-parameters.

    .. math:: \log p(\mathcal{Y} \mid \theta) + \sum_j \log p(\theta_j),

    the regularised evidence of Jensen and Nielsen (2014), section 5. One class for
    every model; use it with ``fit_gpytorch_mll``.

    Args:
        likelihood: ``model.likelihood``, as GPyTorch asks for.
        model: The model.
    """

    model: PreferenceGP

    @checked_arguments
    def __init__(self, likelihood: Likelihood, model: UtilityModel) -> None:
        super().__init__(likelihood, model)

    def forward(
        self, function_dist: MultivariateNormal, target: Tensor | None, **kwargs: Any
    ) -> Tensor:
        """The objective at the present hyper-parameters.

        Args:
            function_dist: The prior at the training inputs; the evidence evaluates the
                prior itself, at distinct points.
            target: The comparisons, ``model.train_targets``: the model knows all
                answers itself.
            kwargs: Ignored.

        Returns:
            ``batch_shape``.

        Raises:
            FeedbackError: Other comparisons than the model's.
        """
        check_training_targets(target, self.model.train_targets)
        return -self.compute_custom_loss()

    def compute_custom_loss(self, **kwargs: Any) -> Tensor:
        """The loss that ``fit_gpytorch_mll`` minimises: minus the objective.

        A hook of BoTorch's: without it, each evaluation would make a prior at all
        datapoints that the evidence does not use.

        Args:
            kwargs: Ignored.

        Returns:
            ``batch_shape``.

        Raises:
            FeedbackError: The model has no datapoints.
        """
        check_training_inputs(self.model.train_inputs, self.model.train_inputs)
        objective = self.model.log_evidence()
        priors = cast("Callable[[], Iterable[Any]]", self.model.named_priors)
        for _, module, prior, closure, _ in priors():
            log_prior = prior.log_prob(closure(module))
            batch_shape = getattr(module, "batch_shape", log_prior.shape)
            own = log_prior.reshape(*log_prior.shape[: len(batch_shape)], -1)
            objective = objective + own.sum(-1)
        return -objective
