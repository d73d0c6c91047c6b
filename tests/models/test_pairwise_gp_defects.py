"""What BoTorch's `PairwiseGP` gets wrong, and ours must not.

Each test is about one defect of BoTorch 0.18.1. The contracts hold every model to the
other ones: copies (1), conditioning (2), rankings (7), batches (9) and outputs (10).
"""

import math
from typing import Any

import pytest
import scipy.optimize
import scipy.stats
import torch
from gpytorch.kernels import RBFKernel, ScaleKernel
from gpytorch.means import LinearMean
from torch import Tensor
from truths.slopes import central_slopes

from botorch_pref import (
    EPPreferenceGP,
    LaplacePreferenceGP,
    SkewPreferenceGP,
)

DOUBLE = torch.float64
OURS = [LaplacePreferenceGP, EPPreferenceGP, SkewPreferenceGP]
GAUSSIAN = OURS[:2]
PAIR = torch.tensor([[0, 1]])
POINTS = torch.tensor([[0.1, 0.2], [0.7, 0.5], [0.3, 0.9], [0.9, 0.1]], dtype=DOUBLE)
NEW = torch.tensor([[0.4, 0.4], [0.2, 0.8], [0.8, 0.7]], dtype=DOUBLE)


@pytest.fixture(params=OURS, ids=lambda cls: cls.__name__)
def cls(request: pytest.FixtureRequest) -> Any:
    return request.param


def kernel(outputscale: float = 2.0, lengthscale: float = 0.5) -> ScaleKernel:
    module = ScaleKernel(RBFKernel()).double()
    module.outputscale = outputscale
    module.base_kernel.lengthscale = lengthscale
    return module


def moments(posterior: Any) -> tuple[Tensor, Tensor]:
    return posterior.mean.detach(), posterior.covariance_matrix.detach()


def sampling_error(cls: Any) -> float:
    """Six standard errors of 1,024 draws, in posterior standard deviations."""
    return 6 / 32 if cls is SkewPreferenceGP else 0.0


def assert_same_posterior(cls: Any, actual: Any, expected: Any, atol: float) -> None:
    (mean, covariance), (true_mean, true_covariance) = (
        moments(actual),
        moments(expected),
    )
    error = sampling_error(cls)
    variance = true_covariance.diagonal().max().item()
    torch.testing.assert_close(
        mean, true_mean, rtol=0, atol=atol + error * math.sqrt(variance)
    )
    torch.testing.assert_close(
        covariance, true_covariance, rtol=0, atol=atol + 1.5 * error * variance
    )


@pytest.mark.parametrize("outputscale", [10.0, 100.0, 1e6])
def test_4_the_mode_of_many_equal_answers(outputscale: float) -> None:
    covar = kernel(outputscale)
    model = LaplacePreferenceGP(POINTS[:2], PAIR.expand(200, 2), covar_module=covar)
    with torch.no_grad():
        k = covar(POINTS[:2]).to_dense()
    variance = (k[0, 0] + k[1, 1] - 2 * k[0, 1]).item()

    def gradient(d: float) -> float:
        z = d / math.sqrt(2)
        log_hazard = scipy.stats.norm.logpdf(z) - scipy.stats.norm.logcdf(z)
        return 200 * math.exp(log_hazard) / math.sqrt(2) - d / variance

    truth = scipy.optimize.brentq(gradient, 0.0, 50.0, xtol=1e-13)
    mode = model.duel_posterior(POINTS[:1], POINTS[1:2]).mean.item()
    assert mode == pytest.approx(truth, rel=1e-7)


@pytest.mark.parametrize("model_class", GAUSSIAN)
@pytest.mark.parametrize("difference", [-800.0, -6.0, 6.0, 800.0])
def test_5_the_gradient_of_the_evidence_at_extreme_differences(
    model_class: Any, difference: float
) -> None:
    mean = LinearMean(1, bias=False).double()
    mean.weights.data.fill_(difference)
    x = torch.tensor([[1.0], [0.0]], dtype=DOUBLE)
    model = model_class(x, PAIR, mean_module=mean, covar_module=kernel(2.0, 0.1))
    value = model.log_evidence()
    variance = 4 * (1 - math.exp(-50))
    # For one comparison the evidence is Phi(mean / sqrt(variance + 2 noise)).
    truth = scipy.stats.norm.logcdf(difference / math.sqrt(variance + 2))
    if model_class is EPPreferenceGP or abs(difference) > 100:
        assert value.item() == pytest.approx(truth, rel=1e-6, abs=1e-12)
    else:
        truth = _laplace_evidence(difference, variance)
        assert value.item() == pytest.approx(truth, rel=1e-6)
    parameters = [mean.weights, *model.covar_module.parameters()]
    for parameter, gradient in zip(
        parameters, torch.autograd.grad(value, parameters), strict=True
    ):
        step = 1e-3 * max(1.0, parameter.abs().item())
        expected = central_slopes(model.log_evidence, parameter, step).item()
        rounding = 1e-11 * abs(value.item()) / step
        assert gradient.item() == pytest.approx(expected, rel=1e-4, abs=1e-8 + rounding)


@pytest.mark.parametrize("distance", [1e-4, 1e-12])
def test_6_near_duplicates_are_almost_duplicates(cls: Any, distance: float) -> None:
    # Three mutually close points, compared with others and with each other.
    close = POINTS[:1] + distance * torch.tensor(
        [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], dtype=DOUBLE
    )
    pairs = torch.tensor([[0, 3], [4, 1], [2, 5], [0, 1], [2, 0], [1, 2]])
    near = cls(torch.cat([close, POINTS[1:]]), pairs, covar_module=kernel())
    same = torch.cat([POINTS[:1].expand(3, 2), POINTS[1:]])
    exact = cls(same, pairs, covar_module=kernel())
    # Utilities of points at this distance differ by about two distances in deviation.
    tolerance = 10 * distance + 1e-6
    assert_same_posterior(cls, near.posterior(NEW), exact.posterior(NEW), tolerance)
    torch.testing.assert_close(
        near.train().log_evidence(),
        exact.train().log_evidence(),
        rtol=0,
        atol=tolerance,
    )


class _CountingKernel(RBFKernel):
    """Counts how often it is evaluated between the training points."""

    count = 0

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **params: Any) -> Any:
        type(self).count += x1.shape[-2] == x2.shape[-2] == 9
        return super().forward(x1, x2, diag=diag, **params)


def test_8_prediction_solves_nothing_anew(cls: Any) -> None:
    _CountingKernel.count = 0
    x = torch.linspace(0, 1, 18, dtype=DOUBLE).view(9, 2)
    model = cls(x, torch.tensor([[0, 1], [2, 3]]), covar_module=_CountingKernel())
    model.posterior(NEW)
    first = _CountingKernel.count
    assert first > 0
    for _ in range(3):
        model.posterior(NEW.expand(6, 3, 2))
        model.duel_probability(NEW[:1], NEW[1:])
    assert first == _CountingKernel.count


def _laplace_evidence(mean: float, variance: float) -> float:
    """Laplace's evidence of one comparison with unit noise, in one dimension."""

    def negative(d: float) -> float:
        log_prob = scipy.stats.norm.logcdf(d / math.sqrt(2))
        return -log_prob + 0.5 * (d - mean) ** 2 / variance

    mode = scipy.optimize.minimize_scalar(negative, tol=1e-14).x
    z = mode / math.sqrt(2)
    hazard = math.exp(scipy.stats.norm.logpdf(z) - scipy.stats.norm.logcdf(z))
    curvature = hazard * (z + hazard) / 2
    return -negative(mode) - 0.5 * math.log1p(variance * curvature)
