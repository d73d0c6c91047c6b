"""Expected utility of the best option, against BoTorch's, quadrature and sampling."""

import math

import pytest
import torch
from botorch.acquisition.preference import AnalyticExpectedUtilityOfBestOption
from botorch.models.model import Model
from torch import Tensor

from botorch_pref.acquisition import DuelingEUBO, FeasibilityWeighted
from botorch_pref.feedback import Validity
from botorch_pref.models import EPPreferenceGP
from botorch_pref.models.predictions import (
    log_validity_probability,
)

X_REF = torch.tensor([[0.4, 0.6]], dtype=torch.double)
ONE = torch.tensor([[1.0, -2.0]], dtype=torch.double)
SEVERAL = torch.tensor([[1.0, -2.0], [4.0, 1.0], [-3.0, 0.5]], dtype=torch.double)


def points(*shape: int, seed: int = 3) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(*shape, 2, generator=generator, dtype=torch.double)


def test_gaussian_models_agree_with_botorch(gaussian_model: Model) -> None:
    X = points(50, 2)
    theirs = AnalyticExpectedUtilityOfBestOption(gaussian_model)
    torch.testing.assert_close(
        DuelingEUBO(gaussian_model)(X), theirs(X), rtol=1e-9, atol=1e-10
    )
    challengers = X[:, :1]
    theirs = AnalyticExpectedUtilityOfBestOption(gaussian_model, previous_winner=X_REF)
    ours = DuelingEUBO(gaussian_model, X_REF)
    torch.testing.assert_close(
        ours(challengers), theirs(challengers), rtol=1e-9, atol=1e-10
    )


@pytest.mark.parametrize("scale", [1e-6, 0.1, 10.0, 1e6])
def test_it_is_between_the_better_mean_and_that_of_equals(
    scale: float, linear_utility
) -> None:
    """Jensen's inequality below; above, theta phi(0) more, which equals reach."""
    X = 20 * points(200, 2) - 10
    value = DuelingEUBO(linear_utility(ONE, scale))(X)
    better = (X @ ONE[0]).amax(-1)
    spread = scale * (X[:, 0] - X[:, 1]).norm(dim=-1) / math.sqrt(2 * math.pi)
    # The variance of the difference is one of numbers up to 200 scale^2.
    rounding = 1e-12 + 1e-12 * scale
    assert bool((value >= better - rounding).all())
    assert bool((value <= better + spread + rounding).all())


def test_equal_points_and_certain_ones(linear_utility) -> None:
    """The better mean, and the mean of the slopes where both are the best."""
    X = X_REF.expand(1, 2, 2).clone().requires_grad_()
    value = DuelingEUBO(linear_utility(SEVERAL, 0.0))(X)
    mean = SEVERAL.mean(0)
    assert float(value.detach()) == pytest.approx(float((X_REF @ mean).squeeze()))
    (gradient,) = torch.autograd.grad(value.sum(), X)
    torch.testing.assert_close(gradient, 0.5 * mean.expand(1, 2, 2))
    far = torch.tensor([[[1e6, 0.0], [-1e6, 0.0]]], dtype=torch.double)
    certain = DuelingEUBO(linear_utility(ONE, 1e-3))(far)
    assert float(certain) == pytest.approx(1e6, rel=1e-12)
    at_reference = DuelingEUBO(linear_utility(SEVERAL, 0.7), X_REF)(X_REF)
    assert float(at_reference) == pytest.approx(0.0, abs=1e-7)


@pytest.mark.parametrize("scale", [0.0, 1e-9, 1e-3, 1.0])
def test_hopeless_challengers_have_no_slope_and_no_nan(
    scale: float, linear_utility
) -> None:
    """Beyond 38 deviations an improvement is 0 in double precision."""
    X = torch.tensor([[[0.0, 1e3]], [[0.0, 50.0]], [[0.4, 1e8]]], dtype=torch.double)
    X.requires_grad_()
    value = DuelingEUBO(linear_utility(ONE, scale), X_REF)(X)
    (gradient,) = torch.autograd.grad(value.sum(), X)
    assert bool((value >= 0).all())
    assert bool(gradient.isfinite().all())
    if scale < 1e-2:
        assert not bool(value.any())
        assert not bool(gradient.any())


def test_pairs_weighted_by_validity(model: Model) -> None:
    """Both points must be valid; a failed duel is worth the utility that is given."""
    labels = Validity(torch.arange(4), torch.tensor([True, True, False, True]))
    feasibility = EPPreferenceGP(points(4, seed=9), feedback=[labels])
    X = points(5, 2)
    weighted = FeasibilityWeighted(DuelingEUBO(model), feasibility, failure_value=-9.0)
    valid = log_validity_probability(feasibility, X).sum(-1).exp()
    expected = valid * DuelingEUBO(model)(X) - 9.0 * (1 - valid)
    torch.testing.assert_close(weighted(X), expected)
