"""The advice to stop, against closed forms and quadrature."""

import math

import numpy as np
import pytest
import torch
from botorch.models.model import Model
from botorch.posteriors import GPyTorchPosterior
from gpytorch.distributions import MultivariateNormal
from scipy import integrate, stats
from torch import Tensor

from botorch_pref.errors import BotorchPrefError, UnsupportedFeedbackError
from botorch_pref.evaluation import stopping_advice
from botorch_pref.likelihoods import LogitLink, PairwiseProbitLikelihood, ProbitLink
from botorch_pref.models import EPPreferenceGP, SkewPreferenceGP


class Linear(Model):
    """``f(x) = w x`` in one dimension with standard normal ``w``, plus ``x^2 / 2``."""

    num_outputs = 1
    batch_shape = torch.Size()

    def posterior(self, X: Tensor, **_: object) -> GPyTorchPosterior:
        eye = 1e-12 * torch.eye(X.shape[-2], dtype=X.dtype)
        normal = MultivariateNormal(0.5 * X.squeeze(-1).square(), X @ X.mT + eye)
        return GPyTorchPosterior(normal)


def column(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.double).unsqueeze(-1)


@pytest.mark.parametrize("noise", [0.1, 1.0, 4.0])
def test_the_chance_is_that_of_the_larger_utility(noise) -> None:
    # Of 1 and 3 the second is recommended, and the gain is max(-2 w - 4, 0).
    advice = stopping_advice(
        Linear(), column(1.0, 3.0), tolerance=0.55, link=ProbitLink(noise)
    )

    def weighed(w: float) -> float:
        gain = max(-2 * w - 4, 0.0)
        return stats.norm.cdf(gain / math.sqrt(2 * noise)) * stats.norm.pdf(w)

    expected, _ = integrate.quad(weighed, -9, 9, points=[-2.0])
    threshold = stats.norm.ppf(0.55) * math.sqrt(2 * noise)
    confidence = stats.norm.cdf((threshold + 4) / 2)
    # Sobol samples of one normal are off by about one over their number, 4,096.
    assert advice.chance_of_regret == pytest.approx(expected, abs=2e-3)
    assert advice.confidence == pytest.approx(confidence, abs=2e-3)
    assert advice.stop is True


def test_the_advice_follows_both_arguments() -> None:
    # P(f(1) - f(3) > 0) = P(w < -2) = 0.0228, and some gains are not noticed.
    link = ProbitLink(1.0)
    for confidence, stop in ((0.97, True), (0.99, False)):
        advice = stopping_advice(
            Linear(), column(1.0, 3.0), 0.51, confidence, link=link
        )
        assert advice.stop is stop
    worse = stopping_advice(
        Linear(), column(1.0, 3.0), recommended=column(1.0), link=link
    )
    assert worse.stop is False
    # 2 w + 4 < sqrt(2) times the quantile of 0.6
    truth = stats.norm.cdf((math.sqrt(2) * stats.norm.ppf(0.6) - 4) / 2)
    assert worse.confidence == pytest.approx(truth, abs=2e-3)


def folded_mean(mean: float, deviation: float) -> float:
    """Expectation of the size of a normal variable."""
    return float(stats.foldnorm.mean(abs(mean) / deviation, scale=deviation))


@pytest.mark.parametrize("tolerance", [0.01, 0.3])
def test_the_gain_is_a_share_of_the_range_of_what_was_shown(tolerance: float) -> None:
    # Of 1 and 3 the first is recommended: the gain is max(2 w + 4, 0). What was shown
    # are 0 and 2, whose range is the size of 2 w + 2.
    advice = stopping_advice(
        Linear(),
        column(1.0, 3.0),
        recommended=column(1.0),
        shown=column(0.0, 2.0),
        gain_tolerance=tolerance,
        link=ProbitLink(),
    )
    gain = 4 * stats.norm.cdf(2) + 2 * stats.norm.pdf(2)
    # Sobol samples of one normal; its deviation is multiplied by 2.
    assert advice.expected_gain == pytest.approx(gain, abs=4e-3)
    share = gain / folded_mean(2.0, 2.0)
    assert advice.gain_share == pytest.approx(share, abs=4e-3)
    # Below -2 there is no gain, and above 2 w + 4 < tolerance (-2 w - 2) holds to a w.
    little = stats.norm.cdf(-(2 + tolerance) / (1 + tolerance))
    assert advice.gain_confidence == pytest.approx(little, abs=2e-3)
    assert advice.stop is False


