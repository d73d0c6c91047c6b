r"""The posterior density of hyper-parameters, over a vector without constraints.

The target of Markov chains over :math:`\theta`, the values that priors are on:

.. math:: \log p(\theta \mid \mathcal{Y}) = \log p(\mathcal{Y} \mid \theta)
    + \sum_j \log p(\theta_j) + \mathrm{const},

which is the objective of :class:`PreferenceMarginalLogLikelihood`. Over a free vector
:math:`u` that maps to :math:`\theta`, every prior carries the volume that the map
spans, :math:`\log |\det \partial \theta_j / \partial u_j|`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, cast

import torch
from gpytorch.constraints import Interval
from gpytorch.priors import Prior
from torch import Tensor
from torch.distributions import Transform, biject_to, constraints
from torch.nn import Module, Parameter

from botorch_pref.errors import BotorchPrefError
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
        """The parameter of free numbers, ``... x k`` to ``... x shape``."""
        return self.bijection(free).reshape(free.shape[:-1] + self.start.shape)


class HyperparameterDensity(Module):
    r"""The log density of the hyper-parameters of a model given its answers.

    Every parameter that is learned needs a prior, on itself or on a function of it that
    can be inverted, registered as everywhere in GPyTorch: the evidence of answers falls
    off nowhere fast enough to make a density without one.

    Args:
        model: With one data set. Its parameters are where the free vector starts; they
            stay as they are.

    Raises:
        BotorchPrefError: A batch of models, nothing learned, an input transform that is
            learned, a learned parameter with no prior or several, or a prior on several
            parameters.
    """

    def __init__(self, model: PreferenceGP) -> None:
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
        """Parameters of the model, by their names in it.

        Args:
            free: ``... x p``.

        Returns:
            Tensors of ``... x`` the shape of each parameter.
        """
        pieces = free.split(self._sizes, dim=-1)
        return {
            part.name: part.raw(piece)
            for part, piece in zip(self._learned, pieces, strict=True)
        }

    def log_density(self, free: Tensor) -> Tensor:
        """The log density up to a constant, with its gradient.

        Args:
            free: ``p``.

        Returns:
            A scalar.
        """
        pieces = free.split(self._sizes)
        raws = [
            part.raw(piece) for part, piece in zip(self._learned, pieces, strict=True)
        ]
        swapped = {
            f"model.{part.name}": raw
            for part, raw in zip(self._learned, raws, strict=True)
        }
        return cast("Tensor", torch.func.functional_call(self, swapped, (pieces,)))

    def forward(self, pieces: tuple[Tensor, ...]) -> Tensor:
        """The log density where the parameters are functions of ``pieces``.

        Args:
            pieces: The free vector, split by parameters.
        """
        total = self.model.log_evidence()
        for part, piece in zip(self._learned, pieces, strict=True):
            value = part.value(part.module)
            total = total + part.prior.log_prob(value).sum() + _log_volume(value, piece)
        return total


def _log_volume(value: Tensor, free: Tensor) -> Tensor:
    """The logarithm of ``|det d value / d free|``."""
    eye = torch.eye(len(free), dtype=free.dtype, device=free.device)
    (jacobian,) = torch.autograd.grad(
        value.reshape(-1), free, eye, create_graph=True, is_grads_batched=True
    )
    return torch.linalg.slogdet(jacobian).logabsdet


def _learned_parameters(model: PreferenceGP) -> list[_Learned]:
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
    found: dict[str, _Learned] = {}
    gp: Any = model
    priors: Iterable[Any] = gp.named_priors()
    for prior_name, module, prior, closure, _ in priors:
        name = _parameter_behind(prior_name, closure(module), learned)
        if name is None:
            continue
        if name in found:
            raise BotorchPrefError(
                f"{prior_name} is a second prior on {name}; give each learned "
                "parameter one."
            )
        start = learned[name].detach().clone()
        bijection = _bijection(gp.constraint_for_parameter_name(name))
        found[name] = _Learned(name, start, bijection, module, prior, closure)
    missing = [name for name in learned if name not in found]
    if missing:
        raise BotorchPrefError(
            f"No prior on {', '.join(missing)}: the posterior of hyper-parameters has "
            "a density only where every one that is learned has a prior. Register one "
            "(register_prior, or the constructor's argument), or fix the parameter "
            "with requires_grad_(False)."
        )
    return [found[name] for name in learned]


def _parameter_behind(
    prior_name: str, value: Tensor, learned: Mapping[str, Parameter]
) -> str | None:
    """The parameter that a prior is on; None where it is fixed."""
    if not value.requires_grad:
        return None
    gradients = torch.autograd.grad(
        value.sum(), list(learned.values()), allow_unused=True
    )
    names = [
        name
        for name, gradient in zip(learned, gradients, strict=True)
        if gradient is not None
    ]
    if len(names) == 1 and learned[names[0]].numel() == value.numel():
        return names[0]
    raise BotorchPrefError(
        f"{prior_name} is on {value.numel()} numbers that depend on "
        f"{' and '.join(names)}; sampling needs each prior on one parameter, as many "
        "numbers as it has."
    )


def _bijection(constraint: Interval | None) -> Transform:
    """Bijection from all real numbers to the range of a raw parameter."""
    if constraint is None or constraint.enforced:
        return biject_to(constraints.real)
    lower, upper = constraint.lower_bound, constraint.upper_bound
    if bool(lower.isinf().all()):
        below = constraints.real if bool(upper.isinf().all()) else None
        return biject_to(below or constraints.less_than(upper))
    if bool(upper.isinf().all()):
        return biject_to(constraints.greater_than(lower))
    return biject_to(constraints.interval(lower, upper))
