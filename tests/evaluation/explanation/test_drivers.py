import pytest
import torch
from botorch.posteriors import GPyTorchPosterior
from botorch.utils.testing import MockModel
from gpytorch.distributions import MultivariateNormal
from linear_operator import to_linear_operator
from torch import Tensor

from botorch_pref.evaluation.explanation import feature_effect

WEIGHTS = torch.tensor([2.0, -1.0]).double()


class Linear(MockModel):
    """Utility `w' x` with independent weights of known mean and unit variance."""

    def __init__(self) -> None:
        super().__init__(None)

    def posterior(self, X: Tensor, **_: object) -> GPyTorchPosterior:
        covariance = to_linear_operator(X @ X.T)
        return GPyTorchPosterior(MultivariateNormal(X @ WEIGHTS, covariance))


@pytest.mark.parametrize("feature", [0, 1])
def test_the_effect_of_a_linear_utility_is_its_weight(feature: int) -> None:
    generator = torch.Generator().manual_seed(0)
    items = torch.rand(50, 2, generator=generator).double() * 10
    effect = feature_effect(Linear(), items, ("a", "b"), feature, generator)
    assert effect.name == "ab"[feature]
    ends = items[:, feature].quantile(torch.tensor([0.05, 0.95]).double())
    assert torch.allclose(effect.values[[0, -1]], ends)
    moved = effect.values - effect.values[0]
    assert torch.allclose(effect.mean, moved * WEIGHTS[feature])
    assert torch.allclose(effect.deviation, moved, atol=1e-6)
