import pytest
import torch

from botorch_pref.datasets import ComparisonData
from botorch_pref.errors import FeedbackError

NAMES = ("price", "time")


def table() -> ComparisonData:
    winners = torch.tensor([[3.0, 1.0], [2.0, 2.0], [3.0, 1.0]])
    losers = torch.tensor([[2.0, 2.0], [1.0, 5.0], [0.0, 0.0]])
    return ComparisonData.from_pairs(winners, losers, NAMES, torch.tensor([7, 7, 9]))


def test_equal_items_are_stored_once_and_pairs_are_kept() -> None:
    data = table()
    assert data.datapoints.shape == (4, 2)
    assert data.winners.tolist() == [[3.0, 1.0], [2.0, 2.0], [3.0, 1.0]]
    assert data.losers.tolist() == [[2.0, 2.0], [1.0, 5.0], [0.0, 0.0]]
    assert len(data) == 3


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
    other = torch.tensor([[2.0, 1.0], [1.0, 2.0]])
    with pytest.raises(FeedbackError, match="comparison 1 compares an item"):
        ComparisonData.from_pairs(good, other, NAMES)
    other[0, 0] = float("nan")
    with pytest.raises(FeedbackError, match="comparison 0 has a feature that is NaN"):
        ComparisonData.from_pairs(good, other, NAMES)
    with pytest.raises(FeedbackError, match="no comparisons"):
        ComparisonData.from_pairs(good[:0], other[:0], NAMES)
    with pytest.raises(FeedbackError, match=r"\(2, 2\) and \(1, 2\)"):
        ComparisonData.from_pairs(good, other[:1], NAMES)
