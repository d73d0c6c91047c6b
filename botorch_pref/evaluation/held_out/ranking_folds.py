"""Folds of answers about sets of items: by sets, or by the items in them."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Generator, Tensor

from botorch_pref.datasets import FeedbackData, assign_folds
from botorch_pref.errors import FeedbackError


class RankingFold(NamedTuple):
    """Rows of the answers to learn from, and of those held out.

    Attributes:
        train: Long row numbers.
        test: Long row numbers.
    """

    train: Tensor
    test: Tensor


def folds_by_sets(
    data: FeedbackData[Any], num_folds: int, generator: Generator
) -> list[RankingFold]:
    r"""Folds of the answers; items appear on both sides.

    The :math:`\mathcal L` partition of Guo et al. (2020), section 5.2. Answers of one
    rater, where raters are known, fall in one fold.

    Args:
        data: Comparisons, choices or rankings.
        num_folds: At least 2 and at most the number of raters, or of answers.
        generator: Source of the shuffle.

    Returns:
        One a fold; every answer is held out once.

    Raises:
        FeedbackError: There are fewer groups than folds.
    """
    folds = assign_folds(data, num_folds, generator)
    return [
        RankingFold((folds != k).nonzero()[:, 0], (folds == k).nonzero()[:, 0])
        for k in range(num_folds)
    ]


def folds_by_samples(
    data: FeedbackData[Any], num_folds: int, generator: Generator
) -> list[RankingFold]:
    r"""Folds of the items; no held-out item was seen in training.

    The :math:`\mathcal N` partition of Guo et al. (2020), section 5.2: the training
    sets of a fold are those within the training items, its test sets those within the
    test items. Sets with items of both kinds are in neither: of sets of k items about
    :math:`(1 - 1/F)^k` remain to learn from and :math:`F^{-k}` to test, which may be
    none.

    Args:
        data: Comparisons, choices or rankings.
        num_folds: F, at least 2 and at most the number of items.
        generator: Source of the shuffle.

    Returns:
        One a fold; ``train`` or ``test`` is empty where no set remains.

    Raises:
        FeedbackError: There are fewer items than folds, or fewer than two folds.
    """
    num_items = len(data.datapoints)
    if not 2 <= num_folds <= num_items:
        raise FeedbackError(
            f"{num_folds} folds cannot be made of {num_items} items: choose between 2 "
            f"and {num_items} folds"
        )
    sets = getattr(data.feedback, data.feedback.index_fields[0])
    folds = torch.randperm(num_items, generator=generator) % num_folds
    fold_of, absent = folds[sets], sets < 0
    return [
        RankingFold(
            ((fold_of != k) | absent).all(-1).nonzero()[:, 0],
            ((fold_of == k) | absent).all(-1).nonzero()[:, 0],
        )
        for k in range(num_folds)
    ]
