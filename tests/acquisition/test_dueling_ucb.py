"""The upper credible bound of a duel."""

import numpy as np
import pytest
import torch
from botorch.models.model import Model
from botorch.optim import optimize_acqf
from botorch.utils.sampling import manual_seed
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


def test_a_common_shift_of_utility_changes_nothing_and_a_scale_scales(
    linear_utility,
) -> None:
    centers = torch.tensor([[1.0, 0.0], [0.0, 3.0], [2.0, 2.0]], dtype=torch.double)
    X = challengers()
    value = DuelingUCB(linear_utility(centers, 0.5), X_REF)(X)
    moved = DuelingUCB(linear_utility(centers, 0.5), X_REF + 7)(X + 7)
    scaled = DuelingUCB(linear_utility(10 * centers, 5.0), X_REF)(X)
    torch.testing.assert_close(moved, value)
    torch.testing.assert_close(scaled, 10 * value)


def test_at_the_reference_it_is_zero_and_the_gradient_finite(model: Model) -> None:
    X = X_REF.clone().unsqueeze(0).requires_grad_()
    value = DuelingUCB(model, X_REF)(X)
    (gradient,) = torch.autograd.grad(value.sum(), X)
    # PairwiseGP adds 1e-6 output scales to its diagonal; ours add nothing.
    assert float(value.detach()) == pytest.approx(0.0, abs=2e-2)
    assert bool(gradient.isfinite().all())


def test_gradient_matches_finite_differences(model: Model) -> None:
    X = challengers(3).requires_grad_()
    assert torch.autograd.gradcheck(
        DuelingUCB(model, X_REF), X, eps=1e-5, atol=1e-4, rtol=1e-4
    )


def test_pending_points_are_opponents(model: Model) -> None:
    X, pending = challengers(), challengers(8)[6:, 0]
    acquisition = DuelingUCB(model, X_REF)
    alone = [DuelingUCB(model, x)(X) for x in (X_REF, pending[:1], pending[1:])]
    acquisition.set_X_pending(pending)
    torch.testing.assert_close(acquisition(X), torch.stack(alone).mean(0))
    acquisition.set_X_pending(None)
    torch.testing.assert_close(acquisition(X), alone[0])


def test_one_reference_for_each_challenger(model: Model) -> None:
    X, references = challengers(4), challengers(8)[4:]
    together = DuelingUCB(model, references)(X)
    apart = [
        DuelingUCB(model, r)(x.unsqueeze(0)) for x, r in zip(X, references, strict=True)
    ]
    torch.testing.assert_close(together, torch.cat(apart))


def test_optimize_acqf_beats_the_best_of_many_random_points(model: Model) -> None:
    acquisition = DuelingUCB(model, X_REF)
    with manual_seed(0):
        best, value = optimize_acqf(
            acquisition, BOUNDS, q=1, num_restarts=3, raw_samples=64
        )
        pair, _ = optimize_acqf(
            acquisition, BOUNDS, q=2, num_restarts=3, raw_samples=64, sequential=True
        )
    with torch.no_grad():
        random = acquisition(challengers(400))
        assert float(value) >= float(random.max()) - 1e-6
        assert float(acquisition(best.unsqueeze(0))) == pytest.approx(float(value))
    assert float((pair[0] - pair[1]).norm()) > 0.05


@pytest.mark.parametrize("level", [0.0, 1.0, -1.0, float("nan")])
def test_impossible_levels_are_refused(level: float, linear_utility) -> None:
    with pytest.raises(ValueError, match="level is"):
        DuelingUCB(linear_utility(torch.ones(1, 2).double()), X_REF, level=level)


def test_several_references_are_refused(linear_utility) -> None:
    with pytest.raises(ValueError, match="one reference point"):
        DuelingUCB(linear_utility(torch.ones(1, 2).double()), torch.zeros(3, 2))
