"""The partitions of the ranking paper, against counting."""

import itertools
import math

import pytest
import torch

from botorch_pref import Choices, Comparisons, Rankings
from botorch_pref.datasets import FeedbackData
from botorch_pref.errors import FeedbackError
from botorch_pref.evaluation.held_out import (
    folds_by_samples,
    folds_by_sets,
)

ITEMS, FOLDS = 9, 3


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def table(feedback, raters=None) -> FeedbackData:
    return FeedbackData(torch.eye(ITEMS), feedback, tuple("abcdefghi"), raters)


def all_sets() -> torch.Tensor:
    """Every pair and every triple of items."""
    pairs = [(*pair, -1) for pair in itertools.combinations(range(ITEMS), 2)]
    return torch.tensor(pairs + list(itertools.combinations(range(ITEMS), 3)))


@pytest.mark.parametrize(
    "feedback",
    [Rankings(all_sets()), Choices(all_sets(), all_sets()[:, 1])],
    ids=["rankings", "choices"],
)
def test_sets_remain_only_within_one_part_of_the_items(feedback) -> None:
    data = table(feedback)
    met = []
    for fold in folds_by_samples(data, FOLDS, generator()):
        sides = [
            {i for row in all_sets()[rows].tolist() for i in row if i >= 0}
            for rows in fold
        ]
        # All sets within 6 items, and all within the other 3.
        assert [len(side) for side in sides] == [6, 3]
        assert not sides[0] & sides[1]
        met.extend(sides[1])
        assert len(fold.train) == math.comb(6, 2) + math.comb(6, 3)
        assert len(fold.test) == math.comb(3, 2) + math.comb(3, 3)
    assert sorted(met) == list(range(ITEMS))


def test_no_set_may_remain() -> None:
    everything = torch.arange(ITEMS).unsqueeze(0)
    for fold in folds_by_samples(table(Rankings(everything)), FOLDS, generator()):
        assert [len(rows) for rows in fold] == [0, 0]


def test_every_set_is_held_out_once() -> None:
    pairs = torch.tensor(list(itertools.combinations(range(ITEMS), 2)))
    folds = folds_by_sets(table(Comparisons(pairs)), FOLDS, generator())
    assert sorted(torch.cat([fold.test for fold in folds]).tolist()) == list(range(36))
    for fold in folds:
        assert len(fold.test) == 12
        assert sorted(torch.cat(fold).tolist()) == list(range(36))


def test_answers_of_one_rater_stay_together() -> None:
    raters = torch.arange(len(all_sets())) // 4
    data = table(Rankings(all_sets()), raters)
    for fold in folds_by_sets(data, FOLDS, generator()):
        assert not set(raters[fold.train].tolist()) & set(raters[fold.test].tolist())


@pytest.mark.parametrize("split", [folds_by_sets, folds_by_samples])
def test_only_the_generator_decides(split) -> None:
    data = table(Rankings(all_sets()))
    first, again, other = (
        [fold.test.tolist() for fold in split(data, FOLDS, generator(seed))]
        for seed in (0, 0, 1)
    )
    assert first == again != other


@pytest.mark.parametrize("num_folds", [1, ITEMS + 1])
def test_folds_need_items(num_folds) -> None:
    data = table(Rankings(all_sets()))
    with pytest.raises(FeedbackError, match="between 2 and 9"):
        folds_by_samples(data, num_folds, generator())
