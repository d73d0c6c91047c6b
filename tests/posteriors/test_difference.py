import pytest
import torch
from botorch.exceptions.errors import UnsupportedError
from botorch.posteriors import GPyTorchPosterior
from gpytorch.distributions import MultitaskMultivariateNormal

from botorch_pref.numerics import mixtures as gaussian_mixture
from botorch_pref.posteriors import SkewNormalPosterior
from botorch_pref.posteriors.gaussian import difference_mixture


def test_a_point_compared_with_itself_has_no_variance_and_finite_gradients():
    x = torch.tensor([[0.3], [0.3]], dtype=torch.float64, requires_grad=True)
    covariance = 3.1 * torch.exp(-((x - x.T).square()))
    slopes = torch.linspace(-1, 2, 8, dtype=torch.float64).unsqueeze(-1)
    posterior = SkewNormalPosterior(slopes * x.squeeze(-1), covariance)
    means, variance = difference_mixture(posterior)
    torch.testing.assert_close(variance, torch.zeros_like(variance))
    quantile = gaussian_mixture.quantile(0.9, means, variance)
    (gradient,) = torch.autograd.grad(quantile, x)
    assert quantile == 0
    # What is left is the mean slope of the components.
    torch.testing.assert_close(
        gradient.squeeze(-1), slopes.mean() * torch.tensor([1.0, -1.0]).double()
    )


def test_the_moments_are_those_of_a_contrast():
    """Of any two of four points, whose variances and covariances all differ."""
    generator = torch.Generator().manual_seed(0)
    root = torch.randn(4, 4, generator=generator, dtype=torch.float64)
    components = torch.randn(5, 4, generator=generator, dtype=torch.float64)
    covariance = root @ root.mT
    posterior = SkewNormalPosterior(components, covariance)
    for first, second in ((0, 1), (3, 1), (2, 0)):
        contrast = torch.zeros(4, dtype=torch.float64)
        contrast[first], contrast[second] = 1.0, -1.0
        means, variance = difference_mixture(posterior, first, second)
        torch.testing.assert_close(means, components @ contrast)
        torch.testing.assert_close(variance, contrast @ covariance @ contrast)


def test_rounding_below_zero_counts_as_zero():
    covariance = torch.tensor([[1, 1 + 1e-15], [1 + 1e-15, 1]], dtype=torch.float64)
    covariance.requires_grad_()
    _, variance = difference_mixture(
        SkewNormalPosterior(torch.zeros(3, 2).double(), covariance)
    )
    variance.backward()
    assert variance == 0
    torch.testing.assert_close(covariance.grad, torch.zeros(2, 2).double())


def test_several_outputs_are_refused():
    distribution = MultitaskMultivariateNormal(torch.zeros(2, 2), torch.eye(4))
    with pytest.raises(UnsupportedError, match="single-output"):
        difference_mixture(GPyTorchPosterior(distribution))
