"""The advice to stop, against closed forms and quadrature."""

import math

import pytest
import torch
from botorch.models.model import Model
from botorch.posteriors import GPyTorchPosterior
from gpytorch.distributions import MultivariateNormal
from scipy import integrate, stats
from torch import Tensor

from botorch_pref.errors import BotorchPrefError, UnsupportedFeedbackError
from botorch_pref.evaluation import stopping_advice
from botorch_pref.likelihoods import PairwiseProbitLikelihood
from botorch_pref.likelihoods.links import LogitLink, ProbitLink
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
