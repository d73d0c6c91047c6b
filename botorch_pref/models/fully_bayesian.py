r"""Models that average over their hyper-parameters.

The target of Markov chains over :math:`\theta`, the values that priors are on:

.. math:: \log p(\theta \mid \mathcal{Y}) = \log p(\mathcal{Y} \mid \theta)
    + \sum_j \log p(\theta_j) + \mathrm{const},

which is the objective of :class:`PreferenceMarginalLogLikelihood`. Over a free vector
:math:`u` that maps to :math:`\theta`, every prior carries the volume that the map
spans, :math:`\log |\det \partial \theta_j / \partial u_j|`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from functools import wraps
from importlib.util import find_spec
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Self, cast

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.posteriors.fully_bayesian import MCMC_DIM, GaussianMixturePosterior
from gpytorch.constraints import Interval
from gpytorch.distributions import MultivariateNormal
from gpytorch.kernels import Kernel
from gpytorch.means import ConstantMean, Mean
from gpytorch.priors import NormalPrior, Prior
from linear_operator.utils.errors import NotPSDError
from torch import Tensor
from torch.distributions import Transform, biject_to, constraints
from torch.nn import Module, Parameter

from botorch_pref.errors import BotorchPrefError, InferenceWarning
from botorch_pref.feedback import Feedback
from botorch_pref.inference import ExpectationPropagation, Laplace
from botorch_pref.inference.engine import SolutionCache
from botorch_pref.linalg.covariance import SemidefiniteLinearOperator
from botorch_pref.models.answer_likelihoods import register_model
from botorch_pref.models.preference_gp import PreferenceGP
from botorch_pref.posteriors.gaussian import Moments

if TYPE_CHECKING:
    import jax


class _Learned(NamedTuple):
    """A parameter that is learned, the prior on it and what frees it from bounds."""

    name: str
    start: Tensor
    bijection: Transform
    module: Module
    prior: Prior
    value: Callable[[Module], Tensor]

    def raw(self, free: Tensor) -> Tensor:
        """Makes the parameter of free numbers, ``... x k`` to ``... x shape``."""
        return self.bijection(free).reshape(free.shape[:-1] + self.start.shape)


def _log_volume(value: Tensor, free: Tensor) -> Tensor:
    """Computes ``log |det d value / d free|``, the volume in the density of ``free``.

    Both have as many numbers, ``batch_shape x k`` in ``free``, of which ``value`` has a
    graph.
    """
    k = free.shape[-1]
    eye = torch.eye(k, dtype=free.dtype, device=free.device)
    directions = eye.reshape(k, *[1] * (free.dim() - 1), k).expand(k, *free.shape)
    (jacobian,) = torch.autograd.grad(
        value.reshape(free.shape),
        free,
        directions,
        create_graph=True,
        is_grads_batched=True,
    )
    return torch.linalg.slogdet(jacobian.movedim(0, -2)).logabsdet


MOST_ENTRIES = 2**18
"""Numbers in one matrix each of the models that are solved together, at most: 2 MB.

