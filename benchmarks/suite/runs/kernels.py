"""Kernels that models of the suite have besides the default of duels."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from gpytorch.constraints import GreaterThan, Interval, Positive
from gpytorch.kernels import MaternKernel, RBFKernel, ScaleKernel
from gpytorch.priors import GammaPrior, LogNormalPrior

from botorch_pref.models import RelevanceKernel


def stationary_kernel(
    dim: int, batch: torch.Size | None = None, lengthscale: float | None = None
) -> ScaleKernel:
    r"""A scaled Matern-5/2 kernel of all inputs at once, with narrow priors in logs.

    Most runs on record are under it. Its lengthscales have the mode ``lengthscale``, by
    default :math:`e^{\sqrt 2 - 3} \sqrt{\min(d, 6)}`, and the deviation 0.4 in logs;
    its output scale has the mode :math:`60 / \max(d, 6)` and the deviation 0.7.

    Args:
        dim: Number of inputs ``d``.
        batch: The batch shape.
        lengthscale: The mode of the lengthscales.
    """
    shape = torch.Size() if batch is None else batch
    mode = lengthscale or math.exp(math.sqrt(2) - 3) * math.sqrt(min(dim, 6))
    base = MaternKernel(
        nu=2.5,
        ard_num_dims=dim,
        batch_shape=shape,
        lengthscale_prior=LogNormalPrior(math.log(mode) + 0.4**2, 0.4),
        lengthscale_constraint=GreaterThan(
            0.025, transform=torch.exp, inv_transform=torch.log
        ),
    ).double()
    base.lengthscale = mode
    kernel = ScaleKernel(
        base,
        batch_shape=shape,
        outputscale_constraint=Positive(transform=torch.exp, inv_transform=torch.log),
    ).double()
    return spread_around(kernel, 60 / max(dim, 6), 0.7)


def spread_around(kernel: ScaleKernel, mode: float, spread: float) -> ScaleKernel:
    """The kernel with another mode and spread of its output scale in logs."""
    prior = LogNormalPrior(math.log(mode) + spread**2, spread)
    kernel.register_prior("outputscale_prior", prior, "outputscale")
    kernel.outputscale = mode
    return kernel


def short_kernel(dim: int, batch: torch.Size) -> ScaleKernel:
    """The stationary kernel with 0.7 times its lengthscales."""
    return stationary_kernel(dim, batch, 0.145 * min(dim, 6) ** 0.5)


def long_kernel(dim: int, batch: torch.Size) -> ScaleKernel:
    """The stationary kernel; lengthscales grow with the dimension as BoTorch's do."""
    return stationary_kernel(dim, batch, math.exp(2**0.5 - 3) * dim**0.5)


def wide_kernel(dim: int, batch: torch.Size) -> ScaleKernel:
    """The stationary kernel with a wider prior of its output scale: 1.2 for 0.7."""
    return spread_around(stationary_kernel(dim, batch), 60 / max(dim, 6), 1.2)


def large_kernel(dim: int, batch: torch.Size) -> ScaleKernel:
    """The stationary kernel, whose output scale has a mode of ten with many inputs."""
    return spread_around(stationary_kernel(dim, batch), 10.0, 0.7)


def pairwise_kernel(dim: int, batch: torch.Size) -> ScaleKernel:
    """That of BoTorch's `PairwiseGP`, whose scales are nearly free.

    Its prior of the output scale is all but flat from 0.01 to 100, and sums over a
    batch: bounds stand for it.
    """
    base = RBFKernel(
        ard_num_dims=dim,
        batch_shape=batch,
        lengthscale_prior=GammaPrior(2.4, 2.7),
        lengthscale_constraint=GreaterThan(1e-4),
    )
    kernel = ScaleKernel(
        base,
        batch_shape=batch,
        outputscale_constraint=Interval(1e-2, 1e2),
    ).double()
    base.lengthscale = 1.4 / 2.7
    kernel.outputscale = 1.0
    return kernel


def scaled(
    dim: int, choices: Sequence[Sequence[int]] = (), times: float = 1.0, **priors: float
) -> ScaleKernel:
    """`DuelKernel` with other priors.

    Args:
        dim: Number of features.
        choices: The columns of each unordered choice.
        times: Of the mode of the output scale.
        priors: Keywords of `RelevanceKernel`.
    """
    base = RelevanceKernel(dim, categorical=choices, **priors).double()
    positive = Positive(transform=torch.exp, inv_transform=torch.log)
    kernel = ScaleKernel(base, outputscale_constraint=positive).double()
    return spread_around(kernel, times * 60 / max(dim, 6), 1.0)
