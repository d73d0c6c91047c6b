"""Splits of answers into folds, by the person where persons are known."""

from __future__ import annotations

from typing import Any

import torch
from torch import Generator, Tensor

from botorch_pref.datasets.comparison_data import ComparisonData
from botorch_pref.datasets.feedback_data import FeedbackData
from botorch_pref.errors import FeedbackError


def assign_folds(
    data: ComparisonData | FeedbackData[Any], num_folds: int, generator: Generator
) -> Tensor:
    """Assigns every answer to one of `num_folds` folds of nearly equal size.

    Where raters are known, all answers of one rater fall in one fold. A rater's answers
    resemble each other, so a split by answer would test on people already met; this one
    asks how well the answers of a new person are predicted.

    Args:
        data: The answers.
        num_folds: Number of folds, at least 2 and at most the number of raters (or of
            answers where raters are not known).
        generator: Source of the shuffle.

    Returns:
        `m` long fold numbers in `0 .. num_folds - 1`.

    Raises:
        FeedbackError: If there are fewer groups than folds.
    """
    if data.raters is None:
        groups = torch.arange(len(data))
    else:
        groups = torch.unique(data.raters, return_inverse=True)[1]
    num_groups = int(groups.max()) + 1
    if not 2 <= num_folds <= num_groups:
        kind = "answers" if data.raters is None else "raters"
        raise FeedbackError(
            f"{num_folds} folds cannot be made of {num_groups} {kind}: "
            f"choose between 2 and {num_groups} folds"
        )
    fold_of_group = torch.empty(num_groups, dtype=torch.long)
    shuffled = torch.randperm(num_groups, generator=generator)
    fold_of_group[shuffled] = torch.arange(num_groups) % num_folds
    return fold_of_group[groups]
