"""The upper credible bound of a duel."""

import numpy as np
import pytest
import torch
from botorch.models.model import Model
from scipy.stats import norm

from botorch_pref.acquisition import DuelingUCB

X_REF = torch.tensor([[0.4, 0.6]], dtype=torch.double)
BOUNDS = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double)


def challengers(count: int = 6) -> torch.Tensor:
    generator = torch.Generator().manual_seed(3)
    return torch.rand(count, 1, 2, generator=generator, dtype=torch.double)


@pytest.mark.parametrize(("level", "z"), [(0.95, 1.959963985), (0.5, 0.674489750)])
def test_gaussian_closed_form(level: float, z: float, linear_utility) -> None:
    center = torch.tensor([[1.0, -2.0]], dtype=torch.double)
    acquisition = DuelingUCB(linear_utility(center, 0.7), X_REF, level=level)
    X = challengers()
    step = (X - X_REF).squeeze(-2)
    expected = step @ center[0] + z * 0.7 * step.norm(dim=-1)
    torch.testing.assert_close(acquisition(X), expected, rtol=1e-8, atol=1e-9)


def test_gaussian_models_agree_with_their_own_posterior(gaussian_model: Model) -> None:
    X = challengers()
    joint = gaussian_model.posterior(torch.cat([X, X_REF.expand(6, 1, 2)], dim=-2))
    mean, covariance = joint.mean.squeeze(-1), joint.distribution.covariance_matrix
    weights = mean.new_tensor([1.0, -1.0])
    deviation = (weights @ covariance @ weights).sqrt()
    expected = mean @ weights + 1.959963985 * deviation
    torch.testing.assert_close(DuelingUCB(gaussian_model, X_REF)(X), expected)


def test_mixture_against_the_shortest_of_many_intervals(linear_utility) -> None:
    generator = torch.Generator().manual_seed(5)
    centers = torch.randn(40, 2, generator=generator, dtype=torch.double).exp()
    X = challengers(3)
    values = DuelingUCB(linear_utility(centers, 0.3), X_REF, level=0.9)(X)
    for x, value in zip(X, values, strict=True):
        step = (x - X_REF)[0]
        means = (centers @ step).numpy()
        deviation = 0.3 * float(step.norm())
        grid = np.linspace(
            means.min() - 5 * deviation, means.max() + 5 * deviation, 8001
        )
        probability = norm.cdf((grid[:, None] - means) / deviation).mean(1)
        ends = np.interp(probability + 0.9, probability, grid, right=np.inf)
        best = np.argmin(ends - grid)
        # The width is flat at its minimum: the ends are known to a few grid steps.
        assert float(value) == pytest.approx(ends[best], abs=30 * (grid[1] - grid[0]))


@pytest.mark.parametrize("level", [0.0, 1.0, -1.0, float("nan")])
def test_impossible_levels_are_refused(level: float, linear_utility) -> None:
    with pytest.raises(ValueError, match="level is"):
        DuelingUCB(linear_utility(torch.ones(1, 2).double()), X_REF, level=level)
