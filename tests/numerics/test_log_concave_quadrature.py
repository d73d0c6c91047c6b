"""Integrals of log-concave functions times Gaussians against adaptive quadrature."""

import functools
import itertools
import math

import mpmath as mp
import pytest
import torch

from botorch_pref.errors import PrecisionError
from botorch_pref.numerics import quadrature
from botorch_pref.numerics.normal import log_ndtr_derivatives
from botorch_pref.numerics.quadrature import log_concave_integral


def log_sigmoid(z):
    """Computes ``log sigma(z)`` and its first two derivatives."""
    win, loss = torch.sigmoid(z), torch.sigmoid(-z)
    return torch.nn.functional.logsigmoid(z), loss, -win * loss


# Few and many integrals begin with different rules.
few_and_many = pytest.mark.parametrize("copies", [1, 100])


@few_and_many
def test_gaussian_factor_in_closed_form(copies) -> None:
    """With g = -(z - c)^2 / (2 t): log N(c; mu, s + t) + log(2 pi t) / 2."""
    centre, t = 1.3, 0.4

    def function(z):
        return (
            -0.5 * (z - centre) ** 2 / t,
            -(z - centre) / t,
            torch.full_like(z, -1 / t),
        )

    mean = torch.tensor([-3.0, 0.0, 2.0], dtype=torch.float64).repeat(copies)
    s = torch.tensor([0.1, 1.0, 7.0], dtype=torch.float64).repeat(copies)
    value, slope, curvature, ratio = log_concave_integral(lambda _: function, mean, s)
    expected = -0.5 * (centre - mean) ** 2 / (s + t) + 0.5 * torch.log(t / (s + t))
    torch.testing.assert_close(value, expected, rtol=0, atol=1e-13)
    torch.testing.assert_close(slope, (centre - mean) / (s + t), rtol=0, atol=1e-12)
    torch.testing.assert_close(curvature, -1 / (s + t), rtol=0, atol=1e-12)
    torch.testing.assert_close(ratio, t / (s + t), rtol=1e-12, atol=0)


def test_integrals_by_parts_are_those_taken_together(monkeypatch) -> None:
    generator = torch.Generator().manual_seed(0)
    # Of all rules: gentle rows, cliffs, and powers that contradict each other.
    wins = 10 ** torch.randint(0, 6, (300,), generator=generator).double()
    losses = torch.randint(0, 3, (300,), generator=generator) * wins
    mean = 5 * torch.randn(2, 300, generator=generator, dtype=torch.float64)
    variance = 10 ** (6 * torch.rand(300, generator=generator, dtype=torch.float64) - 3)

    def of_rows(places):
        won, lost = (n if places is None else n[places] for n in (wins, losses))

        def function(z):
            (a, first, second), (b, back, bend) = log_sigmoid(z), log_sigmoid(-z)
            sums = won * a + lost * b, won * first - lost * back
            return *sums, won * second + lost * bend

        return function

    together = log_concave_integral(of_rows, mean, variance)
    monkeypatch.setattr(quadrature, "_AT_ONCE", 14)
    by_parts = log_concave_integral(of_rows, mean, variance)
    for part, expected in zip(by_parts, together, strict=True):
        torch.testing.assert_close(part, expected, rtol=1e-9, atol=1e-12)


# The link and its scale, wins, losses, and mean and variance of the Gaussian. Powers
# are cliffs ten thousand times narrower than it, or contradict each other beside it.
POWERS = [
    ("probit", 1.4, 100_000, 0, 0.0, 2e4),
    ("probit", 0.045, 100_000, 0, 0.0, 2e4),
    ("probit", 1.4, 100_000, 0, -3.0, 0.5),
    ("probit", 1.4, 100_000, 0, 60.0, 225.0),
    ("probit", 0.045, 100_000, 1, -3.0, 0.5),
    ("probit", 0.045, 100_000, 50_000, 0.0, 2e4),
    ("probit", 0.045, 1_000, 1, 0.0, 2.0),
    ("probit", 1.4, 20, 15, -300.0, 2e4),
    ("probit", 0.045, 10, 0, -3.0, 0.5),
    ("probit", 1.4, 2, 1, 1.0, 3.0),
    ("probit", 1.4, 1, 1, 0.3, 0.2),
    ("logit", 1.0, 1, 0, -800.0, 1e-6),
    ("logit", 1.0, 1, 0, 0.7, 1e-2),
    ("logit", 1.0, 1, 0, -40.0, 1.0),
    ("logit", 1.0, 1, 0, -90.0, 900.0),
    ("logit", 1.0, 1, 0, 32.0, 1030.0),
    ("logit", 1.0, 1, 0, 800.0, 1e6),
    ("logit", 1.0, 1, 0, -3e6, 1e12),
]


