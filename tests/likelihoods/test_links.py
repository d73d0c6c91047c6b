"""Links of duels: closed forms and quadrature, against dense quadrature by SciPy."""

import itertools
import math

import numpy
import pytest
import torch
from cases import in_turn
from draws import normal
from scipy.special import expit, log_expit
from scipy.stats import norm
from torch import Tensor

from botorch_pref.likelihoods import LogitLink, ProbitLink
from botorch_pref.likelihoods.lapses import LapsingLink
from botorch_pref.likelihoods.protocol import (
    QuadratureLink,
    answer_correlation,
    binary_entropy,
)

DOUBLE = torch.float64
METHODS = ("log_win_probability", "expected_entropy", "win_slope", "win_variance")
ENTROPY_ERRORS = {"probit": 8.1e-8, "probit with lapses": 4e-6}
LAPSE = 0.08


def cauchy_with_lapses(u: Tensor) -> Tensor:
    return LAPSE / 2 + (1 - LAPSE) * (0.5 + u.atan() / math.pi)


# Each with the win probability, its logarithm and its slope at known differences.
LINKS = {
    "probit": (ProbitLink(0.5), norm.cdf, norm.logcdf, norm.pdf),
    "probit with lapses": (
        LapsingLink(ProbitLink(0.5), torch.tensor(LAPSE, dtype=DOUBLE)),
        lambda u: LAPSE / 2 + (1 - LAPSE) * norm.cdf(u),
        None,
        lambda u: (1 - LAPSE) * norm.pdf(u),
    ),
    "logit": (LogitLink(), expit, log_expit, lambda u: expit(u) * expit(-u)),
    "cauchy": (
        QuadratureLink(cauchy_with_lapses),
        lambda u: LAPSE / 2 + (1 - LAPSE) * (0.5 + numpy.arctan(u) / math.pi),
        None,
        lambda u: (1 - LAPSE) / (math.pi * (1 + u**2)),
    ),
}


def integral(function, mean: float, deviation: float) -> float:
    """Integrates over the Gaussian by Gauss-Legendre, cut where either bends."""
    cuts = {mean + deviation * k for k in (-12, -9, -6, -4, -2, 0, 2, 4, 6, 9, 12)}
    low, high = min(cuts), max(cuts)
    near = {s * 2.0**k for s in (-1, 1) for k in range(-3, 13)} | {0.0}
    cuts |= {cut for cut in near if low < cut < high}
    nodes, weights = numpy.polynomial.legendre.leggauss(40)
    total = 0.0
    for a, b in itertools.pairwise(sorted(cuts)):
        u = 0.5 * (a + b) + 0.5 * (b - a) * nodes
        values = function(u) * norm.pdf(u, mean, deviation)
        total += 0.5 * (b - a) * float(weights @ values)
    return total


def entropy(p: numpy.ndarray, q: numpy.ndarray) -> numpy.ndarray:
    tiny = numpy.finfo(float).tiny
    return -p * numpy.log(p + tiny) - q * numpy.log(q + tiny)


@in_turn("deviation", [1e-3, 0.1, 0.7, 5.0, 1e3])
@in_turn("mean", [-40.0, -2.0, 0.0, 0.7])
@in_turn("name", LINKS)
def test_against_quadrature(name: str, mean: float, deviation: float) -> None:
    link, win, _, density = LINKS[name]
    moments = torch.tensor(mean, dtype=DOUBLE), torch.tensor(deviation**2, dtype=DOUBLE)
    expected = integral(win, mean, deviation)
    assert float(link.win_probability(*moments)) == pytest.approx(expected, abs=1e-10)
    assert float(link.win_probability(-moments[0], moments[1])) == pytest.approx(
        1 - expected, abs=1e-10
    )
    allowed = ENTROPY_ERRORS.get(name, 0.0)
    remaining = integral(lambda u: entropy(win(u), win(-u)), mean, deviation)
    value = float(link.expected_entropy(*moments))
    assert value == pytest.approx(remaining, abs=allowed + 1e-10)
    slope = integral(density, mean, deviation)
    assert float(link.win_slope(*moments)) == pytest.approx(slope, rel=1e-8, abs=1e-14)
    square = integral(lambda u: (win(u) - expected) ** 2, mean, deviation)
    assert float(link.win_variance(*moments)) == pytest.approx(square, abs=1e-10)


@in_turn("name", ["probit", "logit"])
def test_tails_and_their_gradients_at_differences_of_800(name: str) -> None:
    """With a known difference the logarithm is the link's own."""
    link, _, log_win, _ = LINKS[name]
    mean = torch.tensor([-800.0, 800.0], dtype=DOUBLE, requires_grad=True)
    variance = torch.zeros(2, dtype=DOUBLE, requires_grad=True)
    value = link.log_win_probability(mean, variance)
    want = torch.from_numpy(log_win(mean.detach().numpy()))
    torch.testing.assert_close(value.detach(), want, rtol=1e-13, atol=0)
    slopes = torch.autograd.grad(value.sum(), (mean, variance))
    assert bool(torch.cat(slopes).isfinite().all())
    # Mills: the hazard at -x is x + 1 / x to order x^-3.
    expected = 800 + 1 / 800 if name == "probit" else 1.0
    assert float(slopes[0][0]) == pytest.approx(expected, rel=1e-8)


def test_entropy_of_a_known_difference_is_within_the_stated_error() -> None:
    x = torch.linspace(-12, 12, 24_001, dtype=DOUBLE)
    truth = binary_entropy(*(torch.from_numpy(norm.logcdf(t)) for t in (x, -x)))
    ours = ProbitLink(0.5).expected_entropy(x, torch.zeros_like(x))
    assert float((ours - truth).abs().max()) <= ENTROPY_ERRORS["probit"]


