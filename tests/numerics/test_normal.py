"""Normal tails and intervals against arbitrary-precision arithmetic."""

import math

import mpmath as mp
import pytest
import torch
from cases import in_turn

from botorch_pref.numerics.normal import (
    hazard,
    hazard_excess,
    interval_derivatives,
    log_ndtr_derivatives,
)

INF = math.inf
DTYPES = [torch.float64, torch.float32]
# Enough digits that Phi(800) and 1 differ.
mp.mp.dps = 60

POINTS = [
    -800.0, -100.0, -60.5, -59.5, -43.5, -43.0, -42.5, -20.0, -8.0, -7.9, -7.0, -3.0,
    -1.0, -1e-9, 0.0, 0.3, 2.0, 8.0, 20.0, 38.0, 800.0,
]  # fmt: skip

INTERVALS = [
    (-INF, -800.0), (-INF, 0.0), (-INF, 3.0), (800.0, INF), (-800.0, INF), (8.0, INF),
    (0.0, INF), (-800.0, 800.0), (-40.0, 40.0), (-3.0, 2.0), (-1.0, 1.0), (-2.0, -0.1),
    (-0.1, 2.0), (-1.0, 0.0), (0.0, 1.0), (-0.9, 0.0), (-900.0, -700.0),
    (-800.0, -799.9), (799.9, 800.1), (30.0, 30.5), (30.0, 30.03), (30.0, 31.0),
    (-9.0, -5.0), (-100.0, -99.99),
    # narrower than any sensible tie
    (-1e-3, 1e-3), (-1e-8, 1e-8), (5.0, 5.001), (-20.0, -19.9999),
]  # fmt: skip


def mp_density(x):
    return mp.exp(-x * x / 2) / mp.sqrt(2 * mp.pi)


def mp_distribution(x):
    return mp.erfc(-x / mp.sqrt(2)) / 2


def mp_hazard(x):
    x = mp.mpf(x)
    return mp_density(x) / mp_distribution(x)


def mp_interval(lower, upper):
    """Computes log probability, minus the mean, variance - 1, minus third moment."""
    low, high, sign = mp.mpf(lower), mp.mpf(upper), 1
    if low + high > 0:
        low, high, sign = -high, -low, -1
    at_high = mp_density(high)
    at_low = mp.mpf(0) if low == -mp.inf else mp_density(low)
    mass = mp_distribution(high) - mp_distribution(low)
    low = mp.mpf(0) if low == -mp.inf else low
    first = (at_high - at_low) / mass
    g1 = (low * at_low - high * at_high) / mass
    g2 = ((high**2 - 1) * at_high - (low**2 - 1) * at_low) / mass
    third = g2 - 3 * first * g1 + 2 * first**3
    return mp.log(mass), sign * first, g1 - first**2, sign * third


def as_tensors(interval, dtype):
    return tuple(torch.tensor(end, dtype=dtype) for end in interval)


@in_turn("dtype", DTYPES)
@in_turn("x", POINTS)
def test_hazard_has_all_digits_in_every_tail(x, dtype) -> None:
    tensor = torch.tensor(x, dtype=dtype)
    expected = mp_hazard(float(tensor))
    # exp(-x^2 / 2) carries eps x^2 / 2 of relative error on the right.
    eps = torch.finfo(dtype).eps * (8 + max(x, 0.0) ** 2)
    tiny = torch.finfo(dtype).tiny
    assert abs(mp.mpf(float(hazard(tensor))) - expected) <= eps * expected + tiny


@in_turn("dtype", DTYPES)
@in_turn("x", POINTS)
def test_hazard_excess_keeps_the_documented_digits(x, dtype) -> None:
    tensor = torch.tensor(x, dtype=dtype)
    expected = mp.mpf(float(tensor)) + mp_hazard(float(tensor))
    got = mp.mpf(float(hazard_excess(tensor)))
    # The crossing of rounding, 2 eps t^2, and the series, 8162 / t^10.
    eps = torch.finfo(dtype).eps
    cut = (8162 / eps) ** (1 / 12)
    assert abs(got / expected - 1) <= 4 * eps * (2 + min(abs(x), cut) ** 2)
    assert got > 0


@in_turn("x", POINTS)
def test_derivatives_of_log_ndtr(x) -> None:
    tensor = torch.tensor(x, dtype=torch.float64)
    exact = mp.mpf(x)
    h = mp_hazard(exact)
    e = exact + h
    expected = h, -h * e, h * (e**2 + h * e - 1)
    tolerance = 2e-12 * (1 + max(h, 0)), 2e-12, 2e-12 * (1 + abs(exact))
    for got, want, tol in zip(
        log_ndtr_derivatives(tensor)[1:], expected, tolerance, strict=True
    ):
        assert abs(mp.mpf(float(got)) - want) <= tol