An engine works on about ten such matrices at a time. More would leave the cache, and
take as long as models one by one: there are 18 at once of 120 points."""


def models_at_once(model: PreferenceGP) -> int:
    """Returns how many models of the same answers are solved together, 1 or more.

    A matrix of one has the square of its points or of its answers' rows, whichever are
    more; `MOST_ENTRIES` bounds those of all.
    """
    num_rows = model.engine.site_rows(model.factors()).num_rows
    size = max(num_rows, model.transformed_points().shape[-2])
    return max(1, MOST_ENTRIES // size**2)


def _set_batch_shape(model: PreferenceGP, shape: torch.Size) -> None:
    """Tells kernels and means of a model without batches that parameters have one."""
    for module in model.modules():
        if isinstance(module, Kernel | Mean):
            module.batch_shape = shape


def make_batch(model: PreferenceGP, samples: Mapping[str, Tensor]) -> None:
    """Makes a model a batch of models, given ``S`` of each parameter by its name.

    Data and parameters that are not named are those of all. Predictions are at points
    that all share, ``... x 1 x q x d``, and ``... x S x q``.
    """
    count = torch.Size([len(next(iter(samples.values())))])
    sampled = [model.get_parameter(name) for name in samples]
    for module in model.modules():
        if isinstance(module, Kernel | Mean):
            module.batch_shape = count + module.batch_shape
        if isinstance(module, Kernel):
            # A kernel with a batch shape has matrices of it, also where all are alike.
            for parameter in module.parameters(recurse=False):
                if not any(parameter is other for other in sampled):
                    shape = *count, *parameter.shape
                    parameter.data = parameter.detach().expand(shape).clone()
    for name, value in samples.items():
        model.get_parameter(name).data = value.detach().clone()
    model._cache = SolutionCache()


def _learned_parameters(model: PreferenceGP) -> list[_Learned]:
    """Lists the learned parameters for sampling, each with the one prior on it.

    They stand in the order of the model's parameters, which is that of free vectors. A
    model that cannot be sampled is refused.
    """
    learned = {n: p for n, p in model.named_parameters() if p.requires_grad}
    if not learned:
        raise BotorchPrefError(
            "Every parameter of the model is fixed, so that there is nothing to sample."
        )
    of_inputs = [name for name in learned if name.startswith("input_transform.")]
    if of_inputs:
        raise BotorchPrefError(
            f"The input transform learns {', '.join(of_inputs)}, and a batch of models "
            "shares one transform. Fit these before, with fit_gpytorch_mll on a model "
            "without sampling, and fix them with requires_grad_(False)."
        )
    entries: dict[str, _Learned] = {}
    gp: Any = model
    priors: Iterable[Any] = gp.named_priors()
    for prior_name, module, prior, closure, _ in priors:
        name = _parameter_behind(prior_name, closure(module), learned)
        if name is None:
            continue
        if name in entries:
            raise BotorchPrefError(
                f"{prior_name} is a second prior on {name}; give each learned "
                "parameter one."
            )
        start = learned[name].detach().clone()
        bijection = _bijection(gp.constraint_for_parameter_name(name))
        entries[name] = _Learned(name, start, bijection, module, prior, closure)
    if missing := parameters_without_prior(model):
        raise BotorchPrefError(
            f"No prior on {', '.join(missing)}: the posterior of hyper-parameters has "
            "a density only where every one that is learned has a prior. Register one "
            "(register_prior, or the constructor's argument), or fix the parameter "
            "with requires_grad_(False)."
        )
    return [entries[name] for name in learned]


def parameters_without_prior(model: PreferenceGP) -> list[str]:
    """Lists names of the parameters that are learned, and that no prior is on.

    The posterior of hyper-parameters has no density in these.
    """
    learned = {n: p for n, p in model.named_parameters() if p.requires_grad}
    gp: Any = model
    priors: Iterable[Any] = gp.named_priors()
    behind = {
        _parameter_behind(name, closure(module), learned)
        for name, module, _, closure, _ in priors
    }
    return [name for name in learned if name not in behind]


def _parameter_behind(
    prior_name: str, value: Tensor, learned: Mapping[str, Parameter]
) -> str | None:
    """Finds the name of the parameter that a prior is on; None where it is fixed.

    A prior names no parameter, and may be on a function of one: it is the parameter in
    which the prior's ``value`` has a gradient.
    """
    if not value.requires_grad:
        return None
    gradients = torch.autograd.grad(
        value.sum(), list(learned.values()), allow_unused=True
    )
    names = [n for n, g in zip(learned, gradients, strict=True) if g is not None]
    if len(names) == 1 and learned[names[0]].numel() == value.numel():
        return names[0]
    raise BotorchPrefError(
        f"{prior_name} is on {value.numel()} numbers that depend on "
        f"{' and '.join(names)}; sampling needs each prior on one parameter, as many "
        "numbers as it has."
    )


def _bijection(constraint: Interval | None) -> Transform:
    """Makes a bijection from all real numbers to the range of a raw parameter."""
    # An enforced constraint transforms a raw parameter, which may be any number.
    if constraint is None or constraint.enforced:
        return biject_to(constraints.real)
    lower, upper = constraint.lower_bound, constraint.upper_bound
    if bool(lower.isinf().all()):
        below = constraints.real if bool(upper.isinf().all()) else None
        return biject_to(below or constraints.less_than(upper))
    if bool(upper.isinf().all()):
        return biject_to(constraints.greater_than(lower))
    return biject_to(constraints.interval(lower, upper))


_SITE = "offset"


class HyperparameterDensity(Module):
    """The log density of the hyper-parameters of a model given its answers.

    Every parameter that is learned needs a prior, on itself or on an invertible
    function of it: the evidence of answers falls off nowhere fast enough to make a
    density. The protocol is that of BoTorch's ``PyroModel``. Torch computes density and
    gradient, in one call from JAX's compiled sampler. A chain starts within 2 of the
    parameters of the ``model``, which stay as they are, in each free direction: mostly
    logarithms. Where rounding leaves no evidence, as at far ends of first steps, the
    density counts as zero.

    Raises:
        BotorchPrefError: A batch of models, nothing learned, an input transform that is
            learned, a learned parameter with no prior or several, or a prior on several
            parameters.
    """

    def __init__(self, model: PreferenceGP) -> None:
        """Checks that the model can be sampled, and finds what is learned.

        The ``model`` itself is evaluated later, with other parameters for a while.
        """
        super().__init__()
        if model.batch_shape:
            raise BotorchPrefError(
                f"The model has batch shape {tuple(model.batch_shape)}; "
                "hyper-parameters are sampled for one data set at a time, n x d "
                "datapoints."
            )
        self.model = model
        self._learned = _learned_parameters(model)
        self._sizes = [part.start.numel() for part in self._learned]

    @property
    def start(self) -> Tensor:
        """The free vector of the model's present parameters, ``p``."""
        return torch.cat(
            [part.bijection.inv(part.start.flatten()) for part in self._learned]
        )

    def parameters_of(self, free: Tensor) -> dict[str, Tensor]:
        """Makes parameters by their names in the model of free vectors ``... x p``."""
        pieces = free.split(self._sizes, dim=-1)
        return {
            part.name: part.raw(piece)
            for part, piece in zip(self._learned, pieces, strict=True)
        }

    def log_density(self, free: Tensor, has_graph: bool = True) -> Tensor:
        """Computes the log density at free vectors, to a constant, ``batch_shape``.

        The model gets the parameters for this one call of :meth:`forward`.

        Args:
            free: ``p``, or ``S x p``: these are solved together, as a batch.
            has_graph: Whether the evidence has its gradient.
        """
        pieces = free.split(self._sizes, dim=-1)
        swapped = {
            f"model.{part.name}": part.raw(piece)
            for part, piece in zip(self._learned, pieces, strict=True)
        }
        cache = self.model._cache
        if free.dim() > 1:
            _set_batch_shape(self.model, free.shape[:-1])
            self.model._cache = SolutionCache()
        try:
            arguments = pieces, has_graph
            return cast("Tensor", torch.func.functional_call(self, swapped, arguments))
        finally:
            if free.dim() > 1:
                _set_batch_shape(self.model, torch.Size())
                self.model._cache = cache

    def forward(self, pieces: tuple[Tensor, ...], has_graph: bool = True) -> Tensor:
        """Computes the log density of free vectors, in ``pieces``.

        There is a piece for each learned parameter, which is a function of it:
        :meth:`log_density` has put the parameters into the model.
        """
        with torch.set_grad_enabled(has_graph):
            total = self.model.log_evidence()
        for part, piece in zip(self._learned, pieces, strict=True):
            value = part.value(part.module)
            log_prior = part.prior.log_prob(value)
            total = total + log_prior.reshape(*piece.shape[:-1], -1).sum(-1)
            total = total + _log_volume(value, piece)
        return total

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

    def evaluate(self, free: Tensor) -> tuple[Tensor, Tensor]:
        """Computes the log density at free vectors, and its gradient, both detached.

        Where rounding leaves no evidence it is minus infinity. Nothing is warned of.

        Args:
            free: ``p`` or ``S x p``.

        Returns:
            The density, ``batch_shape``, and its gradient, as ``free``.
        """
        result = self._evaluated(free, has_graph=True)
        return result[..., 0], result[..., 1:]

    def values(self, free: Tensor) -> Tensor:
        """Computes the log density as :meth:`evaluate` does, without its gradient."""
        return self._evaluated(free, has_graph=False)[..., 0]

    def _evaluated(self, free: Tensor, has_graph: bool) -> Tensor:
        """Computes the log density, and its gradient behind it if that is wanted.

        It is ``batch_shape x (1 + p)``, or ``batch_shape x 1``. A batch that is too
        large, or in which some matrix has no factor, is solved in parts.
        """
        if free.dim() > 1 and len(free) > (limit := models_at_once(self.model)):
            return torch.cat([self._evaluated(f, has_graph) for f in free.split(limit)])
        free = free.detach().requires_grad_()
        with torch.enable_grad(), warnings.catch_warnings():
            # Models of the draws that are kept warn later; other vectors are steps.
            warnings.simplefilter("ignore", InferenceWarning)
            try:
                value = self.log_density(free, has_graph)
            except NotPSDError:
                if free.dim() == 1:
                    nothing = free.new_zeros(len(free) if has_graph else 0)
                    return torch.cat([free.new_tensor([-torch.inf]), nothing])
                halves = free.unbind() if len(free) < 3 else free.tensor_split(2)
                parts = [self._evaluated(half, has_graph) for half in halves]
                return torch.cat([part.reshape(-1, part.shape[-1]) for part in parts])
            if not has_graph:
                return value.detach().unsqueeze(-1)
            (gradient,) = torch.autograd.grad(value.sum(), free)
        return torch.cat([value.detach().unsqueeze(-1), gradient], -1)


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
        return HyperparameterDensity(single_model)

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

    def _check_if_fitted(self) -> int:
        """Returns ``S``; an error before hyper-parameters have been drawn."""
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
