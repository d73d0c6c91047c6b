"""Credible intervals of Gaussian posteriors, against those of one component."""

import torch
from scipy import stats

from botorch_pref import EPPreferenceGP, LaplacePreferenceGP, SkewPreferenceGP
from botorch_pref.posteriors import GaussianPosterior, Moments, gaussian_posterior


def test_the_interval_is_that_of_the_normal() -> None:
    means = torch.tensor([[[0.5, -1.0], [2.0, 0.0]]], dtype=torch.double)
    covariance = torch.tensor([[4.0, 1.0], [1.0, 0.25]], dtype=torch.double)
    posterior = gaussian_posterior(Moments(means, covariance.expand(2, 2, 2)))
    lower, upper = posterior.interval(0.9)
    low, high = stats.norm.interval(0.9, means[0].numpy(), [2.0, 0.5])
    torch.testing.assert_close(lower, torch.from_numpy(low).unsqueeze(-1))
    torch.testing.assert_close(upper, torch.from_numpy(high).unsqueeze(-1))


def test_every_engine_has_intervals_of_differences() -> None:
    X = torch.tensor([[0.0], [0.4], [1.0]], dtype=torch.double)
    pairs = torch.tensor([[0, 1], [1, 2]])
    for kind in (EPPreferenceGP, LaplacePreferenceGP, SkewPreferenceGP):
        difference = kind(X, pairs).duel_posterior(X[:2], X[2:])
        assert isinstance(difference, GaussianPosterior) == (kind != SkewPreferenceGP)
        with torch.no_grad():
            lower, upper = difference.interval(0.8)
            torch.manual_seed(0)
            draws = difference.rsample(torch.Size([20_000]))
        inside = ((draws > lower) & (draws < upper)).double().mean(0)
        # Four standard errors of a share of 20,000.
        assert (inside - 0.8).abs().max() < 4 * (0.8 * 0.2 / 20_000) ** 0.5