def log_probability(link, scale, z):
    """Computes log probability of a win and its slope, with mpmath's digits."""
    if link == "logit":
        return -mp.log1p(mp.exp(-z)), 1 / (1 + mp.exp(z))
    win = mp.erfc(-z / scale / mp.sqrt(2)) / 2
    density = mp.exp(-((z / scale) ** 2) / 2) / mp.sqrt(2 * mp.pi) / scale
    return mp.log(win), density / win


def power_truth(link, scale, wins, losses, mean, variance):
    """Computes the log integral, tilted mean and variance, in many digits."""
    scale, mean, variance = mp.mpf(scale), mp.mpf(mean), mp.mpf(variance)

    sides = [(count, sign) for count, sign in ((wins, 1), (losses, -1)) if count]

    def log_terms(z):
        logs = (n * log_probability(link, scale, s * z)[0] for n, s in sides)
        return sum(logs) - (z - mean) ** 2 / (2 * variance)

    def slope(z):
        slopes = (n * s * log_probability(link, scale, s * z)[1] for n, s in sides)
        return sum(slopes) - (z - mean) / variance

    low, high = mean - 1000 * mp.sqrt(variance) - 50, mean + 1000 * mp.sqrt(variance)
    high += 50

    def bisect(above):
        a, b = low, high
        for _ in range(50):
            middle = (a + b) / 2
            a, b = (middle, b) if above(middle) else (a, middle)
        return a

    peak = bisect(lambda z: slope(z) > 0)
    top = log_terms(peak)
    # Pieces between points where the integrand has fallen by so much, and bends.
    levels = [mp.mpf(d) for d in (0.01, 0.1, 0.3, 1, 2, 4, 8, 16, 32, 60)]
    edges = [peak]
    for fall in levels:
        edges.append(bisect(lambda z, d=fall: z < peak and log_terms(z) < top - d))
        edges.append(bisect(lambda z, d=fall: z < peak or log_terms(z) > top - d))
    bends = [-60, -20, -6, -2, 0, 2, 6, 20, 60] if link == "logit" else []
    edges = sorted({*edges, *(b for b in bends if min(edges) < b < max(edges))})
    pieces = sorted(
        {a + (b - a) * k / 2 for a, b in itertools.pairwise(edges) for k in range(3)}
    )

    @functools.cache
    def product(z):
        return mp.exp(log_terms(z) - top)

    def integral_of(function):
        return mp.quad(
            lambda z: function(z) * product(z),
            pieces,
            method="gauss-legendre",
            maxdegree=3,
        )

    mass = integral_of(lambda z: mp.mpf(1))
    centre = integral_of(lambda z: z - peak) / mass
    spread = integral_of(lambda z: (z - peak - centre) ** 2) / mass
    value = top + mp.log(mass) - mp.log(2 * mp.pi * variance) / 2
    return float(value), float(peak + centre), float(spread)


def power_of(link, scale, wins, losses):
    def log_product(z):
        value, first, second = torch.zeros_like(z), 0.0, 0.0
        for count, sign in ((wins, 1), (losses, -1)):
            x = sign * z / scale
            parts = log_sigmoid(x) if link == "logit" else log_ndtr_derivatives(x)
            value = value + count * parts[0]
            first = first + count * sign * parts[1] / scale
            second = second + count * parts[2] / scale**2
        return value, first, second

    return lambda places: log_product


@pytest.mark.parametrize("power", POWERS, ids=str)
def test_powers_in_many_digits(power) -> None:
    *function, mean, variance = power
    with mp.workdps(24):
        value, centre, spread = power_truth(*power)
    deviation = math.sqrt(spread)
    # The mean of the Gaussian has so many digits.
    rounding = 1e-15 * (abs(mean) + math.sqrt(variance)) / deviation
    for copies in (1, 300):
        gaussian = [
            torch.full((copies,), x, dtype=torch.float64) for x in (mean, variance)
        ]
        moments = log_concave_integral(power_of(*function), *gaussian)
        assert float(moments.value[0]) == pytest.approx(
            value, rel=1e-9, abs=1e-9 + rounding
        )
        moved = mean + variance * float(moments.first[0])
        assert abs(moved - centre) <= (1e-7 + 100 * rounding) * deviation
        assert float(moments.ratio[0]) == pytest.approx(spread / variance, rel=1e-7)
        single = log_concave_integral(
            power_of(*function), *(t.float() for t in gaussian)
        )
        assert single.ratio.dtype == torch.float32
        assert float(single.ratio[0]) == pytest.approx(spread / variance, rel=1e-5)


