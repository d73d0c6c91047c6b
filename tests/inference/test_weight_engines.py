"""Posteriors of weights; tests of `models` compare them with those of utilities."""

import pytest
import torch
from draws import normal

from botorch_pref.errors import PrecisionError
from botorch_pref.inference.weight_space import (
    WeightEngine,
    laplace_weights,
    variational_weights,
)

DOUBLE = torch.float64
each_engine = pytest.mark.parametrize("engine", [laplace_weights, variational_weights])
STAGES = torch.tensor(
    [[0, 1, 2, -1], [3, 1, -1, -1], [4, 0, 2, 3], [2, 4, -1, -1], [0, 1, -1, -1]]
)


def features(n=5, d=3, seed=0):
    return normal(n, d, seed=seed)


def number(value):
    return torch.tensor(value, dtype=DOUBLE)


@each_engine
@pytest.mark.parametrize("eta", [0.02, 1.0, 50.0])
def test_gradient_in_eta_by_finite_differences(engine, eta) -> None:
    x, h = features(), 1e-3 * eta
    leaf = number(eta).requires_grad_()
    value = engine(x, STAGES, leaf).log_evidence
    (gradient,) = torch.autograd.grad(value, leaf)
    plus, minus, plus2, minus2 = (
        engine(x, STAGES, number(eta + k * h)).log_evidence for k in (1, -1, 2, -2)
    )
    numeric = (8 * (plus - minus) - (plus2 - minus2)) / (12 * h)
    torch.testing.assert_close(gradient, numeric, rtol=2e-7, atol=1e-8)


def test_laplace_does_not_lose_digits_to_an_offset_of_the_features() -> None:
    x = features()
    near, far = (
        laplace_weights(x + offset, STAGES, number(0.5)) for offset in (0.0, 1e6)
    )
    # x + 1e6 has lost 1e-10 itself.
    torch.testing.assert_close(near.mean, far.mean, rtol=0, atol=1e-8)
    torch.testing.assert_close(near.covariance, far.covariance, rtol=0, atol=1e-8)


@each_engine
def test_collinear_features_and_duplicate_items(engine) -> None:
    x = features()
    doubled = torch.cat([x, x[:, :1], 2 * x[:, 1:2]], dim=-1)
    doubled[4] = doubled[0]
    result = engine(doubled, STAGES, number(0.2))
    assert result.converged
    # Equal columns have equal weights, one twice as large has twice the weight.
    torch.testing.assert_close(result.mean[3], result.mean[0])
    torch.testing.assert_close(result.mean[4], 2 * result.mean[1])


@each_engine
def test_a_prior_below_rounding_is_refused(engine) -> None:
    x = 1e6 * features()
    with pytest.raises(PrecisionError, match="larger eta"):
        engine(torch.cat([x, x], dim=-1), STAGES, number(1e-14))


@each_engine
def test_thousands_of_answers_in_single_precision(engine) -> None:
    """As many wins as losses of one pair, and wins of another, under a wide prior."""
    stages = torch.tensor([[0, 1], [1, 0], [1, 2]]).repeat(1000, 1)
    x, eta = features(3, 2).float(), number(1e-4).float()
    solution = WeightEngine(engine).solve(x, stages, eta)
    truth = engine(x.double(), stages, eta.double())
    assert solution.converged
    assert solution.mean.dtype == solution.log_evidence.dtype == torch.float32
    deviation = truth.covariance.diagonal().sqrt()
    assert float(((solution.mean - truth.mean) / deviation).abs().max()) <= 1e-4
    torch.testing.assert_close(
        solution.log_evidence.double(), truth.log_evidence, rtol=1e-6, atol=0
    )


def test_unfinished_newton_steps_say_so() -> None:
    result = laplace_weights(3 * features(), STAGES, number(1e-3), max_iterations=1)
    assert not result.converged
    assert result.residual > 1e-7
