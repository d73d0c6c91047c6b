"""Preference models that average over their hyper-parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from importlib.util import find_spec
from typing import Any, Self

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.models.transforms.input import InputTransform
from botorch.posteriors.fully_bayesian import MCMC_DIM, GaussianMixturePosterior
from gpytorch.distributions import MultivariateNormal
from gpytorch.kernels import Kernel
from gpytorch.means import ConstantMean, Mean
from gpytorch.priors import NormalPrior
from torch import Tensor
from torch.nn import Module

from botorch_pref.errors import BotorchPrefError
from botorch_pref.feedback import Comparisons, Feedback
from botorch_pref.inference.ep.expectation_propagation import ExpectationPropagation
from botorch_pref.inference.laplace import Laplace
from botorch_pref.inference.solution_cache import SolutionCache
from botorch_pref.likelihoods.resolve import LikelihoodArgument
from botorch_pref.linalg.semidefinite_operator import SemidefiniteLinearOperator
from botorch_pref.models.fully_bayesian.hyperparameter_density import (
    HyperparameterDensity,
)
from botorch_pref.models.fully_bayesian.nuts_model import NutsModel
from botorch_pref.models.preference_gp import PreferenceGP
from botorch_pref.models.registry import register_model
from botorch_pref.posteriors.moments import Moments

# About the deviation of utilities under the prior mean of the output scale.
_MEAN_PRIOR_DEVIATION = 4.0

_HYPERPARAMETER_MODULES = ("mean_module", "covar_module", "likelihoods")


class FullyBayesianPreferenceGP(PreferenceGP):
    r"""A batch of models, one for each of some draws of the hyper-parameters.

    .. math:: p(f \mid \mathcal{Y}) = \int p(f \mid \mathcal{Y}, \theta) \,
        p(\theta \mid \mathcal{Y}) \, d\theta
        \approx \frac{1}{S} \sum_s p(f \mid \mathcal{Y}, \theta_s)

    with :math:`\theta_s` drawn by BoTorch's ``fit_fully_bayesian_model_nuts`` from the
    engine's evidence times the registered priors. As in BoTorch's fully Bayesian models
    the ``S`` models are a batch in dimension -3, posteriors are Gaussian mixtures, and
    acquisition functions average over them.

    Every learned parameter needs a prior. Kernels have one by default, and so has the
    mean constant and the precision of strengths and ratings here; give
    ``tie_threshold_prior=`` or ``cutpoints_prior=`` to the likelihoods that learn
    these.

    Args:
        datapoints: ``n x d``; None for a model of the prior alone.
        comparisons: ``m x 2`` integers into ``datapoints``, winner first.
        feedback: Other answers, at most one container of a kind.
        likelihood: See :class:`PreferenceGP`.
        mean_module: See :class:`PreferenceGP`.
        covar_module: See :class:`PreferenceGP`.
        input_transform: See :class:`PreferenceGP`.

    Raises:
        ImportError: JAX or NumPyro is missing.
    """

    _is_fully_bayesian = True
    _is_ensemble = True

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
        _check_samplers_are_installed()
        self._num_samples: int | None = None
        self._modules_of_one: dict[str, Module] = {}
        super().__init__(
            datapoints,
            comparisons,
            feedback=feedback,
            likelihood=likelihood,
            mean_module=mean_module,
            covar_module=covar_module,
            input_transform=input_transform,
        )
        if mean_module is None and isinstance(self.mean_module, ConstantMean):
            prior = NormalPrior(0.0, _MEAN_PRIOR_DEVIATION).to(
                self.mean_module.constant
            )
            self.mean_module.register_prior(
                "mean_prior", prior, _constant, _set_constant
            )

    @property
    def num_mcmc_samples(self) -> int:
        """``S``, the number of draws of the hyper-parameters.

        Raises:
            BotorchPrefError: They have not been drawn yet.
        """
        return self._check_if_fitted()

    @property
    def batch_shape(self) -> torch.Size:
        """``S``, behind the batch shape of the training data if there is one."""
        data = super().batch_shape
        if self._num_samples is None:
            return data
        return torch.broadcast_shapes(data, (self._num_samples,))

    @property
    def pyro_model(self) -> NutsModel:
        """Density that ``fit_fully_bayesian_model_nuts`` samples."""
        one = deepcopy(self)
        one._use_one()
        return NutsModel(HyperparameterDensity(one))

    def load_mcmc_samples(self, mcmc_samples: Mapping[str, Tensor]) -> None:
        """Makes this a batch of models.

        Args:
            mcmc_samples: Parameters by their names, ``S x`` the shape of each.
        """
        self._use_one()
        self._modules_of_one = {
            name: deepcopy(getattr(self, name)) for name in _HYPERPARAMETER_MODULES
        }
        count = len(next(iter(mcmc_samples.values())))
        for module in self.modules():
            if isinstance(module, Kernel | Mean):
                module.batch_shape = torch.Size([count]) + module.batch_shape
        for name, value in mcmc_samples.items():
            self.get_parameter(name).data = value.detach().clone()
        self._num_samples = count

    def _use_one(self) -> None:
        """Goes back to one model with the parameters it had before sampling."""
        for name, module in self._modules_of_one.items():
            setattr(self, name, module)
        self._modules_of_one = {}
        self._num_samples = None
        self._cache = SolutionCache()

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> Any:
        """See base class; as many draws of hyper-parameters as there are in it."""
        one = deepcopy(self)
        one._use_one()
        samples = {
            name: state_dict[name]
            for name, parameter in one.named_parameters()
            if name in state_dict and state_dict[name].dim() > parameter.dim()
        }
        if samples:
            self.load_mcmc_samples(samples)
        else:
            self._use_one()
        return super().load_state_dict(state_dict, strict, assign)

    def posterior(  # type: ignore[override]
        self,
        X: Tensor,
        output_indices: list[int] | None = None,
        observation_noise: bool | Tensor = False,
        posterior_transform: PosteriorTransform | None = None,
    ) -> GaussianMixturePosterior:
        """The joint posterior of utilities.

        Args:
            X: ``batch_shape x q x d``.
            output_indices: None or ``[0]``.
            observation_noise: Whether to add the noise with which the likelihood hears
                each presented item; or variances to add, ``batch_shape x q x 1``.
            posterior_transform: Applied to the posterior.

        Returns:
            A mixture of Gaussians over ``batch_shape x S x q x 1``.
        """
        if isinstance(observation_noise, Tensor):
            observation_noise = observation_noise.unsqueeze(MCMC_DIM)
        posterior: Any = super().posterior(
            X, output_indices, observation_noise, posterior_transform
        )
        return GaussianMixturePosterior(posterior.distribution)

    def duel_probability(
        self, X1: Tensor, X2: Tensor, observation_noise: bool = False
    ) -> Tensor:
        """P(X1 beats X2), averaged over the draws of hyper-parameters.

        Args:
            X1: ``batch_shape x q x d``.
            X2: ``batch_shape x q x d`` or ``batch_shape x 1 x d``.
            observation_noise: See base class.

        Returns:
            ``batch_shape x q``.
        """
        return super().duel_probability(X1, X2, observation_noise).mean(-2)

    def condition_on_observations(
        self, X: Tensor, Y: Tensor | Feedback | Sequence[Feedback], **kwargs: Any
    ) -> Self:
        """A copy of the models with more points and more answers about them.

        Args:
            X: ``n' x d`` or ``batch_shape x n' x d``, where the batch shape ends in
                ``S`` or 1; or, as in ``fantasize``, without that dimension where ``Y``
                has it.
            Y: ``m' x 2`` or ``batch_shape x m' x 2`` integers into ``X``, winner first;
                or containers of answers, as in the base class.
            kwargs: Ignored, as BoTorch's protocol asks for.

        Returns:
            The new models, with the same hyper-parameters.
        """
        if isinstance(Y, Tensor) and X.dim() < Y.dim():
            X = X.unsqueeze(MCMC_DIM)
        return super().condition_on_observations(X, Y, **kwargs)

    def _check_if_fitted(self) -> int:
        if self._num_samples is None:
            raise BotorchPrefError(
                f"The hyper-parameters of this {type(self).__name__} have not been "
                "sampled yet; call botorch.fit.fit_fully_bayesian_model_nuts(model)."
            )
        return self._num_samples

    def moments(self, X: Tensor) -> Moments:
        """See base class; at points that all members share."""
        self._check_if_fitted()
        X = self.check_points("X", X)
        return super().moments(X.unsqueeze(MCMC_DIM))

    def prior_variance(self, X: Tensor) -> Tensor:
        """See base class; of each member."""
        return super().prior_variance(X.unsqueeze(MCMC_DIM))

    def make_posterior(self, moments: Moments) -> GaussianMixturePosterior:
        """See base class: a mixture over the members."""
        covariance = SemidefiniteLinearOperator(moments.covariance)
        return GaussianMixturePosterior(
            MultivariateNormal(moments.means[0], covariance)
        )

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        for module in self._modules_of_one.values():
            module._apply(fn, recurse)
        return super()._apply(fn, recurse)


@register_model()
class FullyBayesianEPPreferenceGP(FullyBayesianPreferenceGP):
    """:class:`EPPreferenceGP`, averaged over its hyper-parameters."""

    engine = ExpectationPropagation()


@register_model()
class FullyBayesianLaplacePreferenceGP(FullyBayesianPreferenceGP):
    """:class:`LaplacePreferenceGP`, averaged over its hyper-parameters."""

    engine = Laplace()


def _check_samplers_are_installed() -> None:
    missing = [name for name in ("jax", "numpyro") if find_spec(name) is None]
    if missing:
        raise ImportError(
            f"Fully Bayesian models need {' and '.join(missing)}, which are optional: "
            'pip install "botorch-pref[fully-bayesian]".'
        )


# At module level, so that they pickle.
def _constant(module: ConstantMean) -> Tensor:
    return module.constant


def _set_constant(module: ConstantMean, value: Tensor) -> None:
    module.initialize(constant=value)
