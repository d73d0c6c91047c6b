"""Models that average over their hyper-parameters.

BoTorch's Markov chains draw them from a `HyperparameterDensity`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from functools import wraps
from importlib.util import find_spec
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self, cast

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.posteriors.fully_bayesian import MCMC_DIM, GaussianMixturePosterior
from gpytorch.distributions import MultivariateNormal
from gpytorch.means import ConstantMean
from gpytorch.priors import NormalPrior
from torch import Tensor
from torch.nn import Module

from botorch_pref.errors import BotorchPrefError
from botorch_pref.feedback import Feedback
from botorch_pref.inference import ExpectationPropagation, Laplace
from botorch_pref.inference.engine import SolutionCache
from botorch_pref.linalg.covariance import SemidefiniteLinearOperator
from botorch_pref.models.answer_likelihoods import register_model
from botorch_pref.models.hyperparameter_density import HyperparameterDensity, make_batch
from botorch_pref.models.preference_gp import PreferenceGP
from botorch_pref.posteriors.gaussian import Moments

if TYPE_CHECKING:
    import jax


_SITE = "offset"


class _SampledDensity(HyperparameterDensity):
    """The density of hyper-parameters in the protocol of BoTorch's ``PyroModel``.

    Torch computes density and gradient, in one call from JAX's compiled sampler. A
    chain starts within 2 of the parameters of the model in each free direction.
    """

    def sample(self) -> None:
        """States the density to NumPyro, as the model that BoTorch's fit samples.

        What is sampled is the ``offset`` of the free vector from that of the model:
        chains start within 2 of 0.
        """
        import numpyro
        from numpyro.distributions import ImproperUniform, constraints

        flat = ImproperUniform(constraints.real_vector, (), (sum(self._sizes),))
        offset = numpyro.sample(_SITE, flat)
        numpyro.factor("log_density", self._in_jax()(offset))

    def postprocess_mcmc_samples(
        self, mcmc_samples: Mapping[str, Any]
    ) -> dict[str, Tensor]:
        """Translates NumPyro's samples of offsets to parameters of the model by name.

        The first dimension of each counts samples.
        """
        free = self._free(mcmc_samples[_SITE])
        return {name: t.detach() for name, t in self.parameters_of(free).items()}

    def _free(self, offset: Any) -> Tensor:
        start = self.start
        return start + torch.tensor(offset.tolist(), dtype=start.dtype).to(start.device)

    def _in_jax(self) -> Any:
        """Makes the density a function that JAX differentiates, evaluated by torch."""
        import jax

        def evaluate(offset: jax.Array) -> tuple[jax.Array, jax.Array]:
            """Computes the value, and the gradient, which JAX hands to ``backward``."""
            shapes = (
                jax.ShapeDtypeStruct((), offset.dtype),
                jax.ShapeDtypeStruct(offset.shape, offset.dtype),
            )
            return jax.pure_callback(self._value_and_gradient, shapes, offset)

        @jax.custom_vjp
        def log_density(offset: jax.Array) -> jax.Array:
            return evaluate(offset)[0]

        def backward(gradient: jax.Array, cotangent: jax.Array) -> tuple[jax.Array]:
            return (cotangent * gradient,)

        log_density.defvjp(evaluate, backward)
        return log_density

    def _value_and_gradient(self, offset: Any) -> tuple[Any, Any]:
        """Evaluates the density for JAX, in its precision."""
        # By default JAX computes in single precision: far ends may become infinite,
        # which is as good as a density of zero.
        dtype = getattr(torch, offset.dtype.name)
        value, gradient = (
            result.cpu().to(dtype).numpy()
            for result in self.evaluate(self._free(offset))
        )
        return value, gradient


# About the deviation of utilities under the prior mean of the output scale.
_MEAN_PRIOR_DEVIATION = 4.0

_HYPERPARAMETER_MODULES = (
    "mean_module",
    "covar_module",
    "covariate_module",
    "likelihoods",
)


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
    mean constant, the precision of strengths and ratings and the cut points of levels
    here; give ``tie_threshold_prior=`` to the likelihood that learns it.

    The arguments are those of :class:`PreferenceGP`, with ``n x d`` datapoints and
    ``m x 2`` comparisons.

    Raises:
        ImportError: JAX or NumPyro is missing.
    """

    _is_fully_bayesian = True
    _is_ensemble = True
    _num_samples: int | None = None
    _single_modules: Mapping[str, Module | None] = MappingProxyType({})

    @wraps(PreferenceGP.__init__)  # type: ignore[misc]
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Makes one model, with a prior on the mean constant where it is the default.

        It becomes a batch when hyper-parameters have been drawn.
        """
        if missing := [name for name in ("jax", "numpyro") if find_spec(name) is None]:
            raise ImportError(
                f"Fully Bayesian models need {' and '.join(missing)}, which are "
                'optional: pip install "botorch-pref[fully-bayesian]".'
            )
        super().__init__(*args, **kwargs)
        mean: Any = self.mean_module
        if kwargs.get("mean_module") is None and isinstance(mean, ConstantMean):
            prior = NormalPrior(0.0, _MEAN_PRIOR_DEVIATION)
            self.mean_module = ConstantMean(prior, batch_shape=mean.batch_shape)
            self.mean_module.to(mean.constant)

    @property
    def num_mcmc_samples(self) -> int:
        """``S``, the number of draws of the hyper-parameters.

        Raises:
            BotorchPrefError: They have not been drawn yet.
        """
        return self._check_if_fitted()

    def _check_if_fitted(self) -> int:
        """Returns ``S``; an error before hyper-parameters have been drawn."""
        if self._num_samples is None:
            raise BotorchPrefError(
                f"The hyper-parameters of this {type(self).__name__} have not been "
                "sampled yet; call botorch.fit.fit_fully_bayesian_model_nuts(model)."
            )
        return self._num_samples

    @property
    def batch_shape(self) -> torch.Size:
        """``S``, or the batch shape of the training data, its last dimension ``S``.

        There the data themselves have ``S`` or 1. Before sampling it is their batch
        shape.
        """
        data = super().batch_shape
        if self._num_samples is None:
            return data
        return torch.broadcast_shapes(data, (self._num_samples,))

    @property
    def pyro_model(self) -> HyperparameterDensity:
        """Density that ``fit_fully_bayesian_model_nuts`` samples.

        Raises:
            BotorchPrefError: There are no answers.
        """
        if not self.feedback:
            raise BotorchPrefError(
                "There are no answers to draw hyper-parameters by; pass comparisons= "
                "or feedback= before fit_fully_bayesian_model_nuts."
            )
        single_model = deepcopy(self)
        single_model._use_single()
        return _SampledDensity(single_model)

    def load_mcmc_samples(self, mcmc_samples: Mapping[str, Tensor]) -> None:
        """Makes this a batch of models, given ``S`` of each parameter by its name.

        BoTorch's fit calls it. The modules of the one model are kept: another fit or
        another state starts from them.
        """
        # First, since samples of an earlier fit may be loaded.
        self._use_single()
        self._single_modules = {
            name: deepcopy(getattr(self, name)) for name in _HYPERPARAMETER_MODULES
        }
        make_batch(self, mcmc_samples)
        self._num_samples = len(next(iter(mcmc_samples.values())))

    def _use_single(self) -> None:
        """Makes this one model again, with the parameters it had before sampling.

        A model that was not sampled stays as it is, but solves anew.
        """
        for name, module in self._single_modules.items():
            setattr(self, name, module)
        self._single_modules = {}
        self._num_samples = None
        self._cache = SolutionCache()

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> Any:
        """Loads a state with as many draws of hyper-parameters as there are in it.

        This model may have another number of them, or none, so that its parameters take
        the shapes of the state's before. A state has draws where its parameters have
        one dimension more than those of one model.
        """
        single_model = deepcopy(self)
        single_model._use_single()
        samples = {
            name: state_dict[name]
            for name, parameter in single_model.named_parameters()
            if name in state_dict and state_dict[name].dim() > parameter.dim()
        }
        if samples:
            self.load_mcmc_samples(samples)
        else:
            self._use_single()
        return super().load_state_dict(state_dict, strict, assign)

    def posterior(  # type: ignore[override]
        self,
        X: Tensor,
        output_indices: list[int] | None = None,
        observation_noise: bool | Tensor = False,
        posterior_transform: PosteriorTransform | None = None,
    ) -> GaussianMixturePosterior:
        """See base class: a mixture of Gaussians over ``batch_shape x S x q x 1``."""
        if isinstance(observation_noise, Tensor):
            observation_noise = observation_noise.unsqueeze(MCMC_DIM)
        posterior: Any = super().posterior(
            X, output_indices, observation_noise, posterior_transform
        )
        return GaussianMixturePosterior(posterior.distribution)

    def duel_probability(
        self, X1: Tensor, X2: Tensor, observation_noise: bool = False
    ) -> Tensor:
        """See base class: averaged over the draws of hyper-parameters."""
        return super().duel_probability(X1, X2, observation_noise).mean(-2)

    def condition_on_observations(
        self, X: Tensor, Y: Tensor | Feedback | Sequence[Feedback], **kwargs: Any
    ) -> Self:
        """See base class; the batch shape ends in ``S`` or 1.

        As in ``fantasize``, ``X`` may be without that dimension where ``Y`` has it.
        """
        if isinstance(Y, Tensor) and X.dim() < Y.dim():
            X = X.unsqueeze(MCMC_DIM)
        return super().condition_on_observations(X, Y, **kwargs)

    def moments(self, X: Tensor) -> Moments:
        """See base class; at points that all members share."""
        self._check_if_fitted()
        X = self.check_points("X", X)
        return super().moments(X.unsqueeze(MCMC_DIM))

    def group_moments(self, X: Tensor, raters: Tensor, weights: Tensor) -> Moments:
        """See base class; at stimuli that all members share."""
        self._check_if_fitted()
        return super().group_moments(X.unsqueeze(MCMC_DIM), raters, weights)

    def option_posterior(
        self, X: Tensor, covariates: Tensor
    ) -> GaussianMixturePosterior:
        """See base class: a mixture of Gaussians, as in :meth:`posterior`."""
        self._check_if_fitted()
        X, covariates = X.unsqueeze(MCMC_DIM), covariates.unsqueeze(MCMC_DIM)
        return cast("Any", super().option_posterior(X, covariates))

    def prior_variance(self, X: Tensor) -> Tensor:
        """See base class; of each member."""
        return super().prior_variance(X.unsqueeze(MCMC_DIM))

    def make_posterior(self, moments: Moments) -> GaussianMixturePosterior:
        """See base class: a mixture over the members."""
        self._check_if_fitted()
        covariance = SemidefiniteLinearOperator(moments.covariance)
        return GaussianMixturePosterior(
            MultivariateNormal(moments.means[0], covariance)
        )

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """See base class; applies it to the modules of the one model, too."""
        for module in self._single_modules.values():
            if module is not None:
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
