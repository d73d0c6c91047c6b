"""The probability of a valid trial, against quadrature and closed forms."""

import pytest
import torch
from botorch.models.transforms.input import Normalize
from gpytorch.means import ConstantMean
from torch import Tensor

from botorch_pref import (
    AffineProbitLikelihood,
    EPPreferenceGP,
    LaplacePreferenceGP,
    SkewPreferenceGP,
    UnsupportedFeedbackError,
    Validity,
)
from botorch_pref.models.predictions import (
    log_validity_probability,
)
from botorch_pref.models.preference_gp import PreferenceGP

DOUBLE = torch.float64
ENGINES = [LaplacePreferenceGP, EPPreferenceGP, SkewPreferenceGP]
POINTS = torch.tensor([[0.1], [0.35], [0.5], [0.8], [0.95]], dtype=DOUBLE)


def make_model(kind: type[PreferenceGP], noise: float = 0.7) -> PreferenceGP:
    mean = ConstantMean()
    mean.initialize(constant=0.4)
    valid = torch.tensor([True, True, True, False, False])
    model = kind(
        POINTS,
        feedback=[Validity(torch.arange(5), valid)],
        likelihood=AffineProbitLikelihood(noise),
        mean_module=mean,
        input_transform=Normalize(1, bounds=torch.tensor([[0.0], [2.0]]).double()),
    )
    model.covar_module.base_kernel.lengthscale = 0.15
    model.covar_module.outputscale = 3.0
    return model.eval()


X = torch.tensor([[[0.0], [0.6]], [[0.5], [1.7]], [[0.9], [0.2]]], dtype=DOUBLE)


@pytest.mark.parametrize("kind", ENGINES)
def test_the_mean_of_the_likelihood_over_the_posterior(
    kind: type[PreferenceGP],
) -> None:
    """By the likelihood's own ``forward`` on a grid under the posterior's density."""
    model = make_model(kind)
    t = torch.linspace(-20, 20, 801, dtype=DOUBLE)
    step = t[1] - t[0]
    expected = []
    for x in X.reshape(-1, 1, 1):
        posterior = model.posterior(x)
        if kind is SkewPreferenceGP:
            density = posterior.density(t).flatten()
        else:
            scale = posterior.variance.sqrt()
            standard = torch.distributions.Normal(posterior.mean, scale)
            density = standard.log_prob(t).exp().flatten()
        valid = model.likelihood.forward(t).probs
        expected.append((valid * density).sum() * step)
    actual = log_validity_probability(model, X).exp()
    # The sum of a smooth density at steps far below its width is exact.
    torch.testing.assert_close(
        actual.flatten(), torch.stack(expected), rtol=1e-7, atol=1e-9
    )


def test_the_probability_of_one_more_answer() -> None:
    """EP's evidence of one label is exact; two share no information far apart."""
    for noise in (0.1, 2.0):
        model = make_model(EPPreferenceGP, noise)
        far = torch.tensor([[50.0]], dtype=DOUBLE)
        expected = torch.special.log_ndtr(torch.tensor(0.4 / (3.0 + noise) ** 0.5))
        actual = log_validity_probability(model, far)[0]
        torch.testing.assert_close(
            actual.detach(), expected.double(), atol=1e-7, rtol=0
        )


@pytest.mark.parametrize("kind", ENGINES)
def test_gradient(kind: type[PreferenceGP]) -> None:
    model = make_model(kind)
    points = X.clone().requires_grad_(True)
    (gradient,) = torch.autograd.grad(
        log_validity_probability(model, points).sum(), points
    )
    with torch.no_grad():
        slope = log_validity_probability(model, X + 1e-5)
        slope = (slope - log_validity_probability(model, X - 1e-5)) / 2e-5
    torch.testing.assert_close(gradient.squeeze(-1), slope, rtol=1e-5, atol=1e-8)


def test_a_batch_of_models() -> None:
    """Batches of points broadcast in front of those of models."""
    batch = torch.stack([POINTS, POINTS.flip(0) * 0.9])
    valid = torch.tensor([True, True, True, False, False])
    together = EPPreferenceGP(batch, feedback=[Validity(torch.arange(5), valid)])
    actual = log_validity_probability(together, X.unsqueeze(1))
    assert actual.shape == (3, 2, 2)
    for index, points in enumerate(batch):
        alone = EPPreferenceGP(points, feedback=[Validity(torch.arange(5), valid)])
        expected = log_validity_probability(alone, X)
        torch.testing.assert_close(actual[:, index], expected, rtol=1e-6, atol=1e-6)


def test_a_hopeless_point_keeps_its_gradient() -> None:
    model = make_model(EPPreferenceGP, noise=1e-4)
    model.mean_module.initialize(constant=-200.0)
    point = torch.tensor([[3.0]], dtype=DOUBLE, requires_grad=True)
    value = log_validity_probability(model, point)
    (gradient,) = torch.autograd.grad(value.sum(), point)
    assert float(value.detach().exp()) == 0
    assert bool(value.isfinite().all())
    assert bool(gradient.isfinite().all())


def test_a_shared_utility_has_one_too(answers: tuple[Tensor, Tensor]) -> None:
    points, pairs = answers
    validity = Validity(torch.tensor([0, 1]), torch.tensor([True, False]))
    model = EPPreferenceGP(points, pairs, feedback=[validity])
    log_valid = log_validity_probability(model, points[:2])
    assert bool(log_valid[0] > log_valid[1])
    with pytest.raises(UnsupportedFeedbackError, match="no likelihood for Validity"):
        log_validity_probability(EPPreferenceGP(points, pairs), points)


@pytest.fixture
def answers() -> tuple[Tensor, Tensor]:
    return POINTS, torch.tensor([[0, 1], [1, 2], [3, 4]])
