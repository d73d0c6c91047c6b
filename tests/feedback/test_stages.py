"""Choices and rankings as stages, against lists of Python."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from botorch_pref.feedback import Choices, Rankings

NUM_POINTS = 7


@st.composite
def item_lists(draw, num_rows):
    """Lists of different items, of unequal lengths from 2 to 5."""
    row = st.permutations(range(NUM_POINTS)).flatmap(
        lambda p: st.integers(2, 5).map(lambda size: list(p[:size]))
    )
    return draw(st.lists(row, min_size=num_rows, max_size=num_rows))


def padded(rows, width):
    return torch.tensor([row + [-1] * (width - len(row)) for row in rows])


def unpadded(rows):
    return [[i for i in row if i >= 0] for row in rows.tolist()]


def stages_of(order):
    """Splits an order by equation 4 of Guo et al. (2020): the first is chosen."""
    return [order[i:] for i in range(len(order) - 1)]


@given(data=st.data(), num_rows=st.integers(1, 4), spare=st.integers(0, 2))
def test_the_chosen_item_comes_first_and_the_others_stay(data, num_rows, spare) -> None:
    rows = data.draw(item_lists(num_rows))
    chosen = [data.draw(st.sampled_from(row)) for row in rows]
    width = max(map(len, rows)) + spare
    stages = Choices(padded(rows, width), torch.tensor(chosen)).stages()
    expected = [
        [best] + [i for i in row if i != best]
        for row, best in zip(rows, chosen, strict=True)
    ]
    assert torch.equal(stages, padded(expected, width))


@pytest.mark.slow
@given(data=st.data(), num_rows=st.integers(1, 4), spare=st.integers(0, 2))
def test_a_ranking_breaks_into_choices_of_the_best_that_is_left(
    data, num_rows, spare
) -> None:
    rows = data.draw(item_lists(num_rows))
    width = max(map(len, rows)) + spare
    stages = Rankings(padded(rows, width)).stages()
    assert stages.dtype == torch.long
    expected = [stage for row in rows for stage in stages_of(row)]
    assert torch.equal(stages, padded(expected, width))


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(data=st.data(), num_rows=st.integers(1, 3))
def test_batches_have_the_stages_of_their_rankings(data, num_rows) -> None:
    batches = [data.draw(item_lists(num_rows)) for _ in range(4)]
    width = max(len(row) for rows in batches for row in rows)
    orders = torch.stack([padded(rows, width) for rows in batches])
    stages = Rankings(orders.unflatten(0, (2, 2))).stages()
    assert stages.shape[:2] == (2, 2)
    for rows, element_stages in zip(batches, stages.flatten(0, 1), strict=True):
        expected = [stage for row in rows for stage in stages_of(row)]
        assert [row for row in unpadded(element_stages) if row] == expected
    # No row that all batches pad out.
    assert (stages >= 0).flatten(0, 1).any(0)[:, :2].all()


def test_batches_of_choices_have_stages() -> None:
    sets = torch.tensor([[[0, 1, 2]], [[3, 2, -1]]])
    stages = Choices(sets, torch.tensor([[2], [2]])).stages()
    assert stages.tolist() == [[[2, 0, 1]], [[2, 3, -1]]]
