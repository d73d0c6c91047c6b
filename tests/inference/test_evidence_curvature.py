"""Second derivatives of evidences in scales, against other ways to differentiate."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from draws import normal, uniform
from gpytorch.kernels import Kernel, MaternKernel, RBFKernel, ScaleKernel
from scipy.special import log_ndtr
from torch import Tensor

from botorch_pref import (
    Comparisons,
    EPPreferenceGP,
    LaplacePreferenceGP,
    PairwiseProbitLikelihood,
)
from botorch_pref.feedback import Validity
from botorch_pref.inference.sweeps import HalfLines
from botorch_pref.linalg.covariance import RowKernel
from botorch_pref.models import PreferenceGP

ENGINES = [EPPreferenceGP, LaplacePreferenceGP]
KERNELS = {
    "RBF": lambda d: RBFKernel(ard_num_dims=d),
    "Matern": lambda d: MaternKernel(2.5, ard_num_dims=d),
    "one lengthscale": lambda d: RBFKernel(),
}


def kernel_of(name: str, dim: int) -> Any:
    kernel: Any = ScaleKernel(KERNELS[name](dim)).double()
    kernel.outputscale = 2.3
    scales = kernel.base_kernel.lengthscale.shape[-1]
    kernel.base_kernel.lengthscale = torch.linspace(0.4, 0.9, scales).double()
    return kernel


def scaled(kernel: Any, logs: Tensor) -> None:
    kernel.base_kernel.lengthscale = logs[:-1].exp()
    kernel.outputscale = logs[-1].exp()


def logs_of(kernel: Any) -> Tensor:
    scales = kernel.base_kernel.lengthscale.flatten(), kernel.outputscale.view(1)
    return torch.cat(scales).log().detach()


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("num_terms", [1, 2, 3])
def test_the_kernel_of_rows_has_the_derivatives_of_autograd(
    name: str, num_terms: int
) -> None:
    m, n, d = 4, 6, 2
    x = uniform(n, d, seed=3)
    x[4] = x[1]  # a copy
    kernel = kernel_of(name, d)
    coefficients = normal(m, num_terms, seed=4)
    indices = (uniform(m, num_terms, seed=5) * n).long()
    design = torch.zeros(m, n).double()
    design.index_put_(
        (torch.arange(m)[:, None].expand_as(indices), indices), coefficients, True
    )

    def covariance(logs: Tensor) -> Tensor:
        z = x / logs[:-1].exp()
        squares = (z[:, None] - z).square().sum(-1)
        # Of distances of zero the root has no derivative.
        root = (5 * squares.where(squares > 0, 1.0)).sqrt()
        value = (-0.5 * squares).exp()
        if name == "Matern":
            value = (1 + root + root.square() / 3) * (-root).exp()
            value = value.where(squares > 0, 1.0)
        return logs[-1].exp() * design @ value @ design.mT

    row_kernel = RowKernel(kernel, x, indices, coefficients)
    slopes, logs = row_kernel.slopes(), logs_of(kernel)
    first = torch.autograd.functional.jacobian(covariance, logs).permute(2, 0, 1)
    np.testing.assert_allclose(row_kernel.first(slopes), first, rtol=1e-9, atol=1e-11)
    weights = normal(m, m, seed=6)
    weights = weights + weights.mT
    second = torch.autograd.functional.hessian(
        lambda logs: (weights * covariance(logs)).sum(), logs
    )
    hessian = row_kernel.second(slopes, weights.numpy())
    np.testing.assert_allclose(hessian, second, rtol=1e-8, atol=1e-9)


def test_half_lines_have_four_derivatives_of_a_log_partition() -> None:
    mean, variance = 2 * normal(12, seed=1).numpy(), normal(12, seed=2).exp().numpy()
    sides = np.where(np.arange(12) % 3 > 0, 1.0, -1.0)
    ends, noise = normal(12, seed=3).numpy(), normal(12, seed=4).exp().numpy()
    lines = HalfLines(sides, ends, noise)

    def value(mean: np.ndarray) -> np.ndarray:
        return log_ndtr(sides * (mean - ends) / np.sqrt(noise + variance))

    h = 1e-5
    below, above = (lines.derivatives(mean + step, variance) for step in (-h, h))
    derivatives = lines.derivatives(mean, variance)
    slope = (value(mean + h) - value(mean - h)) / (2 * h)
    np.testing.assert_allclose(derivatives[0], slope, rtol=1e-8, atol=1e-9)
    for order in range(3):
        slope = (above[order] - below[order]) / (2 * h)
        np.testing.assert_allclose(derivatives[order + 1], slope, rtol=1e-7, atol=1e-8)


def duels() -> tuple[Tensor, Tensor]:
    """Draws points, and pairs of a judge who errs, each of them once."""
    X, first = uniform(14, 2, seed=0), torch.arange(12)
    pairs = torch.stack([first, (first + 2) % 14], dim=-1)
    f = (4 * X[:, 0]).sin() - X[:, 1]
    noisy_utilities = f[pairs] + 0.4 * normal(12, 2, seed=2)
    return X, pairs.gather(-1, noisy_utilities.argsort(-1, descending=True))


def model_of(engine: type[PreferenceGP], kernel: Kernel, kind: str) -> PreferenceGP:
    if kind == "duels":
        X, pairs = duels()
        likelihood = PairwiseProbitLikelihood(0.2)
        return engine(X, pairs, likelihood=likelihood, covar_module=kernel)
    X = uniform(9, 2, seed=8)
    valid = Validity(torch.arange(9), X.sum(-1) + 0.3 * normal(9, seed=9) > 1)
    return engine(X, feedback=[valid], covar_module=kernel)


@pytest.mark.parametrize("engine", ENGINES, ids=lambda cls: cls.__name__)
@pytest.mark.parametrize("kind", ["duels", "validity"])
@pytest.mark.parametrize("name", KERNELS)
def test_evidences_have_the_derivatives_of_differences_of_gradients(
    name: str, kind: str, engine: type[PreferenceGP]
) -> None:
    """Those of the gradient, which is compared with those of the evidence elsewhere."""
    kernel = kernel_of(name, 2)
    model = model_of(engine, kernel, kind)
    raw = [kernel.base_kernel.raw_lengthscale, kernel.raw_outputscale]

    def flat(value: Tensor) -> Tensor:
        return torch.cat([g.flatten() for g in torch.autograd.grad(value, raw)])

    def gradient(logs: Tensor) -> Tensor:
        scaled(kernel, logs)
        scales = kernel.base_kernel.lengthscale.flatten(), kernel.outputscale.view(1)
        return flat(model.log_evidence()) / flat(torch.cat(scales).log().sum())

    start = logs_of(kernel)
    h = 1e-2 * torch.eye(len(start)).double()
    # With five points, whose error is of fourth order.
    slopes = [
        (
            8 * (gradient(start + s) - gradient(start - s))
            - gradient(start + 2 * s)
            + gradient(start - 2 * s)
        )
        / 0.12
        for s in h
    ]
    expected = gradient(start)
    rows = model.factors().rows
    row_kernel = RowKernel(
        kernel, model.transformed_points(), rows.indices, rows.coefficients
    )
    solution: Any = model.evidence_solution()
    first, second = solution.evidence_derivatives(row_kernel)
    np.testing.assert_allclose(first, expected, rtol=1e-6, atol=1e-7)
    hessian = torch.stack(slopes).numpy()
    # Sites end at 1e-7 of a deviation, which a difference divides by the step.
    np.testing.assert_allclose(second, hessian, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("engine", ENGINES, ids=lambda cls: cls.__name__)
@pytest.mark.parametrize("why", ["ties", "repeated duels", "more rows than points"])
def test_there_are_none_where_they_are_not_known(
    why: str, engine: type[PreferenceGP]
) -> None:
    X, pairs = duels()
    answers = {
        "ties": Comparisons(pairs[:6], ties=pairs[6:]),
        "repeated duels": Comparisons(torch.cat([pairs, pairs[:3]])),
        "more rows than points": Comparisons(torch.combinations(torch.arange(4))),
    }
    X = X[:4] if why == "more rows than points" else X
    kernel = kernel_of("RBF", 2)
    model = engine(X, answers[why], covar_module=kernel)
    rows = model.factors().rows
    row_kernel = RowKernel(
        kernel, model.transformed_points(), rows.indices, rows.coefficients
    )
    solution: Any = model.evidence_solution()
    assert solution.evidence_derivatives(row_kernel) is None
