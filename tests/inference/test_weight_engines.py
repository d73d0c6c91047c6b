"""Posteriors of weights: against those of utilities, and against quadrature."""

import numpy as np
import pytest
import torch
from truths.engines import laplace, variational

from botorch_pref.errors import PrecisionError
from botorch_pref.inference import laplace as laplace_module
from botorch_pref.inference.weight_space import (
    WeightEngine,
    laplace_weights,
    variational_weights,
)
from botorch_pref.likelihoods.logit import PlackettLuceFactors

DOUBLE = torch.float64
ENGINES = {
    "laplace": (laplace_weights, laplace),
    "variational": (variational_weights, variational),
}
each_engine = pytest.mark.parametrize("engines", ENGINES.values(), ids=ENGINES.keys())
STAGES = torch.tensor(
    [[0, 1, 2, -1], [3, 1, -1, -1], [4, 0, 2, 3], [2, 4, -1, -1], [0, 1, -1, -1]]
)


def features(n=5, d=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, d, generator=generator, dtype=DOUBLE)


def number(value):
    return torch.tensor(value, dtype=DOUBLE)


@each_engine
@pytest.mark.parametrize("eta", [0.01, 0.5, 30.0])
@pytest.mark.parametrize("d", [2, 12])
def test_utilities_are_those_of_a_linear_kernel(engines, eta, d) -> None:
    in_weights, in_utilities = engines
    x = features(d=d)
    a = in_weights(x, STAGES, number(eta))
    covar = x @ x.mT / eta
    b = in_utilities(
        covar, torch.zeros(5, dtype=DOUBLE), PlackettLuceFactors(STAGES, 5, x)
    )
    explained = covar @ b.factor.root()
    size = covar.diagonal().max()
    assert a.converged
    torch.testing.assert_close(x @ a.mean, covar @ b.weights, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(
        x @ a.covariance @ x.mT,
        covar - explained @ explained.mT,
        rtol=1e-6,
        atol=float(1e-9 * size + 1e-7),
    )
    torch.testing.assert_close(a.log_evidence, b.log_evidence, rtol=1e-9, atol=1e-9)


def log_likelihood(f, stages):
    total = torch.zeros(f.shape[:-1], dtype=DOUBLE)
    for stage in stages.tolist():
        members = [i for i in stage if i >= 0]
        total = total + f[..., members[0]] - torch.logsumexp(f[..., members], -1)
    return total


def test_a_strong_prior_makes_laplace_exact() -> None:
    """Against quadrature; the error is of second order in the prior's variance."""
    x = features(d=2)
    nodes, weights = (torch.tensor(t) for t in np.polynomial.hermite_e.hermegauss(40))
    grid = torch.cartesian_prod(nodes, nodes)
    weight = torch.cartesian_prod(weights, weights).prod(-1)
    weight = weight / weight.sum()
    errors = []
    for eta in (100.0, 1000.0):
        theta = grid / eta**0.5
        mass = weight * log_likelihood(theta @ x.mT, STAGES).exp()
        truth = mass.sum().log()
        result = laplace_weights(x, STAGES, number(eta))
        errors.append(float((result.log_evidence - truth).abs()))
        assert variational_weights(x, STAGES, number(eta)).log_evidence < truth
        mean = (mass.unsqueeze(-1) * theta).sum(0) / mass.sum()
        torch.testing.assert_close(result.mean, mean, rtol=0, atol=0.5 / eta**1.5)
    assert errors[0] < 1e-3
    assert errors[1] < errors[0] / 60


def test_the_mode_is_stationary_and_the_covariance_its_curvature() -> None:
    x, eta = features(), 0.3

    def objective(theta):
        return log_likelihood(x @ theta, STAGES) - 0.5 * eta * theta.square().sum()

    result = laplace_weights(x, STAGES, number(eta))
    gradient = torch.func.grad(objective)(result.mean)
    hessian = torch.func.hessian(objective)(result.mean)
    torch.testing.assert_close(gradient, torch.zeros_like(gradient), rtol=0, atol=1e-7)
    torch.testing.assert_close(result.covariance, torch.linalg.inv(-hessian))
    _, log_det = torch.linalg.slogdet(-hessian / eta)
    torch.testing.assert_close(
        result.log_evidence, objective(result.mean) - 0.5 * log_det
    )


@each_engine
@pytest.mark.parametrize("eta", [0.02, 1.0, 50.0])
def test_gradient_in_eta_by_finite_differences(engines, eta) -> None:
    x, h = features(), 1e-3 * eta
    at = number(eta).requires_grad_()
    value = engines[0](x, STAGES, at).log_evidence
    (gradient,) = torch.autograd.grad(value, at)
    plus, minus, plus2, minus2 = (
        engines[0](x, STAGES, number(eta + k * h)).log_evidence for k in (1, -1, 2, -2)
    )
    numeric = (8 * (plus - minus) - (plus2 - minus2)) / (12 * h)
    torch.testing.assert_close(gradient, numeric, rtol=2e-7, atol=1e-8)


@each_engine
def test_batches_of_features_sets_and_priors_equal_their_elements(engines) -> None:
    engine = engines[0]
    other = torch.tensor(
        [[1, 0, -1, -1], [-1, -1, -1, -1], [2, 3, 4, -1], [0, 1, 2, 3], [3, 4, 1, -1]]
    )
    x = torch.stack([features(), features(seed=1)])
    stages = torch.stack([STAGES, other])
    eta = torch.tensor([[0.1], [2.0], [9.0]], dtype=DOUBLE)
    batch = engine(x, stages, eta)
    assert batch.log_evidence.shape == (3, 2)
    for i in range(3):
        for j in range(2):
            alone = engine(x[j], stages[j], eta[i, 0])
            for got, want in (
                (batch.mean[i, j], alone.mean),
                (batch.covariance[i, j], alone.covariance),
                (batch.log_evidence[i, j], alone.log_evidence),
            ):
                torch.testing.assert_close(got, want, rtol=1e-6, atol=1e-6)


def test_laplace_does_not_lose_digits_to_an_offset_of_the_features() -> None:
    x = features()
    near, far = (
        laplace_weights(x + offset, STAGES, number(0.5)) for offset in (0.0, 1e6)
    )
    # x + 1e6 has lost 1e-10 itself.
    torch.testing.assert_close(near.mean, far.mean, rtol=0, atol=1e-8)
    torch.testing.assert_close(near.covariance, far.covariance, rtol=0, atol=1e-8)


@each_engine
def test_collinear_features_and_duplicate_items(engines) -> None:
    x = features()
    doubled = torch.cat([x, x[:, :1], 2 * x[:, 1:2]], dim=-1)
    doubled[4] = doubled[0]
    result = engines[0](doubled, STAGES, number(0.2))
    assert result.converged
    # Equal columns have equal weights, one twice as large has twice the weight.
    torch.testing.assert_close(result.mean[3], result.mean[0])
    torch.testing.assert_close(result.mean[4], 2 * result.mean[1])


@each_engine
def test_a_prior_below_rounding_is_refused(engines) -> None:
    x = 1e6 * features()
    with pytest.raises(PrecisionError, match="larger eta"):
        engines[0](torch.cat([x, x], dim=-1), STAGES, number(1e-14))


@pytest.mark.parametrize("engine", [laplace_weights, variational_weights])
def test_thousands_of_answers_in_single_precision(engine) -> None:
    """As many wins as losses of one pair, and wins of another, under a wide prior."""
    stages = torch.tensor([[0, 1], [1, 0], [1, 2]]).repeat(1000, 1)
    x, eta = features(3, 2).float(), number(1e-4).float()
    found = WeightEngine(engine).solve(x, stages, eta).posterior
    truth = engine(x.double(), stages, eta.double())
    assert found.converged
    assert found.mean.dtype == found.log_evidence.dtype == torch.float32
    deviation = truth.covariance.diagonal().sqrt()
    assert float(((found.mean - truth.mean) / deviation).abs().max()) <= 1e-4
    torch.testing.assert_close(
        found.log_evidence.double(), truth.log_evidence, rtol=1e-6, atol=0
    )


def test_unfinished_newton_steps_say_so(monkeypatch) -> None:
    monkeypatch.setattr(laplace_module, "_MAX_ITERATIONS", 1)
    result = laplace_weights(3 * features(), STAGES, number(1e-3))
    assert not result.converged
    assert result.residual > 1e-7
