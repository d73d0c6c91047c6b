"""Kernels by the names that experiments store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpytorch import kernels
from gpytorch.kernels import Kernel

from botorch_pref.ax.naming.names import public_classes
from botorch_pref.ax.naming.objects_by_name import class_and_options, made, plain_option
from botorch_pref.errors import ExperimentError
from botorch_pref.models import DuelKernel


def kernel_classes() -> dict[str, type[Kernel]]:
    """Every kernel of GPyTorch, and `DuelKernel`, by name."""
    found = {**public_classes(kernels), DuelKernel.__name__: DuelKernel}
    return {name: cls for name, cls in found.items() if issubclass(cls, Kernel)}


def kernel_named(given: object, dim: int) -> Kernel:
    """A kernel from its name.

    Args:
        given: The name, or the name with options: numbers, lists of numbers, priors,
            constraints and kernels by name, with options again; or of a sum or product
            the list of its kernels:
            ``{"ScaleKernel": {"base_kernel": {"MaternKernel": {"nu": 1.5}}}}``.
        dim: How many features a point has: kernels with lengthscales get one for each,
            unless ``ard_num_dims`` says otherwise.

    Raises:
        ExperimentError: There is no such kernel, or it does not take the options.
    """
    classes = kernel_classes()
    cls, options = class_and_options(given, classes, "kernel")

    def option(value: object) -> object:
        name = next(iter(value), None) if isinstance(value, Mapping) else value
        named = isinstance(name, str) and name in classes
        return kernel_named(value, dim) if named else plain_option(value)

    if isinstance(options, list):
        return cls(*(kernel_named(one, dim) for one in options))
    if not isinstance(options, Mapping):
        raise ExperimentError(
            f"{cls.__name__} has the options {options!r}; give them by name."
        )
    own: dict[str, Any] = {"ard_num_dims": dim} if cls.has_lengthscale else {}
    if cls is DuelKernel:
        own = {"dim": dim}
    return made(cls, {**own, **options}, option)
