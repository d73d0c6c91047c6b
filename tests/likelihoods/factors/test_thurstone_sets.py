"""Choices and rankings as boxed rows: what they hear and with which noise."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from botorch_pref.likelihoods.probit import choice_factors, ranking_factors
from botorch_pref.linalg import SparseDesign

NUM_POINTS = 12
NOISE = torch.tensor([0.3], dtype=torch.float64)


def dense(rows: SparseDesign) -> torch.Tensor:
    return rows.apply_matrix(torch.eye(rows.num_points, dtype=torch.float64))


def differences(orders, is_choice):
    """Makes rows of A and, by brute force, the noise R of all answers together."""
    blocks, noises = [], []
    for order in orders:
        size = len(order)
        d = torch.zeros(size - 1, size, dtype=torch.float64)
        for i in range(size - 1):
            d[i, 0 if is_choice else i] = 1.0
            d[i, i + 1] = -1.0
        a = torch.zeros(size - 1, NUM_POINTS, dtype=torch.float64)
        a[:, torch.tensor(order)] = d
        blocks.append(a)
        noises.append(NOISE * d @ d.mT)
    return torch.cat(blocks), torch.block_diag(*noises)


def padded(orders):
    width = max(map(len, orders))
    return torch.tensor([order + [-1] * (width - len(order)) for order in orders])


answers = st.lists(
    st.lists(
        st.integers(0, NUM_POINTS - 1), min_size=2, max_size=NUM_POINTS, unique=True
    ),
    min_size=1,
    max_size=6,
)


@pytest.mark.parametrize("is_choice", [True, False], ids=["choices", "rankings"])
@given(orders=answers)
def test_rows_and_noise_are_those_of_the_items_heard(is_choice, orders) -> None:
    make = choice_factors if is_choice else ranking_factors
    factors = make(padded(orders), NUM_POINTS, NOISE)
    a, noise = differences(orders, is_choice)
    torch.testing.assert_close(dense(factors.rows), a)
    got = factors.noise.dense() + factors.variance.diag()
    torch.testing.assert_close(got, noise, rtol=1e-9, atol=1e-12)
    assert bool((factors.variance > 0).all())
    eigenvalues = torch.linalg.eigvalsh(factors.noise.covariance)
    assert float(eigenvalues.min()) > -1e-12
    assert factors.lower.tolist() == [0.0] * len(a)
    assert factors.upper.tolist() == [torch.inf] * len(a)
