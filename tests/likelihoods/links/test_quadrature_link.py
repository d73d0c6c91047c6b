"""The link of any win probability against dense quadrature and closed forms."""

import itertools
import math

import numpy
import pytest
import torch
from botorch.utils.probability.utils import ndtr
from scipy.stats import norm
from torch import Tensor

from botorch_pref.likelihoods import DuelLink, LogitLink, ProbitLink
from botorch_pref.likelihoods.base import QuadratureLink

DOUBLE = torch.float64
MEANS = torch.tensor([-40.0, -6.0, -1.0, 0.0, 0.3, 2.0, 30.0], dtype=DOUBLE)
DEVIATIONS = torch.tensor(
    [0.0, 1e-7, 1e-3, 0.2, 1.0, 3.0, 10.0, 1e2, 1e5], dtype=DOUBLE
)
METHODS = ("log_win_probability", "expected_entropy", "win_slope", "win_variance")


def probit(noise: float) -> tuple[DuelLink, DuelLink, float]:
    # Its closed form of the entropy is right within 8.1e-8.
    link = QuadratureLink(lambda u: ndtr(u / math.sqrt(2 * noise)))
    return link, ProbitLink(noise), 8.1e-8


CLOSED = {
    "probit": probit(0.5),
    "narrow probit": probit(1e-6),
    "wide probit": probit(1e4),
    "logit": (QuadratureLink(torch.sigmoid), LogitLink(), 1e-9),
}


@pytest.mark.parametrize("name", CLOSED)
@pytest.mark.parametrize("method", METHODS)
def test_closed_forms_at_any_deviation(name: str, method: str) -> None:
    ours, theirs, entropy = CLOSED[name]
    mean, variance = MEANS.unsqueeze(-1), DEVIATIONS.square()
    got = getattr(ours, method)(mean, variance)
    want = getattr(theirs, method)(mean, variance)
    if method == "log_win_probability":
        # Beyond, the tail is below the smallest number.
        seen = want > -600
        torch.testing.assert_close(got[seen], want[seen], rtol=1e-9, atol=1e-9)
        got, want = got.exp(), want.exp()
    atol = entropy if method == "expected_entropy" else 1e-9
    torch.testing.assert_close(got, want, rtol=1e-9, atol=atol)


LAPSE = 0.08


def cauchy_with_lapses(u: Tensor) -> Tensor:
    return LAPSE / 2 + (1 - LAPSE) * (0.5 + u.atan() / math.pi)


def integral(function, mean: float, deviation: float) -> float:
    """Over the Gaussian by Gauss-Legendre's rule, cut where it and the link bend."""
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


def win(u: numpy.ndarray) -> numpy.ndarray:
    return LAPSE / 2 + (1 - LAPSE) * (0.5 + numpy.arctan(u) / math.pi)


def entropy(u: numpy.ndarray) -> numpy.ndarray:
    p = win(u)
    return -p * numpy.log(p) - (1 - p) * numpy.log(1 - p)


@pytest.mark.parametrize("deviation", [1e-2, 0.7, 5.0, 300.0])
@pytest.mark.parametrize("mean", [-20.0, 0.0, 1.5])
def test_heavy_tails_and_lapses(mean: float, deviation: float) -> None:
    link = QuadratureLink(cauchy_with_lapses)
    at = torch.tensor(mean, dtype=DOUBLE), torch.tensor(deviation**2, dtype=DOUBLE)
    expected = integral(win, mean, deviation)
    square = integral(lambda u: (win(u) - expected) ** 2, mean, deviation)
    slope = integral(lambda u: (1 - LAPSE) / (math.pi * (1 + u**2)), mean, deviation)
    assert float(link.win_probability(*at)) == pytest.approx(expected, abs=1e-10)
    assert float(link.expected_entropy(*at)) == pytest.approx(
        integral(entropy, mean, deviation), abs=1e-10
    )
    assert float(link.win_slope(*at)) == pytest.approx(slope, rel=1e-8)
    assert float(link.win_variance(*at)) == pytest.approx(square, abs=1e-10)


@pytest.mark.parametrize("method", METHODS)
def test_gradients_match_finite_differences_also_in_parameters(method: str) -> None:
    generator = torch.Generator().manual_seed(1)
    mean = torch.randn(3, 4, generator=generator, dtype=DOUBLE)
    variance = torch.tensor([0.02, 0.4, 2.0, 30.0], dtype=DOUBLE)
    scale = torch.tensor([0.1, 0.5, 1.0, 2.0], dtype=DOUBLE)

    def value(m: Tensor, v: Tensor, s: Tensor) -> Tensor:
        link = QuadratureLink(lambda u: cauchy_with_lapses(u / s))
        return getattr(link, method)(m, v)

    arguments = tuple(t.requires_grad_() for t in (mean, variance, scale))
    assert torch.autograd.gradcheck(value, arguments)


def test_parameters_are_broadcast_against_the_batch() -> None:
    mean = torch.linspace(-1, 1, 6, dtype=DOUBLE).reshape(2, 3)
    variance = torch.full((3,), 0.3, dtype=DOUBLE)
    scale = torch.tensor([0.1, 1.0, 20.0], dtype=DOUBLE)
    for method in METHODS:
        link = QuadratureLink(lambda u: torch.sigmoid(u / scale))
        together = getattr(link, method)(mean, variance)
        apart = [
            getattr(QuadratureLink(lambda u, s=s: torch.sigmoid(u / s)), method)(
                mean[:, i], variance[i]
            )
            for i, s in enumerate(scale.tolist())
        ]
        torch.testing.assert_close(together, torch.stack(apart, dim=-1))


def test_nothing_is_recorded_where_no_gradient_is_wanted() -> None:
    link = QuadratureLink(torch.sigmoid)
    mean = torch.zeros(2, dtype=DOUBLE)
    for method in METHODS:
        assert not getattr(link, method)(mean, mean + 1).requires_grad


def test_float32_stays_float32() -> None:
    link = QuadratureLink(cauchy_with_lapses)
    mean, variance = torch.tensor([-30.0, -1.0, 0.0, 1.0, 30.0]), torch.tensor(2.0)
    for method in METHODS:
        value = getattr(link, method)(mean, variance)
        assert value.dtype == torch.float32
        want = getattr(link, method)(mean.double(), variance.double())
        torch.testing.assert_close(value.double(), want, rtol=1e-5, atol=1e-6)