MADE = {
    "probit": ProbitLink,
    "cauchy": lambda s: QuadratureLink(lambda u: cauchy_with_lapses(u / s)),
}


@in_turn("name", MADE)
@in_turn("method", METHODS)
def test_gradients_match_finite_differences_also_in_parameters(
    name: str, method: str
) -> None:
    mean = normal(3, 4, seed=1)
    variance = torch.tensor([0.02, 0.4, 2.0, 30.0], dtype=DOUBLE)
    scale = torch.tensor([0.1, 0.5, 1.0, 2.0], dtype=DOUBLE)

    def value(m: Tensor, v: Tensor, s: Tensor) -> Tensor:
        return getattr(MADE[name](s), method)(m, v)

    arguments = tuple(t.requires_grad_() for t in (mean, variance, scale))
    assert torch.autograd.gradcheck(value, arguments)


@in_turn("name", LINKS)
@in_turn("method", METHODS)
def test_gradients_in_the_variance_alone_match_finite_differences(
    name: str, method: str
) -> None:
    mean = torch.tensor([-1.5, 0.2, 3.0], dtype=DOUBLE)
    variance = torch.tensor([0.4, 2.0, 30.0], dtype=DOUBLE, requires_grad=True)
    value = getattr(LINKS[name][0], method)
    assert torch.autograd.gradcheck(lambda v: value(mean, v), (variance,))


@in_turn("name", MADE)
def test_parameters_are_broadcast_against_the_batch(name: str) -> None:
    mean = torch.linspace(-1, 1, 6, dtype=DOUBLE).reshape(2, 3)
    variance = torch.full((3,), 0.3, dtype=DOUBLE)
    scale = torch.tensor([0.1, 1.0, 20.0], dtype=DOUBLE)
    for method in METHODS:
        together = getattr(MADE[name](scale), method)(mean, variance)
        apart = [
            getattr(MADE[name](s), method)(mean[:, i], variance[i])
            for i, s in enumerate(scale.tolist())
        ]
        torch.testing.assert_close(together, torch.stack(apart, dim=-1))


def test_nothing_is_recorded_where_no_gradient_is_wanted() -> None:
    link = QuadratureLink(torch.sigmoid)
    mean = torch.zeros(2, dtype=DOUBLE)
    for method in METHODS:
        assert not getattr(link, method)(mean, mean + 1).requires_grad


@in_turn("name", LINKS)
def test_values_are_known_in_inference_mode_too(name: str) -> None:
    link, arguments = (
        LINKS[name][0],
        torch.tensor([[-1.0, 0.3], [0.2, 2.0]], dtype=DOUBLE),
    )
    want = [getattr(link, method)(*arguments) for method in METHODS]
    with torch.inference_mode():
        copied = 1 * arguments
        for method, value in zip(METHODS, want, strict=True):
            torch.testing.assert_close(getattr(link, method)(*copied), value)


@in_turn("name", LINKS)
def test_float32_stays_float32(name: str) -> None:
    link = LINKS[name][0]
    mean, variance = torch.tensor([-30.0, -1.0, 0.0, 1.0, 30.0]), torch.tensor(2.0)
    for method in METHODS:
        value = getattr(link, method)(mean, variance)
        assert value.dtype == torch.float32
        want = getattr(link, method)(mean.double(), variance.double())
        torch.testing.assert_close(value.double(), want, rtol=1e-5, atol=1e-6)


@in_turn("variance", [1e-4, 0.3, 40.0])
@in_turn("number", [1, 3])
@in_turn("name", ["probit", "logit"])
def test_correlation_of_an_answer(name: str, number: int, variance: float) -> None:
    """With the difference of utilities, whose density is a mixture's."""
    link, win, _, _ = LINKS[name]
    means = torch.tensor([[0.3], [-2.0], [5.0]], dtype=DOUBLE)[:number]
    deviation = math.sqrt(variance)

    def mean(function) -> float:
        parts = [integral(function, m, deviation) for m in means.flatten().tolist()]
        return sum(parts) / number

    first, wins = mean(lambda u: u), mean(win)
    covariance = mean(lambda u: (u - first) * win(u))
    spread = mean(lambda u: (u - first) ** 2) * wins * (1 - wins)
    correlation = answer_correlation(
        link, means, torch.tensor([variance], dtype=DOUBLE)
    )
    assert float(correlation) == pytest.approx(covariance / math.sqrt(spread), abs=1e-8)


def test_correlation_without_noise_and_in_the_tails() -> None:
    """An even chance takes 2 / pi of the variance, a certain answer nothing."""
    means = torch.tensor([[0.0, 30.0, 300.0, -300.0]], dtype=DOUBLE, requires_grad=True)
    correlation = answer_correlation(
        ProbitLink(0.0), means, torch.ones(4, dtype=DOUBLE)
    )
    assert float(correlation[0].detach()) ** 2 == pytest.approx(2 / math.pi)
    # phi(z) / sqrt(Phi(z) Phi(-z)), with Phi(-z) = phi(z) / z (1 - 1 / z^2 + ...).
    log = 0.5 * (norm.logpdf(30.0) + math.log(30.0) - math.log1p(-1 / 900))
    assert float(correlation[1].detach().log()) == pytest.approx(log, abs=1e-4)
    assert correlation[2:].tolist() == [0.0, 0.0]
    (gradient,) = torch.autograd.grad(correlation.sum(), means)
    assert bool(gradient.isfinite().all())
