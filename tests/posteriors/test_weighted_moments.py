"""Moments with drawn weights: those of the means that they stand for."""

import math

import pytest
import torch
from draws import normal

from botorch_pref.posteriors import Moments, SkewNormalPosterior, contrast
from botorch_pref.posteriors.gaussian import (
    WeightDraws,
    WeightedMoments,
    gaussian_posterior,
)

F64 = torch.float64
BATCHES = {
    "one": ((), ()),
    "t_batch": ((5,), ()),
    "models": ((), (2,)),
    "t_batch_of_models": ((5, 2), (2,)),
}


def _both(
    batch: tuple[int, ...], model_batch: tuple[int, ...], n: int, s: int, q: int = 4
) -> tuple[WeightedMoments, Moments, torch.Tensor]:
    """Makes moments by weights and with the means that follow; and the features."""
    generator = torch.Generator().manual_seed(len(batch) + n + s)
    shape = batch or model_batch

    def drawn(*size: int) -> torch.Tensor:
        return torch.randn(size, generator=generator, dtype=F64)

    mean, features = drawn(*shape, q), drawn(*shape, q, n).requires_grad_()
    weights = drawn(*model_batch, n, s) + 3 * drawn(*model_batch, n, 1)
    root = drawn(*shape, q, q)
    means = mean + torch.stack(
        [(features * weights[..., i].unsqueeze(-2)).sum(-1) for i in range(s)]
    )
    covariance = root @ root.mT
    lazy = WeightedMoments(mean, features, WeightDraws(weights), covariance)
    return lazy, Moments(means, covariance), features


def _assert_same(lazy: Moments, eager: Moments) -> None:
    torch.testing.assert_close(lazy.means, eager.means)
    torch.testing.assert_close(lazy.mean, eager.mean)
    torch.testing.assert_close(lazy.covariance, eager.covariance)
    ours, theirs = lazy.spread, eager.spread
    torch.testing.assert_close(ours @ ours.mT, theirs @ theirs.mT)


@pytest.mark.parametrize("sizes", [(6, 50), (20, 7), (5, 5)], ids=str)
@pytest.mark.parametrize("batches", BATCHES.values(), ids=BATCHES)
def test_they_are_those_of_the_means(
    batches: tuple[tuple[int, ...], tuple[int, ...]], sizes: tuple[int, int]
) -> None:
    lazy, eager, _ = _both(*batches, *sizes)
    _assert_same(lazy, eager)
    _assert_same(contrast(lazy, 3), contrast(eager, 3))
    _assert_same(contrast(lazy, 2), contrast(eager, 2))
    noise = torch.eye(4, dtype=F64)
    _assert_same(lazy.with_more_covariance(noise), eager.with_more_covariance(noise))
    scaled = [m.combined(lambda points: -2 * points, 0.5) for m in (lazy, eager)]
    _assert_same(*scaled)


def test_posterior_of_them_is_that_of_the_means_with_its_gradient() -> None:
    lazy, eager, features = _both((5,), (), 6, 50)
    ours = SkewNormalPosterior.from_moments(lazy)
    theirs = SkewNormalPosterior(eager.means, eager.covariance)
    normals = torch.randn(
        8, *ours.base_sample_shape, generator=torch.Generator().manual_seed(0)
    ).to(F64)
    for value in (
        lambda p: p.mean,
        lambda p: p.variance,
        lambda p: p.covariance_matrix,
        lambda p: p.skewness,
        lambda p: p.rsample_from_base_samples(torch.Size([8]), normals),
    ):
        a, b = value(ours), value(theirs)
        torch.testing.assert_close(a, b)
        weights = torch.linspace(-1, 1, a.numel(), dtype=F64).view(a.shape)
        gradients = [
            torch.autograd.grad((v * weights).sum(), features, retain_graph=True)[0]
            for v in (a, b)
        ]
        torch.testing.assert_close(*gradients)


def test_means_first_read_without_a_graph_have_one_later() -> None:
    lazy, _, features = _both((), (), 6, 50)
    with torch.no_grad():
        assert lazy.means.shape == (50, 4)
    (gradient,) = torch.autograd.grad(lazy.means.sum(), features)
    assert gradient.abs().min() > 0


def test_spread_is_differentiable_in_draws_that_depend_on_each_other() -> None:
    free = normal(3, 40)
    lift = torch.tensor([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [1, -1, 0]], dtype=F64)

    def variance(values: torch.Tensor) -> torch.Tensor:
        return WeightDraws(lift @ values).root.square().sum(-1)

    expected_variance = (lift @ free).var(-1, correction=0)
    torch.testing.assert_close(variance(free), expected_variance)
    assert torch.autograd.gradcheck(variance, free.requires_grad_())


def test_spread_keeps_its_relative_accuracy_where_weights_nearly_cancel() -> None:
    large, small = normal(2, 1000)
    draws = WeightDraws(torch.stack([1e6 * large, small - 1e6 * large]))
    deviation = (torch.ones(1, 2, dtype=F64) @ draws.root).square().sum().sqrt()
    assert math.isclose(deviation, small.std(correction=0), rel_tol=1e-8)


def test_quantiles_of_a_gaussian_are_its_mean_where_nothing_is_open() -> None:
    moments = Moments(
        torch.tensor([[1.0, -2.0]]).double(),
        torch.diag(torch.tensor([0.0, 4.0])).double(),
    )
    posterior = gaussian_posterior(moments)
    values = torch.tensor([0.025, 0.5, 0.975], dtype=torch.double)
    # Of the standard normal distribution, from a table.
    expected = torch.tensor([-1.959963985, 0.0, 1.959963985], dtype=torch.double)
    quantiles = posterior.quantile(values).squeeze(-1)
    torch.testing.assert_close(quantiles[:, 0], torch.ones(3).double())
    torch.testing.assert_close(quantiles[:, 1], 2 * expected - 2)
    torch.testing.assert_close(posterior.quantile(values[:1]).squeeze(-1), quantiles[0])
