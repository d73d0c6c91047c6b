import pytest
import torch

from botorch_pref.datasets import ComparisonData, assign_folds
from botorch_pref.errors import FeedbackError


def table(raters: torch.Tensor | None, m: int = 40) -> ComparisonData:
    items = torch.arange(2.0 * m).reshape(m, 2)
    return ComparisonData.from_pairs(items[:, :1], items[:, 1:], ("size",), raters)


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_folds_without_raters_are_equal_in_size() -> None:
    folds = assign_folds(table(None), 5, generator(0))
    assert torch.bincount(folds).tolist() == [8] * 5


def test_answers_of_a_rater_stay_together() -> None:
    raters = torch.randint(100, 109, (40,), generator=generator(1))
    folds = assign_folds(table(raters), 3, generator(2))
    for rater in raters.unique():
        assert folds[raters == rater].unique().numel() == 1
    assert folds.unique().tolist() == [0, 1, 2]


def test_the_generator_alone_decides() -> None:
    first = assign_folds(table(None), 5, generator(3))
    torch.manual_seed(99)
    assert torch.equal(first, assign_folds(table(None), 5, generator(3)))
    assert not torch.equal(first, assign_folds(table(None), 5, generator(4)))


@pytest.mark.parametrize("num_folds", [0, 1, 5])
def test_impossible_numbers_of_folds(num_folds: int) -> None:
    raters = torch.arange(40) % 4
    with pytest.raises(FeedbackError, match="4 raters: choose between 2 and 4"):
        assign_folds(table(raters), num_folds, generator(0))
