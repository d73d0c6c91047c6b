"""BoTorch's Monte-Carlo acquisition functions on the skewed posterior.

The truth is independent sampling of the posterior's mixture: a component at random, a
Gaussian around it, and the acquisition function's definition.
"""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.acquisition.factory import get_acquisition_function
from botorch.acquisition.input_constructors import get_acqf_input_constructor
from botorch.acquisition.logei import (
    qLogExpectedImprovement,
    qLogNoisyExpectedImprovement,
)
from botorch.acquisition.monte_carlo import (
    qProbabilityOfImprovement,
    qSimpleRegret,
    qUpperConfidenceBound,
)
from botorch.acquisition.objective import GenericMCObjective, LearnedObjective
from botorch.acquisition.preference import qExpectedUtilityOfBestOption
from botorch.models import SingleTaskGP
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
BEST, BETA = 0.4, 1.5


def uniform(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(*shape, generator=generator, dtype=F64)


POINTS = uniform(6, 2)
PAIRS = torch.tensor([[0, 1], [0, 2], [0, 3], [0, 4], [0, 5]])
PENDING = uniform(2, 2, seed=8)


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


def improvement(f: Tensor) -> Tensor:
    return (candidates(f).amax(-1) - BEST).clamp_min(0)


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
    "qSimpleRegret": Case(
        lambda m, s: qSimpleRegret(m, s), lambda f: candidates(f).amax(-1)
    ),
    "qLogEI": Case(
        lambda m, s: qLogExpectedImprovement(m, BEST, s, **SHARP),
        improvement,
        logarithm=True,
        bias=3e-3,
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
    "qPI": Case(
        lambda m, s: qProbabilityOfImprovement(m, BEST, s, tau=1e-4),
        lambda f: (candidates(f).amax(-1) > BEST).double(),
    ),
}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


@pytest.mark.parametrize("q", [1, 3])
@pytest.mark.parametrize("kind", [SobolQMCNormalSampler, IIDNormalSampler])
def test_values_are_those_of_independent_samples(
    model: Model, case: Case, q: int, kind: type[MCSampler]
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


def test_gradients_are_those_of_finite_differences(model: Model, case: Case) -> None:
    acquisition = case.build(model, sobol(16))
    X = uniform(2, 2, 2, seed=5).requires_grad_()
    assert torch.autograd.gradcheck(acquisition, (X,), eps=1e-7, atol=1e-5)


@pytest.mark.parametrize("name", ["qEUBO", "qSimpleRegret", "qLogEI", "qUCB"])
def test_pending_points_join_the_candidates(model: Model, name: str) -> None:
    case = CASES[name]
    acquisition, pending = case.build(model, sobol(64)), case.build(model, sobol(64))
    pending.set_X_pending(PENDING)
    X = uniform(3, 1, 2, seed=6)
    both = torch.cat([X, PENDING.expand(3, -1, -1)], dim=-2)
    torch.testing.assert_close(pending(X), acquisition(both))


@pytest.mark.parametrize("name", ["qLogNEI", "qUCB"])
def test_the_factory_finds_a_sampler(model: Model, name: str) -> None:
    objective = GenericMCObjective(lambda samples, X: 2 * samples.squeeze(-1))
    acquisition = get_acquisition_function(
        name, model, objective, X_observed=POINTS, mc_samples=32, seed=1, beta=BETA
    )
    X = uniform(3, 2, 2, seed=6)
    assert isinstance(acquisition.sampler, SobolQMCNormalSampler)
    values = acquisition(X)
    torch.testing.assert_close(acquisition(X[1:2]), values[1:2])
    assert values.isfinite().all()
    assert values.unique().numel() == 3


# --- Preference exploration over outcomes


@pytest.fixture(scope="module")
def outcomes() -> SingleTaskGP:
    x = uniform(8, 2, seed=9)
    values = torch.stack([x.sum(-1), x[:, 0] - x[:, 1]], dim=-1)
    values = (values - values.mean(0)) / values.std(0)
    return SingleTaskGP(x, values, outcome_transform=None).eval()


def test_learned_objective_averages_over_both_posteriors(
    model: Model, outcomes: SingleTaskGP
) -> None:
    """E over outcomes y(X) and utilities f(y(X)) of the best f."""
    count, draws = 512, 16
    acquisition = qSimpleRegret(
        outcomes,
        sampler=sobol(count),
        objective=LearnedObjective(model, torch.Size([draws]), seed=0),
    )
    X = uniform(3, 2, 2, seed=10)
    with torch.no_grad():
        values = acquisition(X)
    generator = torch.Generator().manual_seed(4)
    for value, x in zip(values, X, strict=True):
        with torch.no_grad():
            posterior = outcomes.posterior(x)
            # Outcome by outcome, as GPyTorch orders those that are independent.
            root = torch.linalg.cholesky(posterior.covariance_matrix)
            normal = torch.randn(20_000, 4, generator=generator, dtype=F64)
            y = posterior.mean + (normal @ root.T).view(-1, 2, 2).mT
            utility = model.posterior(y)
        means = utility.component_means
        component = torch.randint(len(means), (len(y),), generator=generator)
        centre = means[component, torch.arange(len(y))]
        inner = torch.linalg.cholesky(utility.component_covariance)
        normal = torch.randn(len(y), 2, 1, generator=generator, dtype=F64)
        best = (centre + (inner @ normal).squeeze(-1)).amax(-1)
        # Draws of one outcome are alike: at worst they count as one.
        error = best.std() * (1 / count + 1 / len(y)) ** 0.5
        assert (value - best.mean()).abs() < 5 * error


@pytest.mark.parametrize("with_outcomes", [False, True])
def test_input_constructors_of_preference_exploration(
    model: Model, outcomes: SingleTaskGP, with_outcomes: bool
) -> None:
    construct = get_acqf_input_constructor(qExpectedUtilityOfBestOption)
    X = uniform(3, 2, 2, seed=6)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        if not with_outcomes:
            arguments = construct(model=model, sampler=sobol(32))
            expected = qExpectedUtilityOfBestOption(model, sampler=sobol(32))(X)
        else:
            arguments = construct(model=outcomes, pref_model=model, sampler=sobol(32))
            y = arguments["outcome_model"].posterior(X).mean
            expected = qExpectedUtilityOfBestOption(model, sampler=sobol(32))(y)
    values = qExpectedUtilityOfBestOption(**arguments)(X)
    torch.testing.assert_close(values, expected)
