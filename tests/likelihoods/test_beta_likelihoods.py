"""Strengths and ratings: factors, gradients and predictions."""

import math
from copy import deepcopy

import numpy as np
import pytest
import torch
from cases import in_turn
from scipy import stats

from botorch_pref.feedback import Ratings, Strengths
from botorch_pref.likelihoods import BetaRatingLikelihood, PairwiseBetaLikelihood
from botorch_pref.likelihoods.beta import beta_majority

ANSWERS = [1e-6, 0.03, 0.5, 0.81, 0.999]
SETTINGS = [(0.3, 0.2), (8.0, 1.0), (500.0, 0.05)]
each_setting = pytest.mark.parametrize(("precision", "noise"), SETTINGS)


def strengths(precision, noise):
    module = PairwiseBetaLikelihood(precision, noise).double()
    module.precision, module.noise = precision, noise
    module.raw_noise.requires_grad_()
    answers = torch.tensor(ANSWERS, dtype=torch.float64)
    pairs = torch.tensor([[0, 1]]).expand(len(ANSWERS), 2)
    return module, module.factors(Strengths(pairs, answers), 2)


def ratings(precision, noise):
    module = BetaRatingLikelihood(precision, noise).double()
    module.precision, module.noise = precision, noise
    module.raw_noise.requires_grad_()
    answers = torch.tensor(ANSWERS, dtype=torch.float64)
    index = torch.zeros(len(ANSWERS), dtype=torch.long)
    return module, module.factors(Ratings(index, answers), 2)


each_kind = pytest.mark.parametrize("build", [strengths, ratings])


@each_kind
@each_setting
def test_gradients_in_precision_and_noise_by_differences(
    build, precision, noise
) -> None:
    """Of the value, of the curvature, and of the partition function."""
    z = torch.linspace(-2, 2, len(ANSWERS), dtype=torch.float64) * math.sqrt(noise)
    weight = torch.linspace(1, 2, len(ANSWERS), dtype=torch.float64)
    _, factors = build(precision, noise)

    def forms(factors):
        log_prob = factors.log_prob(z)
        partition = factors.log_partition(z, torch.full_like(z, 0.4 * noise))
        parts = log_prob.value, log_prob.first, log_prob.second, partition.value
        return torch.stack([(weight * part).sum() for part in parts])

    values = forms(factors)
    for name, value in (("precision", precision), ("noise", noise)):
        module, learned = build(precision, noise)
        raw = getattr(module, f"raw_{name}")
        slope = -math.expm1(-value)
        got = [
            float(torch.autograd.grad(form, raw, retain_graph=True)[0]) / slope
            for form in forms(learned)
        ]
        step = 1e-5 * value
        changed = [
            forms(build(**({"precision": precision, "noise": noise} | {name: x}))[1])
            for x in (value + step, value - step)
        ]
        want = (changed[0] - changed[1]).detach() / (2 * step)
        scale = values.detach().abs() / value
        tolerance = 1e-6 * (want.abs() + scale) + 1e-6
        assert bool(((torch.tensor(got).double() - want).abs() <= tolerance).all())


@each_setting
def test_predictions_are_integrals_over_the_difference(precision, noise) -> None:
    """Equations 45 and 53, and the predictive density of equations 38 and 41."""
    module, _ = strengths(precision, noise)
    t = np.linspace(-10, 10, 40_001)
    weight = stats.norm.pdf(t) / stats.norm.pdf(t).sum()
    y = np.array([0.1, 0.3, 0.5, 0.92])
    for mean, variance in ((0.4, 0.3), (-1.0, 2.0), (3.0, 0.01)):
        moments = torch.tensor(mean).double(), torch.tensor(variance).double()
        mu = stats.norm.cdf((mean + math.sqrt(variance) * t) / math.sqrt(2 * noise))
        a, b = precision * mu, precision * (1 - mu)
        with np.errstate(all="ignore"):
            preferred = stats.beta.sf(0.5, a, b)
            heights = stats.beta.pdf(y[:, None], a, b)
        certain = (a == 0) | (b == 0)
        preferred = np.where(certain, mu, preferred)
        heights = np.where(certain, 0.0, heights)
        for got, want in (
            (module.expected_answer(*moments), weight @ mu),
            (module.preference_probability(*moments), weight @ preferred),
            (
                module.answer_log_density(torch.tensor(y), *moments).exp(),
                heights @ weight,
            ),
        ):
            got = got.detach().numpy()
            np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-12)


