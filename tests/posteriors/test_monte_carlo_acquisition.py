"""BoTorch's Monte-Carlo acquisition functions on the skewed posterior.

The truth is independent sampling of the posterior's mixture: a component at random, a
Gaussian around it, and the acquisition function's definition.
"""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.acquisition.logei import (
    qLogNoisyExpectedImprovement,
)
from botorch.acquisition.monte_carlo import (
    qUpperConfidenceBound,
)
from botorch.acquisition.preference import qExpectedUtilityOfBestOption
from botorch.models.model import Model
from botorch.sampling.base import MCSampler
from botorch.sampling.normal import IIDNormalSampler, SobolQMCNormalSampler
from gpytorch.kernels import RBFKernel, ScaleKernel
from torch import Tensor

from botorch_pref import (
    AffineProbitLikelihood,
    Comparisons,
    PairwiseProbitLikelihood,
    SkewPreferenceGP,
    Validity,
)

F64 = torch.float64
NUM_SAMPLES, NUM_BRUTE = 1024, 100_000
BETA = 1.5


def uniform(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(*shape, generator=generator, dtype=F64)


POINTS = uniform(6, 2)
PAIRS = torch.tensor([[0, 1], [0, 2], [0, 3], [0, 4], [0, 5]])


def preference_model(points: Tensor = POINTS, num_draws: int = 128) -> SkewPreferenceGP:
    """Little noise beside the output scale: a clearly skewed posterior."""
    kernel = ScaleKernel(RBFKernel()).double()
    kernel.outputscale, kernel.base_kernel.lengthscale = 4.0, 0.4
    return SkewPreferenceGP(
        points,
        PAIRS,
        feedback=[Validity(torch.tensor([1, 2]), torch.tensor([True, False]))],
        likelihood={
            Comparisons: PairwiseProbitLikelihood(0.02),
            Validity: AffineProbitLikelihood(0.02),
        },
        covar_module=kernel,
        num_draws=num_draws,
    ).eval()


@pytest.fixture(scope="module")
def model() -> SkewPreferenceGP:
    model = preference_model()
    assert model.posterior(POINTS).skewness.abs().max() > 0.4
    return model


def brute_force(model: Model, X: Tensor, count: int = NUM_BRUTE) -> Tensor:
    """Independent joint samples at ``q x d`` points, ``count x q``."""
    generator = torch.Generator().manual_seed(4)
    with torch.no_grad():
        posterior = model.posterior(X)
    means = posterior.component_means
    component = torch.randint(len(means), (count,), generator=generator)
    values, vectors = torch.linalg.eigh(posterior.component_covariance)
    normal = torch.randn(count, X.shape[-2], generator=generator, dtype=F64)
    return means[component] + (normal * values.clamp_min(0).sqrt()) @ vectors.T


def sobol(count: int = NUM_SAMPLES) -> SobolQMCNormalSampler:
    return SobolQMCNormalSampler(torch.Size([count]), seed=0)


@dataclass(frozen=True)
class Case:
    """An acquisition function and the samples whose mean it is.

    Attributes:
        build: Takes a model and a sampler.
        of_samples: Takes samples at the baseline and the candidates, ``n x (b + q)``.
        logarithm: Whether the function returns the logarithm.
        bias: What smoothing may add.
    """

    build: Callable[[Model, MCSampler], AcquisitionFunction]
    of_samples: Callable[[Tensor], Tensor]
    logarithm: bool = False
    bias: float = 0.0


def candidates(f: Tensor) -> Tensor:
    return f[:, len(POINTS) :]


def noisy_improvement(f: Tensor) -> Tensor:
    return (candidates(f).amax(-1) - f[:, : len(POINTS)].amax(-1)).clamp_min(0)


def upper_bound(f: Tensor) -> Tensor:
    mean = candidates(f).mean(0)
    spread = (BETA * torch.pi / 2) ** 0.5 * (candidates(f) - mean).abs()
    return (mean + spread).amax(-1)


# BoTorch's smooth maximum and ReLU, sharper than by default.
SHARP = {"tau_max": 1e-3, "tau_relu": 1e-6}
CASES = {
    "qEUBO": Case(
        lambda m, s: qExpectedUtilityOfBestOption(m, sampler=s),
        lambda f: candidates(f).amax(-1),
    ),
    "qLogNEI": Case(
        lambda m, s: qLogNoisyExpectedImprovement(
            m, POINTS, s, prune_baseline=False, **SHARP
        ),
        noisy_improvement,
        logarithm=True,
        bias=3e-3,
    ),
    "qUCB": Case(lambda m, s: qUpperConfidenceBound(m, BETA, s), upper_bound),
}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


@pytest.mark.parametrize(
    ("kind", "q"), [(IIDNormalSampler, 1), (SobolQMCNormalSampler, 3)]
)
def test_values_are_those_of_independent_samples(
    model: Model, case: Case, kind: type[MCSampler], q: int
) -> None:
    """Five standard errors of both samples; quasi-random ones do better."""
    X = uniform(4, q, 2, seed=2)
    acquisition = case.build(model, kind(torch.Size([NUM_SAMPLES]), seed=0))
    with torch.no_grad():
        values = acquisition(X)
    for value, x in zip(values, X, strict=True):
        truth = case.of_samples(brute_force(model, torch.cat([POINTS, x])))
        error = truth.std() * (1 / NUM_SAMPLES + 1 / NUM_BRUTE) ** 0.5
        value = value.exp() if case.logarithm else value
        assert (value - truth.mean()).abs() < 5 * error + case.bias


def test_a_candidate_has_one_value_in_any_t_batch(model: Model, case: Case) -> None:
    acquisition = case.build(model, sobol(64))
    X = uniform(5, 2, 2, seed=3).requires_grad_()
    together = acquisition(X)
    (slope,) = torch.autograd.grad(together.sum(), X)
    for i in (0, 3):
        alone = X[i : i + 1].detach().requires_grad_()
        value = acquisition(alone)
        torch.testing.assert_close(value, together[i : i + 1])
        torch.testing.assert_close(
            torch.autograd.grad(value, alone)[0], slope[i : i + 1]
        )
    # A new instance with the same seed, which meets this candidate first.
    torch.testing.assert_close(
        case.build(model, sobol(64))(X[3:4]), together[3:4], rtol=1e-10, atol=1e-12
    )


# --- Preference exploration over outcomes