def test_the_written_derivatives_are_derivatives() -> None:
    """The closed forms that the truth above shares with the code, differentiated."""
    for x in (-3.0, 0.4, 2.0):
        for order, value in enumerate(
            log_ndtr_derivatives(torch.tensor(x, dtype=torch.float64))
        ):
            expected = mp.diff(lambda t: mp.log(mp_distribution(t)), x, order)
            assert float(value) == pytest.approx(float(expected), abs=1e-12)
    for lower, upper in ((-1.0, 0.5), (1.0, 3.0), (0.2, 0.4), (-4.0, -1.0)):
        derivatives = interval_derivatives(*as_tensors((lower, upper), torch.float64))
        for order, value in enumerate(derivatives[1:], start=1):
            expected = mp.diff(
                lambda t: mp.log(
                    mp_distribution(upper + t) - mp_distribution(lower + t)  # noqa: B023
                ),
                0,
                order,
            )
            assert float(value) == pytest.approx(float(expected), abs=1e-12)


@in_turn("dtype", DTYPES)
@in_turn("interval", INTERVALS)
def test_intervals_against_arbitrary_precision(interval, dtype) -> None:
    lower, upper = as_tensors(interval, dtype)
    expected = mp_interval(float(lower), float(upper))
    got = interval_derivatives(lower, upper)
    eps = torch.finfo(dtype).eps
    near = min(abs(end) for end in interval)
    # Where hazard excesses enter: their error relative to 1, see hazard_excess.
    excess = 4 * eps * (2 + min(near, (8162 / eps) ** (1 / 12)) ** 2)
    tolerances = (
        8 * eps * (1 + abs(expected[0])),
        8 * eps * (1 + near),
        excess,
        # The third moment is built from terms that are |end| times larger.
        2 * (1 + near) * min(excess, 16 * eps)
        if near > 50
        else 2 * (1 + near) * excess,
    )
    for value, want, tolerance in zip(got, expected, tolerances, strict=True):
        assert abs(mp.mpf(float(value)) - want) <= tolerance
    # The documented range of the second derivative, up to its rounding.
    assert -1 - excess <= float(got[2]) <= 0


@in_turn("dtype", DTYPES)
def test_intervals_do_not_step_where_the_form_changes(dtype) -> None:
    """Around -alpha (beta - alpha) = 1 and beta = 0, from both sides."""
    eps = torch.finfo(dtype).eps
    for near in (-0.0, -1.0, -6.0, -30.0):
        width = 0.5 * (near + math.sqrt(near**2 + 4))  # (w - near) w = 1
        lower = near - width * torch.tensor([1 - 1e-5, 1 + 1e-5], dtype=dtype)
        values = interval_derivatives(lower, torch.full_like(lower, near))
        excess = 4 * eps * (2 + min(-near, (8162 / eps) ** (1 / 12)) ** 2)
        sizes = 1 + near**2, 1 - near, 1, 1 - near
        for value, size in zip(values, sizes, strict=True):
            # Moments are smooth in the width, with slopes of order one over it.
            change = 2e-5 * size / width
            assert float(value.diff().abs()) <= change + 4 * size * excess
    for lower in (-2.0, -5.0):
        upper = torch.tensor([-1e-6, 1e-6], dtype=dtype)
        for value in interval_derivatives(torch.full_like(upper, lower), upper):
            assert float(value.diff().abs()) <= 4e-6 + 64 * eps


@in_turn("dtype", DTYPES)
def test_an_interval_without_ends_is_certain(dtype) -> None:
    """Beside others, whose derivatives it leaves alone."""
    lower = torch.tensor([-math.inf, -math.inf, 0.5, -1.0], dtype=dtype)
    upper = torch.tensor([math.inf, 0.3, math.inf, 2.0], dtype=dtype)
    together = interval_derivatives(lower, upper)
    for value in together:
        assert value[0] == 0.0
    for alone, derivatives in zip(
        interval_derivatives(lower[1:], upper[1:]), together, strict=True
    ):
        torch.testing.assert_close(derivatives[1:], alone, rtol=0.0, atol=0.0)
    moved = torch.zeros(4, dtype=dtype, requires_grad=True)
    value = interval_derivatives(lower + moved, upper + moved)[0]
    (slope,) = torch.autograd.grad(value.sum(), moved)
    assert slope[0] == 0.0
    assert bool(slope.isfinite().all())


