"""Sets heard with noise: orthants, closed forms, simulation and symmetry."""

import math

import numpy as np
import pytest
import torch
from cases import in_turn
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import log_ndtr
from scipy.stats import multivariate_normal

from botorch_pref.likelihoods import probit
from botorch_pref.likelihoods.probit import (
    thurstone_choice_log_probability,
    thurstone_ranking_log_probability,
)

NOISE = torch.tensor(0.7, dtype=torch.float64)


def utilities(*values):
    return torch.tensor(values, dtype=torch.float64)


def test_two_items_are_a_duel() -> None:
    gap = torch.linspace(-40, 40, 41, dtype=torch.float64)
    duels = torch.stack([gap, torch.zeros_like(gap)], dim=-1)
    want = torch.special.log_ndtr(gap / (2 * NOISE).sqrt())
    choice = thurstone_choice_log_probability(duels, NOISE)[:, 0]
    torch.testing.assert_close(choice, want, rtol=1e-9, atol=1e-9)
    ranking = thurstone_ranking_log_probability(duels, NOISE)
    torch.testing.assert_close(ranking, want, rtol=1e-10, atol=1e-12)


def orthant(differences: torch.Tensor, f: torch.Tensor) -> float:
    """Computes probability that all differences of what is heard are positive."""
    covariance = float(NOISE) * (differences @ differences.T)
    law = multivariate_normal(
        cov=covariance.numpy(), abseps=1e-10, releps=1e-9, maxpts=10**6
    )
    return law.cdf((differences @ f).numpy())


@in_turn("values", [(0.3, -1.0, 0.5), (2.0, 0.0, -0.4, 1.7), (0, 3, 6)])
def test_sets_and_orders_are_orthants(values) -> None:
    f = utilities(*values)
    k, eye = len(values), torch.eye(len(values), dtype=torch.float64)
    choices = thurstone_choice_log_probability(f, NOISE).exp()
    for i in range(k if k == 3 else 1):
        rivals = [j for j in range(k) if j != i]
        want = orthant(eye[i] - eye[rivals], f)
        assert float(choices[i]) == pytest.approx(want, abs=1e-8)
    got = thurstone_ranking_log_probability(f, NOISE)
    # The grid's error is of sixth order in its spacing; scipy's is 1e-9 or so.
    want = math.log(orthant(eye[:-1] - eye[1:], f))
    assert float(got) == pytest.approx(want, abs=2e-5)


@given(
    st.lists(st.floats(-5, 5), min_size=2, max_size=40),
    st.floats(1e-3, 100.0),
    st.floats(-1e3, 1e3),
)
def test_probabilities_sum_to_one_and_only_differences_count(values, noise, shift):
    noise = torch.tensor(noise, dtype=torch.float64)
    got = thurstone_choice_log_probability(utilities(*values), noise)
    assert float(got.exp().sum()) == pytest.approx(1.0, abs=1e-9)
    shifted = utilities(*(v + shift for v in values))
    moved = thurstone_choice_log_probability(shifted, noise)
    # Shifted utilities are rounded in units of the noise.
    rounding = 1e-12 * (1 + abs(shift)) / math.sqrt(float(noise))
    peak = float(got.max() - got.min())
    torch.testing.assert_close(moved, got, rtol=1e-6, atol=1e-9 + rounding * (1 + peak))


def test_an_item_far_behind_keeps_its_digits() -> None:
    """Behind one rival by 60 deviations: the other item does not matter."""
    far = utilities(-60.0, 0.0, -200.0)
    got = thurstone_choice_log_probability(far, torch.ones_like(NOISE))
    want = torch.special.log_ndtr(torch.tensor(-60.0 / math.sqrt(2)).double())
    assert float(got[0]) == pytest.approx(float(want), rel=1e-9)


def test_equal_items_have_equal_chances_and_all_orders_alike() -> None:
    got = thurstone_choice_log_probability(utilities(*[0.0] * 50), NOISE)
    want = torch.full_like(got, -math.log(50))
    torch.testing.assert_close(got, want, rtol=1e-11, atol=1e-11)
    got = thurstone_ranking_log_probability(utilities(*[0.0] * 10), NOISE)
    assert float(got) == pytest.approx(-math.lgamma(11), abs=1e-5)


def test_improbable_orders_do_not_underflow() -> None:
    worst_first = torch.arange(20, dtype=torch.float64)
    got = thurstone_ranking_log_probability(worst_first, NOISE)
    # Heard in one point each item moves by its distance from the mean: a bound from
    # Laplace's method, near enough to see an underflow or a lost factor.
    cost = -0.5 * float((worst_first - worst_first.mean()).square().sum() / NOISE)
    assert cost - 100 < float(got) < cost


