"""Ragged sets as one row of items."""

import torch

from botorch_pref.likelihoods.logit import stage_items

RAGGED = torch.tensor([[4, 1, -1], [2, 0, 3], [-1, -1, -1], [3, 1, -1]])


def test_items_of_ragged_sets_without_phantoms() -> None:
    items = stage_items(RAGGED)
    assert items.points.tolist() == [4, 1, 2, 0, 3, 3, 1]
    assert items.stage.tolist() == [0, 0, 1, 1, 1, 2, 2]
    assert items.place.tolist() == [0, 1, 0, 1, 2, 0, 1]
    assert bool(items.present.all())
    assert items.num_stages == 3


def test_sums_maxima_and_padding_by_set() -> None:
    items = stage_items(RAGGED)
    values = torch.tensor([1.0, 2.0, -3.0, -1.0, -2.0, 5.0, 0.5])
    assert items.total(values).tolist() == [3.0, -6.0, 5.5]
    assert items.largest(values).tolist() == [2.0, -1.0, 5.0]
    assert items.spread(torch.tensor([7.0, 8.0, 9.0])).tolist() == [
        7, 7, 8, 8, 8, 9, 9,
    ]  # fmt: skip
    assert items.padded(values).tolist() == [[1, 2, 0], [-3, -1, -2], [5, 0.5, 0]]


def test_a_batch_holds_a_place_where_some_element_needs_it() -> None:
    other = torch.tensor([[0, 1, 2], [2, 0, -1], [-1, -1, -1], [-1, -1, -1]])
    items = stage_items(torch.stack([RAGGED, other]))
    assert items.stage.tolist() == [0, 0, 0, 1, 1, 1, 2, 2]
    assert items.points.tolist() == [[4, 1, 0, 2, 0, 3, 3, 1], [0, 1, 2, 2, 0, 0, 0, 0]]
    assert items.present.long().tolist() == [
        [1, 1, 0, 1, 1, 1, 1, 1],
        [1, 1, 1, 1, 1, 0, 0, 0],
    ]
