"""Tables of answers of any kind: what they refuse, and parts of them."""

import pytest
import torch
from draws import seeded
from hypothesis import given
from hypothesis import strategies as st

from botorch_pref.datasets import ComparisonData, FeedbackData, assign_folds
from botorch_pref.datasets.data import distinct_items
from botorch_pref.errors import FeedbackError
from botorch_pref.feedback import (
    Choices,
    Comparisons,
    OrdinalRatings,
    Rankings,
    Ratings,
    Strengths,
)

ITEMS = torch.arange(12.0).reshape(6, 2)
NAMES = ("price", "time")
SETS = torch.tensor([[0, 1, 2], [5, 3, -1], [1, 5, 0], [4, 2, 5]])
CHOSEN = torch.tensor([1, 5, 0, 4])
RATERS = torch.tensor([7, 7, 3, 9])


def blocks():
    return [
        Choices(SETS, CHOSEN),
        Rankings(SETS),
        Comparisons(SETS[:, :2]),
        Strengths(SETS[:, :2], torch.tensor([0.1, 0.2, 0.3, 0.9])),
        Ratings(CHOSEN, torch.tensor([0.1, 0.2, 0.3, 0.9])),
        OrdinalRatings(CHOSEN, torch.tensor([0, 1, 2, 1]), 3),
    ]


def features_of(data, name):
    """Returns features of the items that a field mentions; NaN for padding."""
    indices = getattr(data.feedback, name)
    return data.datapoints[indices].masked_fill((indices < 0)[..., None], torch.nan)


@pytest.mark.parametrize("block", blocks(), ids=lambda b: type(b).__name__)
@given(rows=st.lists(st.integers(0, 3), min_size=1, max_size=5), as_mask=st.booleans())
def test_a_subset_says_the_same_about_the_items_it_mentions(
    block, rows, as_mask
) -> None:
    data = FeedbackData(ITEMS, block, NAMES, RATERS)
    if as_mask:
        chosen = torch.zeros(4, dtype=torch.bool)
        chosen[rows] = True
        rows = chosen.nonzero()[:, 0].tolist()
    else:
        chosen = torch.tensor(rows)
    part = data.subset(chosen)
    assert len(part) == len(rows)
    assert torch.equal(part.raters, RATERS[rows])
    mentioned = set()
    for name in block.index_fields:
        torch.testing.assert_close(
            features_of(part, name), features_of(data, name)[rows], equal_nan=True
        )
        mentioned |= set(getattr(block, name)[rows].flatten().tolist()) - {-1}
    assert len(part.datapoints) == len(mentioned)
    for name in ("strengths", "ratings", "levels"):
        if hasattr(block, name):
            assert torch.equal(getattr(part.feedback, name), getattr(block, name)[rows])


def test_what_is_not_one_list_of_answers_is_refused() -> None:
    wrong = {
        r"batch shape \(2,\)": (Choices(SETS.expand(2, 4, 3), CHOSEN.expand(2, 4)),),
        "ties": (Comparisons(SETS[:, :2], torch.tensor([[0, 1]])),),
        r"Rankings.orders\[0, 0\] is 6": (Rankings(torch.tensor([[6, 0]])),),
        "1 feature_names for the 2": (Rankings(SETS), ("price",)),
        r"raters has shape \(3,\) for 4": (Rankings(SETS), NAMES, RATERS[:3]),
    }
    for message, (block, *arguments) in wrong.items():
        names = arguments[0] if arguments else NAMES
        with pytest.raises(FeedbackError, match=message):
            FeedbackData(ITEMS, block, names, *arguments[1:])


def test_equal_items_are_one_item() -> None:
    features = torch.tensor([[[1.0, 2.0], [0.0, 5.0]], [[0.0, 5.0], [1.0, 3.0]]])
    datapoints, indices = distinct_items(features)
    assert datapoints.tolist() == [[0.0, 5.0], [1.0, 2.0], [1.0, 3.0]]
    assert torch.equal(datapoints[indices], features)


def table() -> ComparisonData:
    winners = torch.tensor([[3.0, 1.0], [2.0, 2.0], [3.0, 1.0]])
    losers = torch.tensor([[2.0, 2.0], [1.0, 5.0], [0.0, 0.0]])
    return ComparisonData.from_pairs(winners, losers, NAMES, torch.tensor([7, 7, 9]))


@pytest.mark.parametrize(
    "rows", [torch.tensor([2, 0]), torch.tensor([True, False, True])]
)
def test_subset_keeps_the_pairs_and_drops_the_other_items(rows: torch.Tensor) -> None:
    data, part = table(), table().subset(rows)
    assert torch.equal(part.winners, data.winners[rows])
    assert torch.equal(part.losers, data.losers[rows])
    assert part.raters is not None
    assert data.raters is not None
    assert torch.equal(part.raters, data.raters[rows])
    assert part.comparisons.unique().tolist() == list(range(len(part.datapoints)))
    assert len(part.datapoints) == 3


def test_bad_rows_are_named() -> None:
    good = torch.tensor([[0.0, 1.0], [1.0, 2.0]])
    ranks = torch.tensor([[2.0, 1.0], [1.0, 2.0]])
    with pytest.raises(FeedbackError, match="comparison 1 compares an item"):
        ComparisonData.from_pairs(good, ranks, NAMES)
    ranks[0, 0] = float("nan")
    with pytest.raises(FeedbackError, match="comparison 0 has a feature that is NaN"):
        ComparisonData.from_pairs(good, ranks, NAMES)
    with pytest.raises(FeedbackError, match="no comparisons"):
        ComparisonData.from_pairs(good[:0], ranks[:0], NAMES)
    with pytest.raises(FeedbackError, match=r"\(2, 2\) and \(1, 2\)"):
        ComparisonData.from_pairs(good, ranks[:1], NAMES)


def numbers(raters: torch.Tensor | None, m: int = 40) -> ComparisonData:
    items = torch.arange(2.0 * m).reshape(m, 2)
    return ComparisonData.from_pairs(items[:, :1], items[:, 1:], ("size",), raters)


def test_folds_without_raters_are_equal_in_size() -> None:
    folds = assign_folds(numbers(None), 5, seeded(0))
    assert torch.bincount(folds).tolist() == [8] * 5


def test_answers_of_a_rater_stay_together() -> None:
    raters = torch.randint(100, 109, (40,), generator=seeded(1))
    folds = assign_folds(numbers(raters), 3, seeded(2))
    for rater in raters.unique():
        assert folds[raters == rater].unique().numel() == 1
    assert folds.unique().tolist() == [0, 1, 2]


@pytest.mark.parametrize("num_folds", [0, 1, 5])
def test_impossible_numbers_of_folds(num_folds: int) -> None:
    raters = torch.arange(40) % 4
    with pytest.raises(FeedbackError, match="4 raters: choose between 2 and 4"):
        assign_folds(numbers(raters), num_folds, seeded(0))
