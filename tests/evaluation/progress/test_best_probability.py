"""Checks probabilities of being best and gains against closed forms and quadrature."""

import math

import pytest
import torch
from botorch.models.model import Model
from botorch.posteriors import GPyTorchPosterior
from gpytorch.distributions import MultivariateNormal
from torch import Tensor

from botorch_pref.evaluation.progress import best_probability, remaining_gain
from botorch_pref.models import EPPreferenceGP, SkewPreferenceGP


class Linear(Model):
    """``f(x) = w x`` in one dimension with standard normal ``w``, plus ``x^2 / 2``."""

    num_outputs = 1
    batch_shape = torch.Size()

    def posterior(self, X: Tensor, **_: object) -> GPyTorchPosterior:
        eye = 1e-12 * torch.eye(X.shape[-2], dtype=X.dtype)
        normal = MultivariateNormal(0.5 * X.squeeze(-1).square(), X @ X.mT + eye)
        return GPyTorchPosterior(normal)


def column(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.double).unsqueeze(-1)


def ndtr(z: float) -> float:
    return 0.5 * math.erfc(-z / math.sqrt(2))


def test_of_two_points_it_is_the_probability_to_win() -> None:
    # f(3) - f(1) = 2 w + 4 > 0 where w > -2.
    chances = best_probability(Linear(), column(1.0, 3.0))
    # Sobol samples of one normal are off by about one over their number.
    assert abs(float(chances[1]) - ndtr(2.0)) < 2e-3
    torch.testing.assert_close(chances.sum(), torch.ones_like(chances.sum()))


def test_equal_points_share() -> None:
    model = SkewPreferenceGP(column(0.1, 0.5), torch.tensor([[0, 1]]), num_draws=64)
    chances = best_probability(model, column(0.1, 0.5, 0.1))
    pair = best_probability(model, column(0.1, 0.5))
    torch.testing.assert_close(chances, pair[[0, 1, 0]] / torch.tensor([2, 1, 2]))


def test_the_gain_over_a_point_is_its_expected_improvement() -> None:
    gain = remaining_gain(Linear(), column(1.0), column(3.0))
    # E[max(2 w + 4, 0)]
    density = math.exp(-2.0) / math.sqrt(2 * math.pi)
    truth = 4 * ndtr(2.0) + 2 * density
    assert abs(float(gain.expected) - truth) < 5e-3
    # Var[max(u, 0)] is hardly that of u = 2 w + 4 itself.
    assert float(gain.standard_error) == pytest.approx(2 / 64, rel=0.1)


def test_nothing_is_gained_on_a_copy() -> None:
    model = EPPreferenceGP(column(0.1, 0.5), torch.tensor([[0, 1]]))
    gain = remaining_gain(model, column(0.1), column(0.1, 0.1))
    assert float(gain.expected) < 1e-6


def test_a_batch_of_models_is_each_of_them() -> None:
    points = column(0.1, 0.5)
    pairs = torch.tensor([[0, 1], [1, 0]]).unsqueeze(-2)
    together = best_probability(EPPreferenceGP(points, pairs), points)
    for pair, chances in zip(pairs, together, strict=True):
        alone = best_probability(EPPreferenceGP(points, pair), points)
        torch.testing.assert_close(alone, chances, atol=5e-3, rtol=0)


def test_seeds_and_the_global_state() -> None:
    model = EPPreferenceGP(column(0.1, 0.5), torch.tensor([[0, 1]]))
    state = torch.random.get_rng_state()
    chances = best_probability(model, column(0.1, 0.9), seed=1)
    assert torch.equal(state, torch.random.get_rng_state())
    assert torch.equal(chances, best_probability(model, column(0.1, 0.9), seed=1))
