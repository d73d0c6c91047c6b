import math

import pytest
import torch
from botorch.posteriors import GPyTorchPosterior
from botorch.sampling.get_sampler import get_sampler
from botorch.sampling.normal import IIDNormalSampler, SobolQMCNormalSampler
from cases import in_turn
from draws import normal
from gpytorch.distributions import MultivariateNormal
from torch import Tensor

from botorch_pref.posteriors import Moments, SkewNormalPosterior, gaussian_posterior

F64 = torch.float64


def _half_normal_quantiles(count: int) -> Tensor:
    """Computes midpoint quantiles of |N(0, 1)|: its moments to O(1 / count)."""
    levels = (torch.arange(count, dtype=F64) + 0.5) / count
    return torch.special.ndtri(0.5 + 0.5 * levels)


def _skew_normal(count: int, slopes: Tensor, within: Tensor) -> SkewNormalPosterior:
    """Makes ``X = slopes |N(0, 1)| + N(0, within)``, a known shape."""
    latent = _half_normal_quantiles(count)
    means = latent.reshape(-1, *[1] * slopes.dim()) * slopes
    return SkewNormalPosterior(means, within)


def test_moments_are_those_of_the_skew_normal():
    # |N(0, 1)| has mean sqrt(2 / pi), variance 1 - 2 / pi and third central moment
    # (4 / pi - 1) sqrt(2 / pi).
    slopes = torch.tensor([[1.5, -0.7, 0.0], [0.2, 3.0, -2.0]], dtype=F64)
    within = torch.eye(3, dtype=F64) * 0.3 + 0.2
    posterior = _skew_normal(200_000, slopes, within.expand(2, 3, 3))
    between = (1 - 2 / math.pi) * slopes.unsqueeze(-1) * slopes.unsqueeze(-2)
    third = (4 / math.pi - 1) * math.sqrt(2 / math.pi) * slopes.pow(3)
    variance = (1 - 2 / math.pi) * slopes.square() + 0.5
    tolerance = {"rtol": 0, "atol": 2e-4}  # the midpoint rule at 200,000 quantiles
    torch.testing.assert_close(
        posterior.mean, math.sqrt(2 / math.pi) * slopes.unsqueeze(-1), **tolerance
    )
    torch.testing.assert_close(
        posterior.covariance_matrix, within + between, **tolerance
    )
    torch.testing.assert_close(posterior.variance.squeeze(-1), variance, **tolerance)
    torch.testing.assert_close(
        posterior.skewness.squeeze(-1), third / variance.pow(1.5), **tolerance
    )


def test_one_component_is_the_gaussian_posterior_of_botorch():
    mean = torch.tensor([[0.3, -1.0], [2.0, 5.0]], dtype=F64)
    covariance = torch.tensor([[2.0, 0.5], [0.5, 1.0]], dtype=F64).expand(2, 2, 2)
    ours = SkewNormalPosterior(mean.unsqueeze(0), covariance)
    theirs = GPyTorchPosterior(MultivariateNormal(mean, covariance))
    values = torch.tensor([0.1, 0.5, 0.7], dtype=F64)
    for value in (values, values[:1], values[0]):
        torch.testing.assert_close(ours.quantile(value), theirs.quantile(value))
        torch.testing.assert_close(ours.density(value), theirs.density(value))
    torch.testing.assert_close(ours.mean, theirs.mean)
    torch.testing.assert_close(ours.variance, theirs.variance)
    torch.testing.assert_close(ours.covariance_matrix, theirs.covariance_matrix)
    assert torch.equal(ours.skewness, torch.zeros_like(theirs.mean))
    gaussian = gaussian_posterior(Moments(mean.unsqueeze(0), covariance))
    lower, upper = ours.interval(0.9)
    torch.testing.assert_close(gaussian.interval(0.9), (lower, upper))
    torch.testing.assert_close(lower, theirs.quantile(torch.tensor(0.05, dtype=F64)))
    torch.testing.assert_close(upper, theirs.quantile(torch.tensor(0.95, dtype=F64)))
    standard = (values[0] - theirs.mean) / theirs.variance.sqrt()
    torch.testing.assert_close(ours.cdf(values[0]), torch.special.ndtr(standard))