@few_and_many
def test_derivatives_where_wide_and_narrow_stand_together(copies) -> None:
    mean = torch.tensor([-3000.0, -50.0, 0.0, 400.0, 2.0], dtype=torch.float64)
    variance = torch.tensor([2e3, 1e4, 5e3, 1e6, 3.0], dtype=torch.float64)
    mean.requires_grad_(), variance.requires_grad_()
    of_rows = power_of("logit", 1.0, 1, 0)

    def integral(mean, variance):
        moments = log_concave_integral(
            of_rows, mean.repeat(copies), variance.repeat(copies)
        )
        return [part[:5] for part in moments]

    value, slope, bent, _ = integral(mean, variance)
    by_mean, by_variance = torch.autograd.grad(value.sum(), (mean, variance))
    torch.testing.assert_close(by_mean, slope, rtol=1e-12, atol=1e-15)
    # The heat equation.
    heat = 0.5 * (bent + slope.square())
    torch.testing.assert_close(by_variance, heat, rtol=1e-9, atol=1e-15)
    for place, unit in enumerate((1.0, 1e2, 1e4)):
        assert torch.autograd.gradcheck(
            lambda m, v, place=place, unit=unit: unit * integral(m, v)[place],
            (mean, variance), eps=1e-3, atol=1e-7, rtol=1e-5,
        )  # fmt: skip


def test_a_power_whose_peak_newton_steps_from_side_to_side() -> None:
    """Wins beyond a bend as far away as fifty deviations, on a fine grid."""
    wins, mean, variance = 54_643.0, -2.754, 0.026276590

    def power(z):
        value, first, second = log_sigmoid(z)
        return wins * value, wins * first, wins * second

    gaussian = (torch.tensor([t], dtype=torch.float64) for t in (mean, variance))
    moments = log_concave_integral(lambda places: power, *gaussian)
    z = torch.linspace(0.0, 12.0, 400_001, dtype=torch.float64)
    logs = wins * torch.nn.functional.logsigmoid(z) - 0.5 * (z - mean) ** 2 / variance
    total = torch.logsumexp(logs, 0)
    log_value = total + math.log(float(z[1])) - 0.5 * math.log(2 * math.pi * variance)
    weights = (logs - total).exp()
    first = ((weights @ z) - mean) / variance
    spread = (weights @ (z - weights @ z).square()) / variance
    torch.testing.assert_close(moments.value[0], log_value, rtol=1e-9, atol=0)
    torch.testing.assert_close(moments.first[0], first, rtol=1e-9, atol=0)
    torch.testing.assert_close(
        moments.second[0], (spread - 1) / variance, rtol=1e-8, atol=0
    )


def test_a_symmetric_product_that_is_narrower_than_the_steps() -> None:
    """A tie three times: at this threshold even sums miss no identity by symmetry."""
    threshold, variance = 2.3517591109750176, 800.0

    def tie(z):
        parts = log_sigmoid(z - threshold), log_sigmoid(-z - threshold)
        (value, first, second), (reverse, slope, bend) = parts
        return 3 * (value + reverse), 3 * (first - slope), 3 * (second + bend)

    def density(z):
        win, loss = (1 / (1 + mp.exp(threshold - s * z)) for s in (1, -1))
        return (win * loss) ** 3 * mp.exp(-(z**2) / 2 / variance)

    ends = [-40, -4, 0, 4, 40]
    mass = mp.quad(density, ends)
    spread = mp.quad(lambda z: z**2 * density(z), ends) / mass
    value = mp.log(mass) - mp.log(2 * mp.pi * variance) / 2
    gaussian = (torch.tensor([t], dtype=torch.float64) for t in (0.0, variance))
    moments = log_concave_integral(lambda places: tie, *gaussian)
    assert float(moments.value) == pytest.approx(float(value), rel=1e-9)
    assert float(moments.ratio) == pytest.approx(float(spread / variance), rel=1e-9)


def test_a_peak_further_away_than_digits_is_refused() -> None:
    """A pair that won once and lost once, at an output scale of 1e35."""

    def function(z):
        win, loss = log_ndtr_derivatives(z), log_ndtr_derivatives(-z)
        return win[0] + loss[0], win[1] - loss[1], win[2] + loss[2]

    mean = torch.tensor([-6e34, -4e34], dtype=torch.float64)
    with pytest.raises(PrecisionError, match=r"too large.*smaller output scale"):
        log_concave_integral(lambda _: function, mean, torch.full_like(mean, 4e35))