@pytest.mark.parametrize("items", [[0, 45, 90], [0, 60, 10, 90], [0, 200, 0]])
def test_orders_far_beyond_the_smallest_number(items: list[float]) -> None:
    """By the trapezoidal rule on a fine grid, in log space; 0.001 is the noise."""
    f = (torch.tensor(items).double() * 0.001**0.5).requires_grad_()
    got = thurstone_ranking_log_probability(f, torch.tensor(0.001, dtype=torch.double))
    (slope,) = torch.autograd.grad(got, f)
    t = np.linspace(min(items) - 10, max(items) + 10, 200_001)
    below = log_ndtr(t - items[-1])
    for item in reversed(items[:-1]):
        logs = below - 0.5 * (t - item) ** 2 - 0.5 * math.log(2 * math.pi)
        steps = np.logaddexp(logs[1:], logs[:-1]) + math.log(0.5 * (t[1] - t[0]))
        below = np.append(logs[:1], np.logaddexp.accumulate(steps))
    assert float(got.detach()) == pytest.approx(below[-1], abs=1e-2)
    # All utilities together may move.
    assert abs(float(slope.sum())) < 1e-6 * float(slope.abs().max())


@in_turn("distance", [60.0, 4e5])
def test_groups_far_apart_are_chosen_from_and_ordered_on_their_own(distance) -> None:
    unit, near = torch.ones_like(NOISE), utilities(0.3, -0.9)
    upper, lower = utilities(0.8, 0.0, -0.4), utilities(0.5, -0.2)
    f = torch.cat([upper + distance, lower])
    choices = thurstone_choice_log_probability(f, unit)
    want = thurstone_choice_log_probability(upper, unit)
    torch.testing.assert_close(choices[:3], want, rtol=0, atol=1e-9)
    orders = [thurstone_ranking_log_probability(g, unit) for g in (f, upper, lower)]
    assert float(orders[0]) == pytest.approx(float(orders[1] + orders[2]), abs=1e-9)
    # Two that were heard in the wrong order, far above two others.
    wrong = torch.cat([utilities(distance, 2 * distance) + 2 * distance, near])
    got = thurstone_ranking_log_probability(wrong, unit)
    gap = torch.stack([torch.tensor(-distance).double(), near[0] - near[1]])
    want = torch.special.log_ndtr(gap / math.sqrt(2)).sum()
    torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-2)


@pytest.mark.parametrize("spread", [20.0, 300.0])
def test_what_is_skipped_between_items_is_nothing(
    spread: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = torch.Generator().manual_seed(0)
    f = spread * torch.rand(50, 5, generator=generator).double()
    f = torch.cat([f, f.sort(-1).values, f.sort(-1, descending=True).values])
    f = f.requires_grad_()
    for law in (thurstone_choice_log_probability, thurstone_ranking_log_probability):
        probabilities = law(f, NOISE)
        (slope,) = torch.autograd.grad(probabilities.sum(), f)
        with monkeypatch.context() as patched:
            patched.setattr(probit, "_REACH", 1e9)
            want = law(f, NOISE)
        torch.testing.assert_close(probabilities, want, rtol=1e-12, atol=1e-10)
        (expected,) = torch.autograd.grad(want.sum(), f)
        torch.testing.assert_close(slope, expected, rtol=1e-9, atol=1e-9)


def test_nodes_do_not_grow_with_distances(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes, plain = [], probit.log_ndtr
    monkeypatch.setattr(
        probit, "log_ndtr", lambda x: (sizes.append(x.shape[-1]), plain(x))[1]
    )
    unit = torch.ones_like(NOISE)
    for items in ((0.0, 5e4, 1e4), (5e4, 1e4, 0.0), (1e4, 0.0, 5e4)):
        thurstone_choice_log_probability(utilities(*items), unit)
        thurstone_ranking_log_probability(utilities(*items), unit)
    # Three times 36 deviations in steps of a tenth.
    assert max(sizes) < 1200


def test_single_precision_is_integrated_in_double() -> None:
    generator = torch.Generator().manual_seed(0)
    f, unit = 1e4 * torch.rand(200, 5, generator=generator), torch.ones(())
    for law in (thurstone_choice_log_probability, thurstone_ranking_log_probability):
        single, double = law(f, unit), law(f.double(), unit)
        assert single.dtype == torch.float32
        torch.testing.assert_close(single, double.float(), rtol=1e-6, atol=0)
    total = thurstone_choice_log_probability(f, unit).exp().sum(-1)
    torch.testing.assert_close(total, torch.ones(200), rtol=0, atol=1e-6)


def test_derivatives_by_finite_differences() -> None:
    f = utilities(0.4, -0.3, 0.9, 0.0).requires_grad_()
    noise = NOISE.clone().requires_grad_()
    assert torch.autograd.gradcheck(thurstone_choice_log_probability, (f, noise))
    assert torch.autograd.gradcheck(
        thurstone_ranking_log_probability, (f, noise), eps=1e-5, atol=1e-4
    )
