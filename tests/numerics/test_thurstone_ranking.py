"""Best of a set and orders heard with noise: closed forms, simulation, symmetry."""

import itertools
import math

import pytest
import torch
from scipy.stats import multivariate_normal

from botorch_pref.numerics.thurstone import thurstone_ranking_log_probability

NOISE = torch.tensor(0.7, dtype=torch.float64)


def utilities(*values):
    return torch.tensor(values, dtype=torch.float64)


def test_two_items_are_a_duel() -> None:
    gap = torch.linspace(-40, 40, 41, dtype=torch.float64)
    duels = torch.stack([gap, torch.zeros_like(gap)], dim=-1)
    got = thurstone_ranking_log_probability(duels, NOISE)
    want = torch.special.log_ndtr(gap / (2 * NOISE).sqrt())
    torch.testing.assert_close(got, want, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("values", [(0.3, -1.0, 0.5), (2.0, 0.0, -0.4, 1.7), (0, 3, 6)])
def test_orders_are_orthants_of_neighbours(values) -> None:
    f = utilities(*values)
    k = len(values)
    steps = torch.eye(k - 1, k) - torch.eye(k - 1, k).roll(1, -1)
    covariance = float(NOISE) * (steps @ steps.T)
    want = multivariate_normal(
        cov=covariance.numpy(), abseps=1e-12, releps=1e-9, maxpts=10**6
    ).cdf((f[:-1] - f[1:]).numpy())
    got = thurstone_ranking_log_probability(f, NOISE)
    # The grid's error is of sixth order in its spacing; scipy's is 1e-9 or so.
    assert float(got) == pytest.approx(math.log(want), abs=2e-5)


def test_all_orders_sum_to_one() -> None:
    f = utilities(0.3, -1.2, 2.0, 0.1, 0.9)
    orders = torch.tensor(list(itertools.permutations(range(5))))
    total = thurstone_ranking_log_probability(f[orders], NOISE).exp().sum()
    assert float(total) == pytest.approx(1.0, abs=1e-7)


def test_equal_items_have_all_orders_alike() -> None:
    got = thurstone_ranking_log_probability(
        torch.zeros(3, 10, dtype=torch.float64), NOISE
    )
    torch.testing.assert_close(
        got, torch.full_like(got, -math.lgamma(11)), rtol=0, atol=1e-5
    )


def test_backwards_with_all_signs_turned_is_the_same_order() -> None:
    f = utilities(4.0, 1.5, 1.4, -2.0, 3.0, -5.0)
    got, turned = (
        thurstone_ranking_log_probability(g, NOISE) for g in (f, -f.flip(-1))
    )
    assert float(got) == pytest.approx(float(turned), abs=2e-5)


def test_simulated_listeners_hear_the_order_as_often() -> None:
    f = utilities(1.0, 0.6, -0.2, 0.3)
    generator = torch.Generator().manual_seed(0)
    num = 400_000
    noise = torch.randn(num, 4, generator=generator, dtype=torch.float64)
    heard = f + NOISE.sqrt() * noise
    ordered = (heard.diff(dim=-1) < 0).all(-1).double().mean()
    got = thurstone_ranking_log_probability(f, NOISE).exp()
    assert float(got) == pytest.approx(float(ordered), abs=4 * 0.5 / num**0.5)


def test_improbable_orders_do_not_underflow() -> None:
    worst_first = torch.arange(20, dtype=torch.float64)
    got = thurstone_ranking_log_probability(worst_first, NOISE)
    # Heard in one point each item moves by its distance from the mean: a bound from
    # Laplace's method, near enough to see an underflow or a lost factor.
    cost = -0.5 * float((worst_first - worst_first.mean()).square().sum() / NOISE)
    assert cost - 100 < float(got) < cost


def test_derivatives_by_finite_differences() -> None:
    f = utilities(0.4, -0.3, 0.9, 0.0).requires_grad_()
    noise = NOISE.clone().requires_grad_()
    assert torch.autograd.gradcheck(
        thurstone_ranking_log_probability, (f, noise), eps=1e-5, atol=1e-4
    )
