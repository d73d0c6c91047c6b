"""Integrals of a function that peaks once, but is not concave, against brute force."""

import itertools
import math
from functools import partial

import mpmath as mp
import pytest
import torch
from cases import in_turn

from botorch_pref.errors import PrecisionError
from botorch_pref.likelihoods.beta import BetaFactors, beta_slope, beta_value
from botorch_pref.linalg import point_rows
from botorch_pref.numerics.bend_quadrature import (
    BentProducts,
    bent_integral,
    density_bend,
)


def double(value):
    return torch.tensor(value, dtype=torch.float64)


def integral(y, nu, mean, variance):
    y, nu, mean, variance = torch.broadcast_tensors(y, nu, mean, variance)
    bend = density_bend(partial(beta_value, y, nu.detach()), torch.zeros_like(y))

    def log_density(t):
        return beta_value(y, nu, t), beta_slope(y, nu, t)

    return bent_integral(log_density, mean, variance, *bend)[:3]


def integral_of_factors(y, nu, mean, variance):
    """Integrates the same by the likelihood, which looks about the peak first."""
    parts = torch.broadcast_tensors(y, nu, mean, variance)
    answers, precision, *gaussian = (part.flatten() for part in parts)
    rows = point_rows(torch.zeros(len(answers), dtype=torch.long), 1, answers)
    moments = BetaFactors(rows, answers, precision, double(0.5)).tilted(*gaussian)
    return [moment.reshape(parts[0].shape) for moment in moments[:3]]


RULES = {"the bend": integral, "the peak": integral_of_factors}


