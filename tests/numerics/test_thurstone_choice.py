"""Best of a set: against multivariate normal orthants, closed forms and symmetry."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

from botorch_pref.numerics.thurstone import thurstone_choice_log_probability


def log_probability(utilities, noise=1.0):
    return thurstone_choice_log_probability(
        torch.tensor(utilities, dtype=torch.float64),
        torch.tensor(noise, dtype=torch.float64),
    )


def test_two_items_are_a_duel() -> None:
    gap = torch.linspace(-40, 40, 41, dtype=torch.float64)
    noise = torch.tensor(0.3, dtype=torch.float64)
    duel = torch.stack([gap, torch.zeros_like(gap)], dim=-1)
    got = thurstone_choice_log_probability(duel, noise)
    want = torch.special.log_ndtr(gap / (2 * noise).sqrt())
    torch.testing.assert_close(got[:, 0], want, rtol=1e-9, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("utilities", [[0.3, -1.0, 0.5], [2.0, 0.0, -0.4, 1.7]])
def test_orthant_probabilities_of_differences(utilities) -> None:
    got = log_probability(utilities, 0.7).exp()
    k = len(utilities)
    for i in range(k):
        mean = [utilities[i] - u for j, u in enumerate(utilities) if j != i]
        covariance = [
            [0.7 * (1 + (a == b)) for a in range(k - 1)] for b in range(k - 1)
        ]
        want = multivariate_normal(cov=covariance, abseps=1e-9, releps=1e-9).cdf(mean)
        assert float(got[i]) == pytest.approx(want, abs=3e-6)


@given(
    st.lists(st.floats(-5, 5), min_size=2, max_size=40),
    st.floats(1e-3, 100.0),
    st.floats(-1e3, 1e3),
)
def test_probabilities_sum_to_one_and_only_differences_count(values, noise, shift):
    got = log_probability(values, noise)
    assert float(got.exp().sum()) == pytest.approx(1.0, abs=1e-9)
    moved = log_probability([v + shift for v in values], noise)
    # Shifted utilities are rounded in units of the noise.
    rounding = 1e-12 * (1 + abs(shift)) / math.sqrt(noise)
    peak = float(got.max() - got.min())
    torch.testing.assert_close(moved, got, rtol=1e-6, atol=1e-9 + rounding * (1 + peak))


def test_fifty_equal_items_have_equal_chances() -> None:
    got = log_probability([0.0] * 50)
    torch.testing.assert_close(
        got, torch.full_like(got, -math.log(50)), rtol=1e-11, atol=1e-11
    )


def test_an_item_far_behind_keeps_its_digits() -> None:
    """Behind one rival by 60 deviations: the other item does not matter."""
    got = log_probability([-60.0, 0.0, -200.0])
    want = torch.special.log_ndtr(torch.tensor(-60.0 / math.sqrt(2)).double())
    assert float(got[0]) == pytest.approx(float(want), rel=1e-9)


def test_gradients_are_those_of_finite_differences() -> None:
    utilities = torch.tensor([[0.3, -1.0, 0.5], [4.0, 0.1, 0.2]], dtype=torch.float64)
    noise = torch.tensor([[0.5], [2.0]], dtype=torch.float64)
    assert torch.autograd.gradcheck(
        thurstone_choice_log_probability,
        (utilities.requires_grad_(), noise.requires_grad_()),
    )
