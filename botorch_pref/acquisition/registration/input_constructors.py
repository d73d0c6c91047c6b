"""Input constructors, by which BoTorch and Ax make acquisition functions of duels."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.exceptions.errors import UnsupportedError
from botorch.models.model import Model, ModelList
from torch import Tensor

Reference = Callable[[Model], Tensor]
"""A rule for the point that challengers meet: from a model to ``1 x d``."""


def duel_input_constructor(
    acquisition_class: type[AcquisitionFunction], reference: Reference | None
) -> Callable[..., dict[str, Any]]:
    """The input constructor of an acquisition function, from its own signature.

    It takes the keywords of the class, with the same defaults, but for two: ``model``
    may be a list with nothing but the model, in which Ax wraps it, and ``X_ref`` may be
    left out.

    Args:
        acquisition_class: Made from a ``model`` and perhaps more.
        reference: The rule for an ``X_ref`` that is left out; None to leave it to the
            class.

    Returns:
        The constructor: it returns keyword arguments of the class.

    Raises:
        TypeError: There is a rule for a class that takes no ``X_ref``.
    """
    signature = inspect.signature(acquisition_class)
    if reference is not None:
        if "X_ref" not in signature.parameters:
            raise TypeError(
                f"{acquisition_class.__name__} takes no X_ref; leave out reference."
            )
        signature = _with_optional(signature, "X_ref")

    def construct(*args: Any, **kwargs: Any) -> dict[str, Any]:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        arguments = bound.arguments
        arguments["model"] = utility_model(arguments["model"])
        if reference is not None and arguments["X_ref"] is None:
            arguments["X_ref"] = reference(arguments["model"])
        return dict(arguments)

    construct.__name__ = f"construct_inputs_{acquisition_class.__name__}"
    construct.__doc__ = f"Keyword arguments of `{acquisition_class.__name__}`."
    # BoTorch reads the keywords that it may pass.
    construct.__signature__ = signature  # type: ignore[attr-defined]
    return construct


def utility_model(model: Model) -> Model:
    """Preference model inside the list of one that Ax makes of it.

    Args:
        model: Such a list, or a model, which is returned as it is.

    Raises:
        UnsupportedError: The list holds several.
    """
    if not isinstance(model, ModelList):
        return model
    if len(model.models) != 1:
        raise UnsupportedError(
            f"Duels need one model of the utility, got a list of {len(model.models)}."
        )
    (only,) = model.models
    return only  # type: ignore[return-value]


def _with_optional(signature: inspect.Signature, name: str) -> inspect.Signature:
    """The signature with None as the default of a parameter."""
    parameters = dict(signature.parameters)
    parameters[name] = parameters[name].replace(default=None)
    return signature.replace(parameters=list(parameters.values()))
