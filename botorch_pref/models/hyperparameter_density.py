r"""Posterior density of a model's hyper-parameters, and models of draws from it.

Over :math:`\theta`, the values that priors are on, it is

.. math:: \log p(\theta \mid \mathcal{Y}) = \log p(\mathcal{Y} \mid \theta)
    + \sum_j \log p(\theta_j) + \mathrm{const},

which is the objective of :class:`PreferenceMarginalLogLikelihood`. Over a free vector
:math:`u` that maps to :math:`\theta`, every prior carries the volume that the map
spans, :math:`\log |\det \partial \theta_j / \partial u_j|`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, cast

import torch
from gpytorch.constraints import Interval
from gpytorch.kernels import Kernel
from gpytorch.means import Mean
from gpytorch.priors import Prior
from linear_operator.utils.errors import NotPSDError
from torch import Tensor
from torch.distributions import Transform, biject_to, constraints
from torch.nn import Module, Parameter

from botorch_pref.errors import BotorchPrefError, InferenceWarning
from botorch_pref.inference.engine import SolutionCache
from botorch_pref.models.preference_gp import PreferenceGP


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


class HyperparameterDensity(Module):
    """The log density of the hyper-parameters of a model given its answers.

    Every parameter that is learned needs a prior, on itself or on an invertible
    function of it: the evidence of answers falls off nowhere fast enough to make a
    density. Its argument is a free vector, of any real numbers: mostly logarithms. The
    parameters of the ``model`` stay as they are. Where rounding leaves no evidence, as
    at far ends of first steps of a sampler, the density counts as zero.

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
        return self._from_pieces(free.split(self._sizes, dim=-1))

    def _from_pieces(self, pieces: tuple[Tensor, ...]) -> dict[str, Tensor]:
        """Makes parameters by their names of the piece of free vectors of each."""
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
        parameters = self._from_pieces(pieces)
        swapped = {f"model.{name}": value for name, value in parameters.items()}
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
        model = self.model
        total = model.log_evidence() if has_graph else model.evidence_value()
        for part, piece in zip(self._learned, pieces, strict=True):
            value = part.value(part.module)
            log_prior = part.prior.log_prob(value)
            total = total + log_prior.reshape(*piece.shape[:-1], -1).sum(-1)
            total = total + _log_volume(value, piece)
        return total

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
                return self._evaluated_apart(free, has_graph)
            if not has_graph:
                return value.detach().unsqueeze(-1)
            (gradient,) = torch.autograd.grad(value.sum(), free)
        return torch.cat([value.detach().unsqueeze(-1), gradient], -1)

    def _evaluated_apart(self, free: Tensor, has_graph: bool) -> Tensor:
        """Computes what `_evaluated` does where a matrix of some model has no factor.

        The halves of a batch are tried again; the density of a single vector is zero.
        """
        if free.dim() == 1:
            gradient = free.new_zeros(len(free) if has_graph else 0)
            return torch.cat([free.new_tensor([-torch.inf]), gradient])
        halves = free.unbind() if len(free) < 3 else free.tensor_split(2)
        parts = [self._evaluated(half, has_graph) for half in halves]
        return torch.cat([part.reshape(-1, part.shape[-1]) for part in parts])


def _learned_parameters(model: PreferenceGP) -> list[_Learned]:
    """Lists the learned parameters for sampling, each with the one prior on it.

    They stand in the order of the model's parameters, which is that of free vectors. A
    model that cannot be sampled is refused.
    """
    names = [*_learned_by_name(model)]
    if not names:
        raise BotorchPrefError(
            "Every parameter of the model is fixed, so that there is nothing to sample."
        )
    of_inputs = [name for name in names if name.startswith("input_transform.")]
    if of_inputs:
        raise BotorchPrefError(
            f"The input transform learns {', '.join(of_inputs)}, and a batch of models "
            "shares one transform. Fit these before, with fit_gpytorch_mll on a model "
            "without sampling, and fix them with requires_grad_(False)."
        )
    parts: dict[str, _Learned] = {}
    for prior_name, part in _with_priors(model):
        if part.name in parts:
            raise BotorchPrefError(
                f"{prior_name} is a second prior on {part.name}; give each learned "
                "parameter one."
            )
        parts[part.name] = part
    if missing := [name for name in names if name not in parts]:
        raise BotorchPrefError(
            f"No prior on {', '.join(missing)}: the posterior of hyper-parameters has "
            "a density only where every one that is learned has a prior. Register one "
            "(register_prior, or the constructor's argument), or fix the parameter "
            "with requires_grad_(False)."
        )
    return [parts[name] for name in names]


def parameters_without_prior(model: PreferenceGP) -> list[str]:
    """Lists names of the parameters that are learned, and that no prior is on.

    The posterior of hyper-parameters has no density in these.
    """
    names_with_prior = {part.name for _, part in _with_priors(model)}
    return [name for name in _learned_by_name(model) if name not in names_with_prior]


def _learned_by_name(model: PreferenceGP) -> dict[str, Parameter]:
    return {name: p for name, p in model.named_parameters() if p.requires_grad}


def _with_priors(model: PreferenceGP) -> Iterator[tuple[str, _Learned]]:
    """Yields the name of each prior, and the learned parameter that it is on."""
    learned = _learned_by_name(model)
    # Any: these methods of GPyTorch have no types.
    gp: Any = model
    for prior_name, module, prior, closure, _ in gp.named_priors():
        name = _parameter_behind(prior_name, closure(module), learned)
        if name is not None:
            start = learned[name].detach().clone()
            bijection = _bijection(gp.constraint_for_parameter_name(name))
            yield prior_name, _Learned(name, start, bijection, module, prior, closure)


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
                if not any(parameter is p for p in sampled):
                    shape = *count, *parameter.shape
                    parameter.data = parameter.detach().expand(shape).clone()
    for name, value in samples.items():
        model.get_parameter(name).data = value.detach().clone()
    model._cache = SolutionCache()


def _set_batch_shape(model: PreferenceGP, shape: torch.Size) -> None:
    """Tells kernels and means of a model without batches that parameters have one."""
    for module in model.modules():
        if isinstance(module, Kernel | Mean):
            module.batch_shape = shape