@in_turn("precision", [1.0, 1e3, 3e4])
def test_predictions_in_single_precision(precision) -> None:
    """Of exact answers too, of whose densities single precision loses the digits."""
    module = PairwiseBetaLikelihood(precision).double()
    mean = torch.linspace(-3, 12, 31)
    single, double = (
        (
            converted.answer_log_density(torch.tensor(0.75), points, 0 * points + 0.01),
            converted.preference_probability(points, 0 * points + 0.01),
        )
        for converted, points in (
            (deepcopy(module).float(), mean),
            (module, mean.double()),
        )
    )
    for got, want in zip(single, double, strict=True):
        assert got.dtype == torch.float32
        torch.testing.assert_close(got.double(), want, rtol=1e-5, atol=1e-5)
    assert float(single[1].detach().max()) <= 1


@in_turn("precision", [0.1, 1.0, 30.0, 1e4])
def test_majority_is_the_incomplete_beta_function(precision) -> None:
    mean = torch.tensor(
        [0.0, 1e-300, 1e-9, 0.01, 0.4999, 0.5, 0.501, 0.9, 1 - 1e-12, 1.0],
        dtype=torch.float64,
    )
    got = beta_majority(precision * mean, precision * (1 - mean)).numpy()
    inner = slice(1, -1)
    a = precision * mean.numpy()[inner]
    want = stats.beta.sf(0.5, a, precision * (1 - mean.numpy()[inner]))
    np.testing.assert_allclose(got[inner], want, rtol=1e-10, atol=1e-14)
    assert got[0] == 0
    assert got[-1] == 1


def test_a_preference_probability_is_smooth_in_mean_and_variance() -> None:
    module, _ = strengths(20.0, 0.5)
    mean = torch.tensor([-1.0, 0.2, 3.0]).double().requires_grad_()
    variance = torch.tensor([0.1, 1.0, 4.0]).double().requires_grad_()
    value = module.preference_probability(mean, variance)
    slopes = torch.autograd.grad(value.sum(), (mean, variance))
    h = 1e-5
    for got, shift in zip(slopes, ((h, 0.0), (0.0, h)), strict=True):
        up, down = (
            module.preference_probability(
                mean.detach() + sign * shift[0], variance.detach() + sign * shift[1]
            )
            for sign in (1, -1)
        )
        torch.testing.assert_close(got, (up - down) / (2 * h), rtol=1e-6, atol=1e-9)
    # Either may be preferred: the two probabilities sum to one.
    reverse = module.preference_probability(-mean, variance)
    torch.testing.assert_close((value + reverse).detach(), torch.ones(3).double())


@in_turn("variance", [0.0, 1e-300, 1e-40])
def test_a_preference_probability_of_known_utilities(variance) -> None:
    """As of an item and itself: the majority of one Beta distribution."""
    module, _ = strengths(20.0, 0.5)
    mean = torch.tensor([-1.0, 0.0, 0.3], dtype=torch.float64)
    got = module.preference_probability(mean, torch.full_like(mean, variance))
    mu = stats.norm.cdf(mean.numpy())
    want = stats.beta.sf(0.5, 20 * mu, 20 * (1 - mu))
    np.testing.assert_allclose(got.detach().numpy(), want, rtol=1e-10)


def test_forward_is_the_distribution_of_the_answer() -> None:
    module, _ = strengths(6.0, 0.5)
    z = torch.tensor([-1.0, 0.0, 2.0, 200.0], dtype=torch.float64)
    answer = module(z)
    want = torch.special.ndtr(z)
    torch.testing.assert_close(answer.mean, want)
    spread = want * (1 - want) / 7
    torch.testing.assert_close(answer.variance, spread)


@in_turn("kind", [PairwiseBetaLikelihood, BetaRatingLikelihood])
def test_what_is_learned_by_default(kind) -> None:
    module = kind()
    assert module.raw_precision.requires_grad
    assert not module.raw_noise.requires_grad
    assert float(module.observation_variance) == pytest.approx(1.0, rel=1e-6)
