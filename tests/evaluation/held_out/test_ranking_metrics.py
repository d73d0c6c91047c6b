"""The ranking paper's measures, against counting by hand."""

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from botorch_pref import Choices, Rankings
from botorch_pref.evaluation.scores import (
    comparison_auc,
    item_values,
    ordered_pairs,
    positive_ratio,
    top_k_value,
)

probabilities = st.lists(
    # Sixteenths, so that ties are ties.
    st.integers(0, 16).map(lambda i: i / 16),
    min_size=1,
    max_size=12,
)


@given(probabilities)
def test_auc_is_the_chance_that_a_win_scores_above_a_loss(values) -> None:
    pairs = list(itertools.product(values, [1 - v for v in values]))
    above = sum((a > b) + 0.5 * (a == b) for a, b in pairs)
    got = comparison_auc(torch.tensor(values, dtype=torch.float64))
    assert got == pytest.approx(above / len(pairs), abs=1e-12)


def test_a_ranking_gives_all_its_pairs_and_a_choice_those_of_the_winner() -> None:
    orders = torch.tensor([[2, 0, 1], [1, 3, -1]])
    got = ordered_pairs(Rankings(orders).stages()).tolist()
    assert sorted(got) == [[0, 1], [1, 3], [2, 0], [2, 1]]
    choices = Choices(torch.tensor([[2, 0, 1], [1, 3, -1]]), torch.tensor([0, 3]))
    got = ordered_pairs(choices.stages()).tolist()
    assert sorted(got) == [[0, 1], [0, 2], [3, 1]]


def test_values_are_shares_of_wins() -> None:
    pairs = torch.tensor([[0, 1], [0, 2], [1, 2], [2, 0]])
    truth = item_values(pairs, torch.ones(4), 4)
    assert truth[:3].tolist() == pytest.approx([2 / 3, 1 / 2, 1 / 3])
    assert truth[3].isnan()
    estimate = item_values(pairs, torch.tensor([0.9, 0.6, 0.3, 0.2]), 4)
    # Item 0 wins its first two with 0.9 and 0.6, and the last with 1 - 0.2.
    assert estimate[:3].tolist() == pytest.approx(
        [(0.9 + 0.6 + 0.8) / 3, (0.1 + 0.3) / 2, (0.4 + 0.7 + 0.2) / 3]
    )


def test_top_k_compares_true_values() -> None:
    truth = torch.tensor([0.9, 0.1, 0.5, math.nan])
    assert top_k_value(truth, torch.tensor([3.0, 2.0, 1.0, 9.0]), 2) == pytest.approx(
        (0.9 + 0.1) / (0.9 + 0.5)
    )
    assert top_k_value(truth, torch.tensor([3.0, 2.0, 1.0, 9.0]), 10) == 1.0


def test_ratio_counts_both_sides_of_each_comparison() -> None:
    mean = torch.tensor([0.5, 0.6, -0.4, 5.0])
    deviation = torch.tensor([0.1, 0.1, 0.1, 0.1])
    got = positive_ratio(
        mean, deviation, torch.tensor([-1.0, 0.0, 1.0]), torch.tensor([0.0, 0.2, 0.4])
    )
    assert got.count.tolist() == [[3, 0], [3, 0]]
    assert got.ratio[:, 0].tolist() == pytest.approx([1 / 3, 2 / 3])
    assert bool(got.ratio[:, 1].isnan().all())
