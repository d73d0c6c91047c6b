"""Kernels over stimuli and raters, against sums over their definition."""

import copy
import math
import pickle

import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from gpytorch.kernels import ProductKernel
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from botorch_pref import EPPreferenceGP, PreferenceMarginalLogLikelihood
from botorch_pref.models.raters import AgreementKernel, rater_covar_module

DOUBLE = torch.float64


def points(n: int, columns: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(n, columns, generator=generator, dtype=DOUBLE)


def numbered(n: int, num_raters: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    numbers = torch.randint(num_raters, (n, 1), generator=generator)
    return torch.cat([points(n, 2, seed), numbers.double()], dim=-1)


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
    first, second = points(6, 4), points(4, 4, seed=1)
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
    own = (1 - agreement) * torch.eye(num_raters, dtype=DOUBLE)
    torch.testing.assert_close(dense, shared + own)
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


def rated(model_points: Tensor) -> EPPreferenceGP:
    order = torch.arange(len(model_points)).reshape(-1, 2)
    return EPPreferenceGP(
        model_points, order, covar_module=settled(rater_covar_module(2))
    )


def test_gradient_of_the_evidence_in_the_agreement() -> None:
    model = rated(numbered(12, 3))
    raw = model.covar_module.kernels[1].raw_agreement
    (gradient,) = torch.autograd.grad(model.log_evidence(), raw)
    values = []
    for step in (1e-4, -1e-4):
        with torch.no_grad():
            raw.add_(step)
            values.append(model.log_evidence())
            raw.sub_(step)
    slope = (values[0] - values[1]) / 2e-4
    torch.testing.assert_close(gradient, slope, rtol=1e-5, atol=1e-9)


def test_numbers_survive_any_scaling_and_a_pickle() -> None:
    """Only equality of numbers counts, whatever a transform makes of them."""
    kernel = pickle.loads(pickle.dumps(settled(rater_covar_module(2))))
    first = numbered(6, 3)
    scaled = first.clone()
    scaled[:, 2] = scaled[:, 2] / 7 - 0.1
    assert torch.equal(kernel(first).to_dense(), kernel(scaled).to_dense())
    assert copy.deepcopy(kernel).kernels[1].agreement == kernel.kernels[1].agreement


@pytest.mark.parametrize("agreement", [0.05, 0.95])
def test_a_fit_finds_the_agreement(agreement: float) -> None:
    """20 raters answer 15 duels each: the estimate is on the right side."""
    generator = torch.Generator().manual_seed(2)
    stimuli = points(10, 2, seed=5)
    kernel = settled(rater_covar_module(2))
    kernel.kernels[0].outputscale = 30.0
    kernel.kernels[1].agreement = agreement
    numbers = torch.arange(20, dtype=DOUBLE)
    grid = torch.cat([stimuli.repeat(20, 1), numbers.repeat_interleave(10)[:, None]], 1)
    covariance = kernel(grid).to_dense().detach()
    root = torch.linalg.cholesky(covariance + 1e-9 * torch.eye(len(grid)))
    utility = root @ torch.randn(len(grid), generator=generator, dtype=DOUBLE)
    pairs = torch.combinations(torch.arange(10))[::3]
    pairs = (pairs + 10 * torch.arange(20)[:, None, None]).reshape(-1, 2)
    noise = torch.randn(pairs.shape, generator=generator, dtype=DOUBLE)
    heard = utility[pairs] + noise
    pairs = torch.where((heard[:, :1] > heard[:, 1:]), pairs, pairs.flip(-1))
    kernel.kernels[1].agreement = 0.5
    for parameter in kernel.kernels[0].parameters():
        parameter.requires_grad_(False)
    model = EPPreferenceGP(grid, pairs, covar_module=kernel)
    fit_gpytorch_mll(PreferenceMarginalLogLikelihood(model.likelihood, model))
    assert abs(float(kernel.kernels[1].agreement.detach()) - agreement) < 0.2
