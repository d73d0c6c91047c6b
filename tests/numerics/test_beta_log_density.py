"""The Beta log density with a probit mean against forty digits."""

import itertools
from functools import partial

import mpmath as mp
import torch
from cases import in_turn
from hypothesis import given, settings
from hypothesis import strategies as st

from botorch_pref.likelihoods.beta import (
    beta_log_density,
    beta_slope,
    beta_value,
)
from botorch_pref.numerics.bend_quadrature import density_bend

mp.mp.dps = 60

PRECISIONS = [0.1, 10.0, 1e4]
ANSWERS = [1e-12, 1e-3, 0.5, 1 - 1e-9]
LATENTS = [-800.0, -30.0, -3.0, -1.0, 0.0, 0.4, 2.0, 5.0, 30.0]


def double(value):
    return torch.tensor(value, dtype=torch.float64)


def truth(y, precision, t):
    y, precision, t = mp.mpf(y), mp.mpf(precision), mp.mpf(t)
    a = precision * mp.erfc(-t / mp.sqrt(2)) / 2
    b = precision * mp.erfc(t / mp.sqrt(2)) / 2
    return (
        mp.loggamma(precision)
        - mp.loggamma(a)
        - mp.loggamma(b)
        + (a - 1) * mp.log(y)
        + (b - 1) * mp.log(1 - y)
    )


@in_turn("precision", PRECISIONS)
@in_turn("y", ANSWERS)
def test_value_and_derivatives(y, precision) -> None:
    got = beta_log_density(double(y), double(precision), double(LATENTS))
    for i, t in enumerate(LATENTS):
        exact = mp.diffs(lambda s: truth(y, precision, s), mp.mpf(t), 3)
        for order, want in enumerate(exact):
            # lgamma of 1e4 is 8e4, seen with a relative rounding of 1e-16; the excess
            # of the hazard keeps 5e-13 of the third derivative in the tails.
            tolerance = 4e-12 * (1 + abs(want))
            assert abs(mp.mpf(float(got[order][i])) - want) <= tolerance, (
                f"derivative {order} at the latent {t} is {float(got[order][i])}, "
                f"the truth {mp.nstr(want, 15)}"
            )


@in_turn("precision", PRECISIONS)
@in_turn("y", ANSWERS)
def test_derivatives_in_precision_and_latent_are_those_of_autograd(
    y, precision
) -> None:
    """Value and second derivative in ``nu`` by mpmath; in ``t`` they are known."""
    t = double([-5.0, -0.7, 0.0, 1.5, 6.0]).requires_grad_()
    nu = double([precision] * 5).requires_grad_()
    value, first, second, third = beta_log_density(double(y), nu, t)
    in_nu, in_t = torch.autograd.grad(value.sum(), (nu, t), retain_graph=True)
    torch.testing.assert_close(in_t, first, rtol=1e-11, atol=1e-9)
    bend_nu, bend_t = torch.autograd.grad(second.sum(), (nu, t))
    torch.testing.assert_close(bend_t, third, rtol=1e-10, atol=1e-9)
    for i in range(5):
        place = float(t[i].detach())
        want = mp.diff(lambda p, s=place: truth(y, p, s), mp.mpf(precision))
        assert abs(float(in_nu[i]) - want) <= 1e-11 * (1 + abs(want) + 1 / precision)
        want = mp.diff(
            lambda s, p: truth(y, p, s), (mp.mpf(place), mp.mpf(precision)), (2, 1)
        )
        assert abs(float(bend_nu[i]) - want) <= 1e-10 * (1 + abs(want))


@given(
    y=st.floats(1e-6, 1 - 1e-6), log_precision=st.floats(-2, 4), t=st.floats(-50, 50)
)
@settings(max_examples=100, deadline=None)
def test_a_mirrored_answer_is_a_mirrored_latent(y, log_precision, t) -> None:
    nu = double(10.0**log_precision)
    density = beta_log_density(double(y), nu, double(t))
    mirrored = beta_log_density(1 - double(y), nu, double(-t))
    # The mirror itself rounds y.
    slack = 1e-9 * (1 + 10.0**log_precision)
    for order, (a, b) in enumerate(zip(density, mirrored, strict=True)):
        torch.testing.assert_close(a, (-1) ** order * b, rtol=1e-9, atol=slack)


def test_parts_agree_with_the_whole() -> None:
    y, nu, t = (
        double(list(v))
        for v in zip(
            *itertools.product([0.01, 0.7], [0.5, 50.0], [-3.0, 0.2, 40.0]), strict=True
        )
    )
    value, first, *_ = beta_log_density(y, nu, t)
    torch.testing.assert_close(beta_value(y, nu, t), value, rtol=0, atol=0)
    torch.testing.assert_close(beta_slope(y, nu, t), first, rtol=1e-13, atol=1e-13)


def test_it_has_one_peak_but_is_not_concave() -> None:
    t = torch.linspace(-12, 12, 4801, dtype=torch.float64)
    bends = []
    for y, precision in itertools.product([1e-6, 0.3, 0.5], [0.1, 1.0, 30.0, 1e4]):
        value, first, second, _ = beta_log_density(double(y), double(precision), t)
        rising = first > 0
        # One change of sign, where the bend is said to be.
        assert int(rising.diff().sum()) == 1
        density = partial(beta_value, double(y), double(precision))
        peak = float(density_bend(density, torch.zeros_like(t[0]))[0])
        assert abs(peak - float(t[value.argmax()])) <= 0.01
        bends.append(bool((second > 0).any()))
    assert any(bends)


def test_single_precision_is_finite_and_close() -> None:
    y, nu = torch.tensor([1e-5, 0.4, 0.999]), torch.tensor([0.1, 20.0, 1e4])
    t = torch.tensor([-30.0, 0.3, 30.0])
    single = beta_log_density(y, nu, t)
    exact = beta_log_density(y.double(), nu.double(), t.double())
    for got, want in zip(single, exact, strict=True):
        # Digits of (nu - 1) log(1 - y) and of the hazard's excess, squared.
        torch.testing.assert_close(got.double(), want, rtol=1e-3, atol=1e-3)
