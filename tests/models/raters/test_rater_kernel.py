"""Kernels over stimuli and raters, and their random features."""

import copy
import math
import pickle
from collections.abc import Callable

import torch
from botorch.sampling.pathwise import gen_kernel_features
from botorch.utils.sampling import manual_seed
from cases import in_turn
from draws import uniform
from gpytorch.kernels import Kernel, MaternKernel, ProductKernel, RBFKernel, ScaleKernel
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from botorch_pref.models import AgreementKernel, rater_covar_module

DOUBLE = torch.float64


def numbered(n: int, num_raters: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    numbers = torch.randint(num_raters, (n, 1), generator=generator)
    return torch.cat([uniform(n, 2, seed=seed), numbers.double()], dim=-1)


def rbf(a: Tensor, b: Tensor, lengthscale: Tensor) -> float:
    return math.exp(-0.5 * float(((a - b) / lengthscale).square().sum()))


def settled(kernel: ProductKernel) -> ProductKernel:
    kernel = kernel.double()
    kernel.kernels[0].outputscale = 3.0
    kernel.kernels[0].base_kernel.lengthscale = torch.tensor([[0.3, 0.7]])
    return kernel


def test_numbers_of_raters_entry_by_entry() -> None:
    kernel = settled(rater_covar_module(2))
    kernel.kernels[1].agreement = 0.4
    first, second = numbered(7, 3), numbered(5, 4, seed=1)
    lengthscale = torch.tensor([0.3, 0.7], dtype=DOUBLE)
    expected = torch.tensor(
        [
            [
                3 * rbf(a[:2], b[:2], lengthscale) * (1.0 if a[2] == b[2] else 0.4)
                for b in second
            ]
            for a in first
        ]
    ).double()
    dense = kernel(first, second).to_dense().detach()
    torch.testing.assert_close(dense, expected, rtol=1e-6, atol=1e-7)
    diagonal = kernel(first, diag=True).detach()
    torch.testing.assert_close(diagonal, torch.full((7,), 3.0).to(diagonal))


def test_features_of_raters_entry_by_entry() -> None:
    kernel = settled(rater_covar_module(2, rater_dim=2))
    kernel.kernels[1].lengthscale = torch.tensor([[0.5, 2.0]])
    first, second = uniform(6, 4), uniform(4, 4, seed=1)
    lengthscales = torch.tensor([0.3, 0.7, 0.5, 2.0], dtype=DOUBLE)
    expected = [[3 * rbf(a, b, lengthscales) for b in second] for a in first]
    dense = kernel(first, second).to_dense().detach()
    torch.testing.assert_close(
        dense, torch.tensor(expected).double(), rtol=1e-6, atol=1e-7
    )


@given(st.floats(0.01, 0.99), st.integers(1, 8))
def test_the_shared_and_the_own_part(agreement: float, num_raters: int) -> None:
    """Every stimulus at every rater: a Kronecker product, positive definite."""
    kernel = AgreementKernel().double()
    kernel.agreement = agreement
    numbers = torch.arange(num_raters, dtype=DOUBLE).unsqueeze(-1)
    dense = kernel(numbers).to_dense().detach()
    shared = agreement * torch.ones(num_raters, num_raters, dtype=DOUBLE)
    rater_covariance = (1 - agreement) * torch.eye(num_raters, dtype=DOUBLE)
    torch.testing.assert_close(dense, shared + rater_covariance)
    assert float(torch.linalg.eigvalsh(dense).min()) > 0.999 * (1 - agreement)


def test_one_agreement_for_each_model_of_a_batch() -> None:
    kernel = AgreementKernel(torch.Size([2])).double()
    kernel.agreement = torch.tensor([0.2, 0.9])
    numbers = torch.tensor([[0.0], [1.0], [0.0]], dtype=DOUBLE)
    dense = kernel(numbers).to_dense()
    assert dense.shape == (2, 3, 3)
    torch.testing.assert_close(dense[:, 0, 1], torch.tensor([0.2, 0.9]).to(dense))
    assert bool((dense[:, 0, 2] == 1).all())
    assert kernel(numbers, diag=True).shape == (2, 3)


def test_the_prior_of_the_agreement_is_nearly_flat() -> None:
    """The density of the agreement: that of its log odds times their derivative."""
    prior = AgreementKernel().agreement_prior
    agreement = torch.linspace(0.1, 0.9, 41)
    log_odds = agreement.logit()
    density = prior.log_prob(log_odds).exp() / (agreement * (1 - agreement))
    assert float((density - 1).abs().max()) < 0.09


def test_numbers_survive_any_scaling_and_a_pickle() -> None:
    """Only equality of numbers counts, whatever a transform makes of them."""
    kernel = pickle.loads(pickle.dumps(settled(rater_covar_module(2))))
    first = numbered(6, 3)
    scaled = first.clone()
    scaled[:, 2] = scaled[:, 2] / 7 - 0.1
    assert torch.equal(kernel(first).to_dense(), kernel(scaled).to_dense())
    assert copy.deepcopy(kernel).kernels[1].agreement == kernel.kernels[1].agreement


# --- Random features against the kernels

NUM_FEATURES, NUM_SETS = 1024, 30


def met_points() -> Tensor:
    """Draws two columns in the unit interval, one with numbers of raters."""
    X = uniform(9, 3)
    X[:, 2] = torch.arange(9) % 3
    # Equal raters at different stimuli, and different raters at one.
    X[3, :2] = X[4, :2]
    return X


def agreement(value: float | Tensor, **kwargs: object) -> AgreementKernel:
    kernel = AgreementKernel(active_dims=(2,), **kwargs).double()
    kernel.agreement = value
    return kernel


def raters() -> Kernel:
    kernel = rater_covar_module(2).double()
    kernel.kernels[1].agreement = 0.3
    return kernel


def noisy_raters() -> Kernel:
    """Makes a kernel of three raters, of whom two have a known noise."""
    kernel = rater_covar_module(2, noisy_raters=torch.arange(2)).double()
    kernel.kernels[1].agreement = 0.3
    kernel.kernels[2].noise = torch.tensor([0.5, 3.0])
    return kernel


def batch_of_kernels() -> Kernel:
    kernel = rater_covar_module(2, batch_shape=torch.Size([2])).double()
    kernel.kernels[0].outputscale = torch.tensor([1.0, 4.0])
    kernel.kernels[1].agreement = torch.tensor([0.1, 0.9])
    return kernel


def nested() -> Kernel:
    """Makes a scale and columns outside, a product in a product within."""
    inner = ProductKernel(MaternKernel(active_dims=[0]), RBFKernel(active_dims=[0]))
    outer = ProductKernel(agreement(0.5), inner, RBFKernel(active_dims=[1]))
    kernel = ScaleKernel(outer).double()
    kernel.outputscale = 3.0
    return kernel


KERNELS: dict[str, Callable[[], Kernel]] = {
    "agreement": lambda: ScaleKernel(agreement(0.3)).double(),
    # Of one kind, so that their quasi-random frequencies are of one kind too.
    "two RBF": lambda: ProductKernel(
        RBFKernel(active_dims=[0]), RBFKernel(active_dims=[1])
    ).double(),
    "raters": raters,
    "noisy raters": noisy_raters,
    "raters with features": lambda: rater_covar_module(2, rater_dim=1).double(),
    "batch_of_kernels": batch_of_kernels,
    "nested": nested,
}


@in_turn("name", KERNELS)
def test_products_of_features_are_the_kernel(name: str) -> None:
    """On average within five standard errors; in one set within its own deviation.

    The mean of n / 2 cosines of independent phases has a variance of at most
    k(x, x)^2 / (n / 2), which frequencies that depend on each other exceed.
    """
    kernel, X = KERNELS[name](), met_points()
    with torch.no_grad(), manual_seed(1):
        truth = kernel(X).to_dense()
        sets = []
        for _ in range(NUM_SETS):
            feature_map = gen_kernel_features(
                kernel, num_inputs=3, num_outputs=NUM_FEATURES
            )
            features = feature_map(X)
            assert features.shape[-1] == feature_map.num_outputs == NUM_FEATURES
            assert feature_map.batch_shape == kernel.batch_shape
            sets.append(features @ features.mT)
    error = torch.stack(sets) - truth
    largest = truth.diagonal(dim1=-2, dim2=-1).amax(-1)[..., None, None]
    deviation = largest / (NUM_FEATURES / 2) ** 0.5
    assert (error.mean(0).abs() < 5 * deviation / NUM_SETS**0.5).all()
    # The mean of 30 squares is 1.8 times their expectation in one of 300 at most.
    assert (error.square().mean(0) < 1.8 * deviation.square()).all()
    # One's own variance has no error.
    assert error.diagonal(dim1=-2, dim2=-1).abs().max() < 1e-9


@in_turn("dtype", [torch.float32, torch.float64])
@in_turn("scale", [1.0, 0.02, 1e-3])
def test_raters_whose_numbers_are_no_integers(dtype: torch.dtype, scale: float) -> None:
    """As an input transform makes them.

    One entry has a deviation of 0.01. Entries of equal lag share theirs, so that the
    mean over all has one of 0.003.
    """
    kernel = agreement(0.25).to(dtype)
    numbers = scale * torch.arange(12, dtype=dtype)
    X = torch.zeros(24, 3, dtype=dtype)
    X[:, 2] = torch.cat([numbers, numbers])
    with torch.no_grad(), manual_seed(2):
        features = gen_kernel_features(kernel, num_inputs=3, num_outputs=8192)(X)
        error = features @ features.T - kernel(X).to_dense()
    assert error.abs().max() < 0.06
    assert error.mean().abs() < 0.015