@in_turn("centre", [0.0, 3.0, -30.0])
@in_turn("width", [1e-5, 1e-30, 1e-300])
def test_a_width_that_the_ends_have_no_digits_for(centre, width) -> None:
    centre, width = as_tensors((centre, width), torch.float64)
    centre.requires_grad_()
    width.requires_grad_()
    ends = centre - 0.5 * width, centre + 0.5 * width
    value, first, second, _ = interval_derivatives(*ends, width)
    # The density at the centre times the width, to first order in the width.
    density = -0.5 * centre**2 - 0.5 * math.log(2 * math.pi)
    close = {"rtol": 1e-13, "atol": 1e-8}
    torch.testing.assert_close(value, density + width.log(), **close)
    torch.testing.assert_close(first, -centre, **close)
    torch.testing.assert_close(second, torch.tensor(-1.0).double(), **close)
    by_width, by_centre = torch.autograd.grad(value, (width, centre))
    torch.testing.assert_close(by_width * width, torch.tensor(1.0).double())
    torch.testing.assert_close(by_centre, -centre, rtol=1e-8, atol=1e-4)


@in_turn("end", [1e6, -1e6, 1e12])
def test_a_width_that_the_ends_have_no_digits_for_in_the_tail(end) -> None:
    """There the density falls exponentially, by three powers of e here."""
    width = torch.tensor(3 / abs(end), dtype=torch.float64, requires_grad=True)
    near = torch.tensor(end, dtype=torch.float64)
    ends = (near, near + width) if end > 0 else (near - width, near)
    value, *derivatives = interval_derivatives(*(x.detach() for x in ends), width)
    assert value.item() == pytest.approx(-0.5 * end**2, rel=1e-9)
    assert all(bool(x.isfinite()) for x in derivatives)
    (by_width,) = torch.autograd.grad(value, width)
    assert by_width.item() == pytest.approx(abs(end) / math.expm1(3), rel=1e-10)


@in_turn(
    "interval",
    [(-1.0, 2.0), (0.5, 0.8), (-0.3, 0.3), (2.0, 6.0), (-9.0, -5.0), (20.0, 22.0)],
)
def test_gradients_of_bounded_intervals(interval) -> None:
    ends = tuple(end.requires_grad_() for end in as_tensors(interval, torch.float64))
    # In the tail the third derivative has too few digits for differences of 1e-6.
    count = 3 if interval[0] > 10 else 4
    assert torch.autograd.gradcheck(
        lambda *x: interval_derivatives(*x)[:count], ends, rtol=1e-5, atol=1e-6
    )
    assert torch.autograd.gradgradcheck(
        lambda a, b: interval_derivatives(a, b)[0], ends, rtol=1e-4, atol=1e-6
    )


@in_turn("dtype", DTYPES)
@in_turn("interval", INTERVALS)
def test_gradients_in_finite_ends_at_extremes(interval, dtype) -> None:
    lower, upper = as_tensors(interval, dtype)
    exact_lower, exact_upper = (mp.mpf(float(end)) for end in (lower, upper))
    lower.requires_grad_()
    upper.requires_grad_()
    interval_derivatives(lower, upper)[0].backward()
    # d/du log(Phi(u) - Phi(l)) = phi(u) / Z, through exp(log) so that it stays finite.
    log_mass = mp_interval(exact_lower, exact_upper)[0]
    for end, exact, sign in ((lower, exact_lower, -1), (upper, exact_upper, 1)):
        if mp.isinf(exact):
            assert float(end.grad) == 0.0
            continue
        expected = sign * mp.exp(mp.log(mp_density(exact)) - log_mass)
        relative = 64 * torch.finfo(dtype).eps * (1 + min(float(abs(exact)), 43.0) ** 2)
        tolerance = relative * (1 + abs(expected))
        assert abs(mp.mpf(float(end.grad)) - expected) <= tolerance


def test_one_sided_and_bounded_rows_mix_and_broadcast() -> None:
    lower = torch.tensor([[-INF], [0.5], [-1.0]], dtype=torch.float64)
    upper = torch.tensor([1.0, 3.0], dtype=torch.float64)
    together = interval_derivatives(lower, upper)
    for i in range(3):
        for j in range(2):
            alone = interval_derivatives(lower[i, 0], upper[j])
            for part, joint in zip(alone, together, strict=True):
                assert torch.equal(joint[i, j], part)


def test_second_derivative_of_the_hazard() -> None:
    x = torch.tensor([-50.0, -5.0, 0.0, 3.0], dtype=torch.float64, requires_grad=True)
    (first,) = torch.autograd.grad(hazard(x).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    torch.testing.assert_close(
        first, log_ndtr_derivatives(x)[2], rtol=1e-13, atol=1e-15
    )
    torch.testing.assert_close(second, log_ndtr_derivatives(x)[3], rtol=1e-6, atol=1e-9)
