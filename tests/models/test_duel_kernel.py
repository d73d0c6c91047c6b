"""The kernel for few answers: its priors, its start, and what it is there for."""

import math

import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models.utils.gpytorch_modules import get_covar_module_with_dim_scaled_prior
from cases import in_turn
from draws import uniform

from botorch_pref import (
    DuelKernel,
    EPPreferenceGP,
    PreferenceMarginalLogLikelihood,
)
from botorch_pref.errors import FeedbackError

DOUBLE = torch.float64


@in_turn("dim", [0, -1])
def test_a_kernel_has_features(dim: int) -> None:
    with pytest.raises(FeedbackError, match=f"dim is {dim}; give an integer of at"):
        DuelKernel(dim)


@in_turn("dim", [1, 3])
def test_points_of_other_dimensions_are_refused(dim: int) -> None:
    """One lengthscale would broadcast, three would fail without a name."""
    points = uniform(4, 2)
    model = EPPreferenceGP(
        points, torch.tensor([[0, 1]]), covar_module=DuelKernel(dim).double()
    )
    with pytest.raises(FeedbackError, match=f"2 features and DuelKernel {dim}"):
        model.posterior(points)


@in_turn("mode", [0.025, 0.0, -1.0, math.inf, math.nan])
def test_modes_that_lengthscales_cannot_have_are_refused(mode: float) -> None:
    with pytest.raises(FeedbackError, match=f"lengthscale is {mode}; give a finite"):
        DuelKernel(2, lengthscale=mode)


@in_turn(("dim", "own"), [(1, None), (6, None), (64, None), (20, 0.36)])
def test_priors_and_start(dim: int, own: float | None) -> None:
    """Log densities are those of the docstring, and the start is at both modes.

    From six features on the mode of lengthscales stays, and that of the scale falls.
    """
    kernel = DuelKernel(dim, lengthscale=own).double()
    base = kernel.base_kernel
    default = get_covar_module_with_dim_scaled_prior(ard_num_dims=min(dim, 6))
    mode = own or float(default.lengthscale_prior.mode)
    torch.testing.assert_close(
        base.lengthscale.detach(), torch.full((1, dim), mode, dtype=DOUBLE)
    )
    scale = {1: 10.0, 6: 10.0, 20: 3.0, 64: 0.9375}[dim]
    assert float(kernel.outputscale.detach()) == pytest.approx(scale)
    for prior, at, spread in (
        (base.lengthscale_prior, mode, 0.4),
        (kernel.outputscale_prior, scale, 0.7),
    ):
        values = at * torch.tensor([0.2, 1.0, 5.0], dtype=DOUBLE)
        density = prior.log_prob(values)
        expected = -(math.log(5) ** 2) / (2 * spread**2)
        assert float(density[0] - density[1]) == pytest.approx(expected, rel=1e-5)
        assert float(density[2] - density[1]) == pytest.approx(expected, rel=1e-5)


def test_few_answers_do_not_carry_the_scales_away() -> None:
    """Six answers of a coin: the default kernel's lengthscales leave by factors."""
    X = uniform(12, 2, seed=3)
    pairs = torch.arange(12).reshape(6, 2)
    model = EPPreferenceGP(X, pairs, covar_module=DuelKernel(2))
    fit_gpytorch_mll(PreferenceMarginalLogLikelihood(model.likelihood, model))
    start = DuelKernel(2).base_kernel.lengthscale.detach()
    ratio = (model.covar_module.base_kernel.lengthscale / start).log().abs()
    # Within three deviations of the prior's logarithm.
    assert float(ratio.detach().amax()) < 1.2