@in_turn(
    ("y", "nu", "mean", "variance"),
    [
        (0.5, 10.0, 0.3, 1.0),
        # An answer to all digits, as a precise person gives it.
        (0.3, 3e5, -0.2, 0.04),
        (0.3, 3e5, -0.5243, 1e-6),
        (0.9, 0.2, -2.0, 4.0),
        (1e-6, 3.0, 5.0, 0.5),
        # The cavity says 12, the answer 0: two bumps, the narrow one far off.
        (0.5, 100.0, 6.0, 0.12),
        (0.5, 100.0, 6.0, 0.2),
        (0.3, 1e4, 0.0, 100.0),
        (1e-9, 0.1, -30.0, 400.0),
        # Hundreds of deviations of the cavity from what is left of it.
        (1e-6, 1e4, 0.0, 1e-4),
        (0.5, 100.0, 6.0, 1e-3),
        (0.5, 100.0, 12.0, 0.04),
    ],
)
def test_against_thirty_digits(y, nu, mean, variance) -> None:
    def density(t):
        a = nu * mp.erfc(-t / mp.sqrt(2)) / 2
        b = nu * mp.erfc(t / mp.sqrt(2)) / 2
        log = mp.loggamma(nu) - mp.loggamma(a) - mp.loggamma(b)
        log += (a - 1) * mp.log(y) + (b - 1) * mp.log1p(-y)
        return mp.exp(log - (t - mean) ** 2 / (2 * variance))

    with mp.workdps(30):
        # The trapezoidal rule converges faster than any power for such integrands: at
        # half the width of the narrower factor it has all digits.
        sd = math.sqrt(variance)
        step = 0.5 * min(sd, 0.8 / math.sqrt(nu), 0.4)
        low, high = max(-14, min(mean - 14 * sd, -6)), min(14, max(mean + 14 * sd, 6))
        grid = [low + step * k for k in range(math.ceil((high - low) / step) + 1)]
        # Where every eighth node is 1e-40 of the highest, those between are nothing.
        coarse = [density(t) for t in grid[::8]]
        high_enough = [h > max(coarse) * mp.mpf("1e-40") for h in coarse]
        near = [any(high_enough[max(k - 1, 0) : k + 3]) for k in range(len(coarse))]
        grid = [t for k, t in enumerate(grid) if near[k // 8]]
        heights = [step * density(t) for t in grid]
        moments = [
            mp.fdot((t**k, h) for t, h in zip(grid, heights, strict=True))
            for k in range(3)
        ]
        z, tilted_mean = moments[0], moments[1] / moments[0]
        tilted_variance = moments[2] / z - tilted_mean**2
        log_z = mp.log(z) - mp.log(2 * mp.pi * variance) / 2
    # Terms of the log density are as large as its precision.
    rounding = 1e-15 * nu * math.log1p(nu)
    for rule in RULES.values():
        value, first, second = rule(*map(double, (y, nu, mean, variance)))
        digits = 1e-11 + rounding
        assert float(value) == pytest.approx(float(log_z), rel=1e-11, abs=digits)
        got = mean + variance * float(first)
        slack = (1e-10 + rounding) * float(mp.sqrt(tilted_variance))
        assert abs(got - float(tilted_mean)) < 10 * (slack + 1e-14 * abs(mean))
        got = variance + variance**2 * float(second)
        # 1 + s d2 has the digits that the ratio of variances leaves.
        digits = 5e-11 + 10 * rounding + 1e-13 * variance / float(tilted_variance)
        assert got == pytest.approx(float(tilted_variance), rel=digits)


@pytest.mark.parametrize("variance", [0.0035, 0.004, 0.0044, 0.0046])
def test_a_second_peak_beyond_the_nodes_of_the_first_is_not_missed(variance) -> None:
    """What is near the density's peak meets all identities by itself.

    The part near the cavity is up to 1,780 nats more.
    """
    y, nu, mean = double(0.5), double(1e4), double(8.0)
    step = 5e-4
    t = torch.arange(-2, 12, step, dtype=torch.float64)
    logs = beta_value(y, nu, t) - 0.5 * (t - mean).square() / variance
    weights = logs.softmax(0)
    truth = logs.logsumexp(0) + math.log(step) - 0.5 * math.log(2 * math.pi * variance)
    shift = weights @ (t - mean)
    spread = weights @ (t - mean - shift).square()
    value, first, second = integral_of_factors(y, nu, mean, double(variance))
    # The terms of the log density are of about 1e5, rounded to 1e-11 each.
    assert float(value - truth) == pytest.approx(0, abs=1e-9)
    assert float(variance * first) == pytest.approx(float(shift), rel=1e-9, abs=1e-9)
    assert variance * (1 + variance * float(second)) == pytest.approx(
        float(spread), rel=1e-8
    )


@pytest.mark.parametrize("about", RULES)
def test_derivatives_in_everything(about) -> None:
    """In mean and precision by differences, the first two also by their formulae."""
    integral = RULES[about]
    y = double([0.2, 0.7, 0.999])
    nu = double([0.5, 30.0, 4.0]).requires_grad_()
    mean = double([1.0, -0.3, -4.0]).requires_grad_()
    variance = double([0.3, 2.0, 1.0]).requires_grad_()
    value, first, second = integral(y, nu, mean, variance)
    g_nu, g_mean, g_variance = torch.autograd.grad(value.sum(), (nu, mean, variance))
    torch.testing.assert_close(g_mean, first.detach(), rtol=1e-10, atol=1e-12)
    # The heat equation of a Gaussian convolution.
    heat = 0.5 * (second + first.square()).detach()
    torch.testing.assert_close(g_variance, heat, rtol=1e-9, atol=1e-11)
    h = 1e-5
    with torch.no_grad():
        ahead = integral(y, nu * (1 + h), mean, variance)[0]
        behind = integral(y, nu * (1 - h), mean, variance)[0]
        torch.testing.assert_close(
            g_nu, (ahead - behind) / (2 * h * nu), rtol=1e-7, atol=1e-9
        )
        slopes = [integral(y, nu, mean + d, variance)[1] for d in (h, -h)]
        torch.testing.assert_close(
            second.detach(), (slopes[0] - slopes[1]) / (2 * h), rtol=1e-7, atol=1e-8
        )


@pytest.mark.parametrize("about", RULES)
def test_rows_do_not_see_each_other(about) -> None:
    integral = RULES[about]
    y, nu = double([[0.1, 0.5], [0.9, 0.3]]), double([[2.0], [1e4]])
    mean, variance = double([[0.0, 9.0], [1.0, -2.0]]), double([[1.0, 0.1], [4.0, 0.5]])
    y, nu = torch.broadcast_tensors(y, nu)
    together = torch.stack(integral(y, nu, mean, variance))
    for i, j in itertools.product(range(2), range(2)):
        alone = torch.stack(integral(y[i, j], nu[i, j], mean[i, j], variance[i, j]))
        torch.testing.assert_close(together[:, i, j], alone, rtol=1e-9, atol=1e-9)


@in_turn(
    ("mean", "variance"),
    [(math.nan, 1.0), (0.0, math.nan), (math.inf, 1.0), (0.0, math.inf), (1e200, 1.0)],
)
def test_arguments_without_an_integral_are_refused(mean, variance) -> None:
    arguments = [double([number]) for number in (0.3, 10.0, mean, variance)]
    for rule in RULES.values():
        with pytest.raises(PrecisionError, match=r"not a number.*smaller output scale"):
            rule(*arguments)


def test_bends_that_were_sought_once_serve_other_gaussians() -> None:
    """Lapses with narrow bends; a Gaussian's mean of one is in closed form."""
    centre, slope = double([-3.0, 0.0, 0.7, 2.0]), double([50.0, 400.0, 3e3, 9.0])
    guess = 0.03

    def of_rows(places):
        c, s = (x if places is None else x[places] for x in (centre, slope))

        def log_derivatives(z):
            x, density = s * (z - c), torch.exp(-0.5 * (s * (z - c)).square())
            probability = guess + (1 - 2 * guess) * torch.special.ndtr(x)
            first = (1 - 2 * guess) * s * density / (2 * math.pi) ** 0.5 / probability
            return probability.log(), first, -s * x * first - first.square()

        return log_derivatives

    integrals = BentProducts(of_rows, len(centre))
    for mean, variance in (
        ([-3.1, 9.0, 9.0, 9.0], 1.0),  # what is far bends little
        ([9.0, 0.1, 0.6, 9.0], 0.5),
        ([-2.0, -1.0, 0.7, 3.0], 4.0),
        ([-3.0, 0.0, 0.7, 2.0], 1e-6),
    ):
        m, v = double(mean), torch.full_like(centre, variance)
        attentive = torch.special.ndtr((m - centre) * slope / (1 + slope**2 * v).sqrt())
        torch.testing.assert_close(
            integrals(m, v).value,
            (guess + (1 - 2 * guess) * attentive).log(),
            rtol=0,
            atol=1e-9,
            msg=lambda text, mean=mean: f"of Gaussians about {mean}: {text}",
        )
