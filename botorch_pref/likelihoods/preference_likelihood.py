"""What every likelihood has in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from functools import partial
from typing import ClassVar, Generic, Self, TypeVar

import torch
from gpytorch import Module
from gpytorch.constraints import GreaterThan
from gpytorch.likelihoods import Likelihood
from gpytorch.priors import Prior
from torch import Tensor
from torch.distributions import Distribution

from botorch_pref.errors import FeedbackError
from botorch_pref.feedback.feedback import Feedback
from botorch_pref.likelihoods.factors.factors import Factors

FeedbackT = TypeVar("FeedbackT", bound=Feedback)

# An optimiser may try raw parameters at which a softplus is zero, where no likelihood
# is defined.
_SMALLEST = torch.finfo(torch.float32).tiny


class PreferenceLikelihood(Likelihood, Generic[FeedbackT]):
    """A likelihood that turns answers into factors of rows of utilities.

    Attributes:
        explains: The containers whose answers it explains, the one it is named for
            first, each with the factors it makes of them.
    """

    explains: ClassVar[Mapping[type[Feedback], type[Factors]]]

    @classmethod
    def default_for(cls, feedback: Feedback | None) -> Self:
        """The likelihood of a model whose user named none.

        Args:
            feedback: The answers to explain; None where they are still to come.
        """
        return cls()

    @abstractmethod
    def factors(self, feedback: FeedbackT, num_points: int) -> Factors:
        """The rows and factors of a block of answers.

        Args:
            feedback: Answers, of a type in :attr:`explains`.
            num_points: ``n``, the number of datapoints.
        """

    @abstractmethod
    def forward(self, function_samples: Tensor) -> Distribution:
        """The answer's distribution given what it depends on.

        Args:
            function_samples: ``z``, any shape: the difference of two utilities for
                duels, one utility for absolute answers.
        """

    def _register_positive(
        self, name: str, value: float | Tensor, prior: Prior | None, *, learned: bool
    ) -> None:
        """A positive parameter under a GPyTorch constraint, with an optional prior."""
        # A Python number keeps its digits until the model says what its dtype is.
        tensor = torch.as_tensor(
            value, dtype=None if isinstance(value, Tensor) else torch.float64
        )
        raw = f"raw_{name}"
        self.register_parameter(raw, torch.nn.Parameter(torch.zeros_like(tensor)))
        self.register_constraint(raw, GreaterThan(_SMALLEST))
        set_positive(self, name, tensor)
        getattr(self, raw).requires_grad_(learned)
        if prior is not None:
            get, set_ = partial(_get, name=name), partial(_set, name=name)
            self.register_prior(f"{name}_prior", prior, get, set_)


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
    tensor = torch.as_tensor(value, dtype=raw.dtype, device=raw.device)
    constraint = getattr(module, f"raw_{name}_constraint")
    if not bool((tensor.isfinite() & (tensor > constraint.lower_bound)).all()):
        raise FeedbackError(
            f"{type(module).__name__}: {name} must be positive and finite, got {value}."
        )
    inverse = constraint.inverse_transform(tensor.expand_as(raw))
    module.initialize(**{f"raw_{name}": inverse})


class PositiveParameter:
    """The natural value of a constrained ``raw_`` parameter, read and written."""

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
