"""Random features of kernels against the kernels."""

from collections.abc import Callable

import pytest
import torch
from botorch.sampling.pathwise import gen_kernel_features
from botorch.utils.sampling import manual_seed
from gpytorch.kernels import Kernel, MaternKernel, ProductKernel, RBFKernel, ScaleKernel
from torch import Tensor

from botorch_pref.models import AgreementKernel, rater_covar_module

NUM_FEATURES, NUM_SETS = 1024, 30


def points() -> Tensor:
    """Two columns in the unit interval, one with numbers of raters."""
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(9, 3, generator=generator, dtype=torch.float64)
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


def batch() -> Kernel:
    kernel = rater_covar_module(2, batch_shape=torch.Size([2])).double()
    kernel.kernels[0].outputscale = torch.tensor([1.0, 4.0])
    kernel.kernels[1].agreement = torch.tensor([0.1, 0.9])
    return kernel


def nested() -> Kernel:
    """A scale and columns outside, a product in a product within."""
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
    "raters with features": lambda: rater_covar_module(2, rater_dim=1).double(),
    "batch": batch,
    "nested": nested,
}


@pytest.mark.parametrize("name", KERNELS)
def test_products_of_features_are_the_kernel(name: str) -> None:
    """On average within five standard errors; in one set within its own deviation.

    The mean of n / 2 cosines of independent phases has a variance of at most
    k(x, x)^2 / (n / 2), which frequencies that depend on each other exceed.
    """
    kernel, X = KERNELS[name](), points()
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


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("scale", [1.0, 0.02, 1e-3])
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


def test_gradients_of_a_product_are_those_of_its_features() -> None:
    kernel = KERNELS["two RBF"]()
    with manual_seed(3):
        feature_map = gen_kernel_features(kernel, num_inputs=3, num_outputs=16)
    X = points()[:3].requires_grad_()
    assert torch.autograd.gradcheck(feature_map, (X,))