@in_turn("sampler_type", [IIDNormalSampler, SobolQMCNormalSampler])
def test_samples_have_the_moments_of_the_posterior(sampler_type):
    count = 2**15
    posterior = _skew_normal(
        1_000,
        torch.tensor([[2.0, -0.5], [1.0, 1.0]], dtype=F64),
        torch.tensor([[0.5, 0.2], [0.2, 0.1]], dtype=F64).expand(2, 2, 2),
    )
    sampler = sampler_type(torch.Size([count]), seed=5)
    samples = sampler(posterior).squeeze(-1)
    deviation = posterior.variance.squeeze(-1).sqrt()
    centered = samples - posterior.mean.squeeze(-1)
    # Five standard errors of IID draws: of the mean, and of second and third moments
    # whose own variances are those of moments four and six (at most 4 and 40 here).
    bound = 5 / math.sqrt(count)
    assert (centered.mean(0).abs() <= bound * deviation).all()
    second = centered.unsqueeze(-1) * centered.unsqueeze(-2)
    scale = deviation.unsqueeze(-1) * deviation.unsqueeze(-2)
    error = (second.mean(0) - posterior.covariance_matrix).abs() / scale
    assert (error <= 2 * bound).all()
    third = (centered / deviation).pow(3).mean(0)
    assert ((third - posterior.skewness.squeeze(-1)).abs() <= 6.3 * bound).all()
    # An element of the batch has the same samples alone.
    means, within = posterior.component_means, posterior.component_covariance
    alone = SkewNormalPosterior(means[:, 1], within[1])
    again = sampler_type(torch.Size([count]), seed=5)(alone).squeeze(-1)
    torch.testing.assert_close(again, samples[:, 1])


def test_samples_without_a_sampler_take_base_samples_or_draw_them():
    posterior = _skew_normal(
        10, torch.ones(3, 2, dtype=F64), torch.eye(2, dtype=F64).expand(3, 2, 2)
    )
    assert posterior.rsample().shape == (1, 3, 2, 1)
    shape = torch.Size([4, 5])
    base = normal(4, 5, 1, 3)
    samples = posterior.rsample(shape, base)
    # All three t-batches are the same problem and share their base samples.
    assert torch.equal(samples[:, :, 0], samples[:, :, 2])
    single = posterior.rsample(torch.Size(), base[1, 2].expand(3, 3))
    torch.testing.assert_close(single, samples[1, 2])
    with pytest.raises(RuntimeError, match="disagrees"):
        posterior.rsample_from_base_samples(torch.Size([7]), base)


def test_components_are_taken_equally_often_by_sobol_points():
    means = torch.arange(256, dtype=F64).unsqueeze(-1)
    posterior = SkewNormalPosterior(means, torch.zeros(1, 1, dtype=F64))
    samples = SobolQMCNormalSampler(torch.Size([256]), seed=1)(posterior)
    # Scrambled Sobol points put one point in each of 256 equal cells; BoTorch moves
    # them by rounding to keep them inside (0, 1).
    missing = 256 - samples.flatten().unique().numel()
    assert missing <= 2


def test_too_many_points_for_sobol_fall_back_to_iid_samples():
    means = torch.zeros(1, 1, dtype=F64).expand(2, 22_000)
    covariance = torch.zeros(1, 1, dtype=F64).expand(22_000, 22_000)
    sampler = get_sampler(SkewNormalPosterior(means, covariance), torch.Size([2]))
    assert isinstance(sampler, IIDNormalSampler)


def test_samples_are_right_where_points_coincide():
    x = torch.tensor([0.2, 0.7, 0.2, 0.7], dtype=F64)
    covariance = torch.exp(-((x.unsqueeze(-1) - x).square()))
    posterior = SkewNormalPosterior(x.expand(8, 4), covariance)
    samples = posterior.rsample(torch.Size([100])).squeeze(-1)
    torch.testing.assert_close(samples[:, 0], samples[:, 2], rtol=0, atol=1e-14)
    torch.testing.assert_close(samples[:, 1], samples[:, 3], rtol=0, atol=1e-14)


def test_first_sample_without_a_graph_does_not_cut_the_graph_of_later_ones():
    covariance = torch.eye(2, dtype=F64, requires_grad=True)
    posterior = SkewNormalPosterior(torch.zeros(3, 2, dtype=F64), covariance)
    assert not posterior.sample(torch.Size([2])).requires_grad
    samples = posterior.rsample(torch.Size([2]))
    (gradient,) = torch.autograd.grad(samples.square().sum(), covariance)
    assert (gradient.diagonal() > 0).all()


def test_shapes_that_disagree_are_refused():
    with pytest.raises(ValueError, match="num_components x batch_shape x q"):
        SkewNormalPosterior(torch.zeros(5, 2, 3), torch.eye(3))


def test_float32_samples_follow_float64_ones():
    posterior = _skew_normal(
        64, torch.tensor([0.8, 1.4], dtype=F64), torch.eye(2, dtype=F64) + 0.6
    )
    single = SkewNormalPosterior(
        posterior.component_means.float(), posterior.component_covariance.float()
    )
    base = normal(64, 3)
    torch.testing.assert_close(
        single.rsample(torch.Size([64]), base.float()).double(),
        posterior.rsample(torch.Size([64]), base),
        rtol=1e-5,
        atol=1e-5,
    )
