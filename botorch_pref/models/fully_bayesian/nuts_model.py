"""A density over hyper-parameters as NumPyro's No-U-Turn sampler wants it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from linear_operator.utils.errors import NotPSDError

from botorch_pref.errors import InferenceWarning
from botorch_pref.models.fully_bayesian.hyperparameter_density import (
    HyperparameterDensity,
)

if TYPE_CHECKING:
    import jax
    from torch import Tensor

_SITE = "offset"


class NutsModel:
    """Density of hyper-parameters for BoTorch's ``fit_fully_bayesian_model_nuts``.

    Its protocol is that of BoTorch's ``PyroModel``. The density and its gradient are
    computed by torch, in one call from JAX's compiled sampler. A chain starts within 2
    of the parameters that the density starts from, in each free direction: mostly
    logarithms. Where rounding errors leave no evidence, as at the far ends of first
    steps, the density counts as zero.

    Args:
        density: Of the hyper-parameters.
    """

    def __init__(self, density: HyperparameterDensity) -> None:
        self._density = density
        self._start = density.start

    def sample(self) -> None:
        """States the density to NumPyro."""
        import numpyro
        from numpyro.distributions import ImproperUniform, constraints

        flat = ImproperUniform(constraints.real_vector, (), (len(self._start),))
        offset = numpyro.sample(_SITE, flat)
        numpyro.factor("log_density", self._log_density()(offset))

    def postprocess_mcmc_samples(
        self, mcmc_samples: Mapping[str, Any]
    ) -> dict[str, Tensor]:
        """Samples of the model's parameters, by their names in it.

        Args:
            mcmc_samples: From NumPyro.

        Returns:
            Tensors whose first dimension counts samples.
        """
        offsets = torch.tensor(mcmc_samples[_SITE].tolist(), dtype=self._start.dtype)
        free = self._start + offsets.to(self._start.device)
        return {
            name: value.detach()
            for name, value in self._density.parameters_of(free).items()
        }

    def _log_density(self) -> Any:
        """The density as a function that JAX differentiates."""
        import jax

        def evaluate(offset: jax.Array) -> tuple[jax.Array, jax.Array]:
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
        offsets = torch.tensor(offset.tolist(), dtype=self._start.dtype)
        results = self._evaluate(self._start + offsets.to(self._start.device))
        # By default JAX computes in single precision: far ends may become infinite,
        # which is as good as a density of zero.
        dtype = getattr(torch, offset.dtype.name)
        value, gradient = (result.cpu().to(dtype).numpy() for result in results)
        return value, gradient

    def _evaluate(self, free: Tensor) -> tuple[Tensor, Tensor]:
        free = free.requires_grad_()
        with torch.enable_grad(), warnings.catch_warnings():
            # The models of the draws that are kept will say it, the others are steps.
            warnings.simplefilter("ignore", InferenceWarning)
            try:
                value = self._density.log_density(free)
            except NotPSDError:
                return torch.full_like(free[0], -torch.inf), torch.zeros_like(free)
            (gradient,) = torch.autograd.grad(value, free)
        return value.detach(), gradient
