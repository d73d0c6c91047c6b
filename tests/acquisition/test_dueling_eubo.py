"""Expected utility of the best option, against BoTorch's, quadrature and sampling."""

import math

import pytest
import torch
from botorch.acquisition.preference import AnalyticExpectedUtilityOfBestOption
from botorch.models.model import Model
from torch import Tensor

from botorch_pref.acquisition import DuelingEUBO, FeasibilityWeighted
from botorch_pref.feedback import Validity
from botorch_pref.models import EPPreferenceGP, SkewPreferenceGP
from botorch_pref.models.validity_probability import log_validity_probability
from botorch_pref.posteriors.skew_normal_posterior import SkewNormalPosterior

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


def test_a_mixture_against_quadrature(linear_utility) -> None:
    """``E[max(f1, f2)]`` of the joint normal of each component, on a grid of both."""
    X = points(2, 2)
    values = DuelingEUBO(linear_utility(SEVERAL, 0.8))(X)
    nodes = torch.linspace(-9, 9, 1201, dtype=torch.double)
    weight = torch.exp(-0.5 * nodes.square()) / math.sqrt(2 * math.pi)
    joint = (nodes[1] - nodes[0]) ** 2 * weight[:, None] * weight
    w = torch.stack(torch.meshgrid(nodes, nodes, indexing="ij"), dim=-1)
    for x, value in zip(X, values, strict=True):
        best = [((c + 0.8 * w) @ x.mT).amax(-1) for c in SEVERAL]
        truth = sum(float((joint * b).sum()) for b in best) / 3
        # The integrand has a kink: the rule is right to the square of a step, 2e-4.
        assert float(value) == pytest.approx(truth, abs=2e-4)


def test_skew_posterior_against_sampling(skew_model: SkewPreferenceGP) -> None:
    generator = torch.Generator().manual_seed(1)
    count = 200_000
    for pair in points(3, 2, seed=5):
        posterior = skew_model.posterior(pair)
        means = posterior.component_means.detach()
        covariance = posterior.component_covariance.detach()
        component = torch.randint(len(means), (count,), generator=generator)
        normal = torch.randn(count, 2, generator=generator, dtype=torch.double)
        f = means[component] + normal @ torch.linalg.cholesky(covariance).mT
        best, gain = f.amax(-1), (f[:, 0] - f[:, 1]).clamp_min(0.0)
        for value, draws in (
            (DuelingEUBO(skew_model)(pair), best),
            (DuelingEUBO(skew_model, pair[1:])(pair[:1]), gain),
        ):
            error = float(draws.std()) / math.sqrt(count)
            assert float(value.detach()) == pytest.approx(
                float(draws.mean()), abs=4 * error
            )


def test_both_forms_differ_by_the_mean_at_the_reference(model: Model) -> None:
    X = points(6, 1)
    pairs = torch.cat([X, X_REF.expand(6, 1, 2)], dim=-2)
    reference = model.posterior(X_REF).mean.squeeze()
    torch.testing.assert_close(
        DuelingEUBO(model)(pairs),
        DuelingEUBO(model, X_REF)(X) + reference,
        rtol=1e-6,
        atol=1e-6,
    )


def test_a_scale_of_utility_scales_and_a_level_adds(linear_utility) -> None:
    X = points(6, 2)
    value = DuelingEUBO(linear_utility(SEVERAL, 0.5))(X)
    scaled = DuelingEUBO(linear_utility(10 * SEVERAL, 5.0))(X)
    torch.testing.assert_close(scaled, 10 * value)

    class Raised(linear_utility):
        def posterior(self, X: Tensor, **_: object) -> SkewNormalPosterior:
            level = super().posterior(X)
            return SkewNormalPosterior(
                level.component_means + 7, level.component_covariance
            )

    raised = Raised(SEVERAL, 0.5)
    torch.testing.assert_close(DuelingEUBO(raised)(X), value + 7)
    against = [
        DuelingEUBO(m, X_REF)(X[:, :1]) for m in (raised, linear_utility(SEVERAL, 0.5))
    ]
    torch.testing.assert_close(*against)


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
