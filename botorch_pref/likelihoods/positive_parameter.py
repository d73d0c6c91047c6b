"""A positive parameter of a likelihood, under a GPyTorch constraint."""

from __future__ import annotations

from functools import partial
from types import NoneType

import torch
from gpytorch import Module
from gpytorch.constraints import GreaterThan
from gpytorch.priors import Prior
from torch import Tensor

from botorch_pref.errors import FeedbackError
from botorch_pref.numerics.argument_ranges import check_kind, number_tensor

# An optimiser may try raw parameters at which a softplus is zero, where no likelihood
# is defined.
_SMALLEST = torch.finfo(torch.float32).tiny


class PositiveParameter:
    """The natural value of a constrained ``raw_`` parameter, read and written.

    A class attribute, whose parameter :func:`register_positive` makes::

        class MyLikelihood(PreferenceLikelihood[Comparisons]):
            noise = PositiveParameter()

            def __init__(self, noise=1.0, *, noise_prior=None):
                super().__init__()
                register_positive(self, "noise", noise, noise_prior, learned=True)
    """

    def __set_name__(self, owner: type, name: str) -> None:
        """Remembers the name."""
        self._name, self._raw = name, f"raw_{name}"

    def __get__(self, instance: Module | None, owner: type) -> Tensor:
        """The constrained value."""
        if instance is None:
            return self  # type: ignore[return-value]
        constraint = getattr(instance, f"{self._raw}_constraint")
        return constraint.transform(getattr(instance, self._raw))

    def __set__(self, instance: Module, value: float | Tensor) -> None:
        """Sets the parameter from its natural value."""
        set_positive(instance, self._name, value)


def register_positive(
    module: Module,
    name: str,
    value: float | Tensor,
    prior: Prior | None = None,
    *,
    learned: bool,
) -> None:
    """Registers a positive parameter, with an optional prior on its natural value.

    Args:
        module: Has a :class:`PositiveParameter` or a property of that name.
        name: Of the parameter; the raw one is ``raw_{name}``.
        value: Its initial value, a number or ``batch_shape``.
        prior: On the natural value; None for none.
        learned: Whether the raw parameter requires a gradient.

    Raises:
        FeedbackError: The value is not positive and finite.
    """
    # A Python number keeps its digits until the model says what its dtype is.
    dtype = value.dtype if isinstance(value, Tensor) else torch.float64
    tensor = number_tensor(name, value, dtype)
    check_kind(f"{name}_prior", prior, Prior, NoneType)
    raw = f"raw_{name}"
    module.register_parameter(raw, torch.nn.Parameter(torch.zeros_like(tensor)))
    module.register_constraint(raw, GreaterThan(_SMALLEST))
    set_positive(module, name, tensor)
    getattr(module, raw).requires_grad_(learned)
    if prior is not None:
        get, set_ = partial(_get, name=name), partial(_set, name=name)
        module.register_prior(f"{name}_prior", prior, get, set_)


# At module level, unlike the closures that GPyTorch would make, so that they pickle.
def _get(module: Module, *, name: str) -> Tensor:
    return getattr(module, name)


def _set(module: Module, value: Tensor, *, name: str) -> None:
    module.initialize(**{name: value})


def set_positive(module: Module, name: str, value: float | Tensor) -> None:
    """Sets a positive parameter from its natural value.

    Args:
        module: Has a constrained parameter ``raw_{name}``.
        name: Of the parameter.
        value: Broadcastable with the parameter.

    Raises:
        FeedbackError: The value is not positive and finite.
    """
    raw = getattr(module, f"raw_{name}")
    tensor = number_tensor(name, value, raw.dtype, raw.device)
    constraint = getattr(module, f"raw_{name}_constraint")
    if not bool((tensor.isfinite() & (tensor > constraint.lower_bound)).all()):
        raise FeedbackError(
            f"{type(module).__name__}: {name} must be positive and finite, got {value}."
        )
    inverse = constraint.inverse_transform(tensor.expand_as(raw))
    module.initialize(**{f"raw_{name}": inverse})