def test_without_points_shown_the_range_is_that_of_the_candidates() -> None:
    candidates, link = column(1.0, 2.0, 3.0), ProbitLink()
    own = stopping_advice(Linear(), candidates, link=link)
    named = stopping_advice(Linear(), candidates, link=link, shown=candidates)
    assert own.gain_share == pytest.approx(named.gain_share, abs=4e-3)
    assert own.gain_confidence == pytest.approx(named.gain_confidence, abs=2e-3)


def test_of_a_person_who_never_errs_little_is_left_though_it_would_be_noticed() -> None:
    """Brute force: independent draws of the joint posterior on a grid."""
    X = torch.linspace(0, 1, 12, dtype=torch.double).unsqueeze(-1)
    order = (X.squeeze(-1) - 0.6).abs().argsort()
    pairs = torch.combinations(order, 2)
    likelihood = PairwiseProbitLikelihood(noise=1e-8)
    model = EPPreferenceGP(X, pairs, likelihood=likelihood)
    model.covar_module.base_kernel.lengthscale = 0.7
    grid = torch.linspace(0.5, 0.7, 21, dtype=torch.double).unsqueeze(-1)
    best = X[order[:1]]
    options = {"recommended": best, "shown": X, "gain_tolerance": 0.02}
    advice = stopping_advice(model, grid, **options)

    with torch.no_grad():
        joint = model.posterior(torch.cat([best, grid, X]))
        mean = joint.mean.squeeze(-1).numpy()
        covariance = joint.distribution.covariance_matrix.numpy()
    number = 40_000
    draws = np.random.default_rng(0).multivariate_normal(
        mean, covariance, number, method="eigh"
    )
    gain = draws[:, :22].max(1) - draws[:, 0]
    extent = np.ptp(draws[:, 22:], axis=1)
    chance = stats.norm.cdf(gain / math.sqrt(2e-8))

    def agree(value: float, sample: np.ndarray) -> bool:
        # Of 4,096 draws, which are not worse than independent ones, and of these.
        error = sample.std() * math.sqrt(1 / 4096 + 1 / number)
        return abs(value - sample.mean()) < 4 * error

    assert agree(advice.expected_gain, gain)
    assert agree(advice.gain_share * extent.mean(), gain)
    assert agree(advice.gain_confidence, gain < 0.02 * extent)
    assert agree(advice.chance_of_regret, chance)
    assert agree(advice.confidence, chance < 0.6)
    # It is sure to be noticed, and not worth a question.
    assert advice.chance_of_regret > 0.9
    assert advice.confidence < 0.1
    assert advice.gain_share < 0.02
    assert advice.stop is (advice.gain_confidence >= 0.9)
    assert stopping_advice(model, grid, **options | {"gain_tolerance": 0.2}).stop


def test_where_nothing_better_can_be_it_is_a_coin() -> None:
    model = EPPreferenceGP(column(0.1, 0.5), torch.tensor([[0, 1]]))
    advice = stopping_advice(model, column(0.1), recommended=column(0.1))
    assert advice.stop
    assert advice.confidence == 1
    assert advice.chance_of_regret == pytest.approx(0.5, abs=1e-6)


def test_the_noise_is_the_models() -> None:
    pairs = torch.tensor([[0, 1], [1, 2]])
    X = column(0.1, 0.5, 0.9)
    for noise in (0.01, 9.0):
        likelihood = PairwiseProbitLikelihood(noise=noise)
        model = SkewPreferenceGP(X, pairs, likelihood=likelihood, num_draws=64)
        own = stopping_advice(model, X)
        assert own == stopping_advice(model, X, link=ProbitLink(noise))
        assert own != stopping_advice(model, X, link=LogitLink())


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"tolerance": 0.5}, "tolerance is 0.5"),
        ({"tolerance": float("nan")}, "tolerance is nan"),
        ({"confidence": 1.0}, "confidence is 1.0"),
        ({"gain_tolerance": 0.0}, "gain_tolerance is 0.0"),
    ],
)
def test_numbers_that_cannot_be_are_refused(arguments, match) -> None:
    with pytest.raises(BotorchPrefError, match=match):
        stopping_advice(Linear(), column(1.0), link=ProbitLink(), **arguments)


def test_models_that_give_no_advice_are_refused() -> None:
    with pytest.raises(UnsupportedFeedbackError, match="is not known"):
        stopping_advice(Linear(), column(1.0, 3.0))
    pairs = torch.tensor([[0, 1], [1, 0]]).unsqueeze(-2)
    batch = EPPreferenceGP(column(0.1, 0.5), pairs)
    with pytest.raises(BotorchPrefError, match=r"batch of shape \(2,\)"):
        stopping_advice(batch, column(0.1, 0.5))
