import torch
from gpytorch.distributions import MultivariateNormal

from botorch_pref.linalg.covariance import SemidefiniteLinearOperator


def _singular_covariance(x: torch.Tensor) -> torch.Tensor:
    return 3.1 * torch.exp(-((x.unsqueeze(-1) - x.unsqueeze(-2)).square()))


def test_equal_points_have_equal_samples_and_the_right_covariance():
    x = torch.tensor([[0.1, 0.7, 0.1], [0.4, 0.4, 0.4]], dtype=torch.float64)
    covariance = _singular_covariance(x)
    normal = MultivariateNormal(x, SemidefiniteLinearOperator(covariance))
    generator = torch.Generator().manual_seed(0)
    base = torch.randn(5, 2, 3, generator=generator, dtype=torch.float64)
    samples = normal.rsample(torch.Size([5]), base_samples=base)
    torch.testing.assert_close(samples[:, 0, 0], samples[:, 0, 2])
    torch.testing.assert_close(samples[:, 1], samples[:, 1, :1].expand(-1, 3))
    # With the columns of the identity as base samples the deviations are the root.
    unit = torch.eye(3, dtype=torch.float64).unsqueeze(1).expand(3, 2, 3)
    root = (normal.rsample(torch.Size([3]), base_samples=unit) - x).movedim(0, -1)
    torch.testing.assert_close(root @ root.mT, covariance)


def test_samples_without_base_samples_use_the_same_root():
    covariance = _singular_covariance(torch.zeros(3, dtype=torch.float64))
    zero = torch.zeros(3, dtype=torch.float64)
    normal = MultivariateNormal(zero, SemidefiniteLinearOperator(covariance))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        samples = normal.rsample(torch.Size([4000]))
    torch.testing.assert_close(samples, samples[:, :1].expand(-1, 3))
    # The variance of a sample variance of n normals is 2 / n.
    error = (samples[:, 0].var() / 3.1 - 1).abs()
    assert error < 4 * (2 / 4000) ** 0.5


def test_gradients_are_finite_where_points_coincide():
    x = torch.tensor([0.1, 0.7, 0.1], dtype=torch.float64, requires_grad=True)
    operator = SemidefiniteLinearOperator(_singular_covariance(x))
    base = torch.ones(1, 3, dtype=torch.float64)
    sample = MultivariateNormal(torch.sin(x), operator).rsample(base_samples=base)
    (gradient,) = torch.autograd.grad(sample.sum(), x)
    assert bool(gradient.isfinite().all())
