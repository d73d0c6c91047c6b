"""One-hot features of categories."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from botorch_pref.errors import FeedbackError


def one_hot(labels: Sequence[str], levels: Sequence[str]) -> Tensor:
    """Indicator columns of labels: one a level, 1 where the label is that level.

    Every level gets a column: under a prior that treats columns alike, leaving out a
    reference level would make that level more certain than the others.

    Args:
        labels: `m` labels.
        levels: All the labels there are.

    Returns:
        `m x len(levels)`, float64.

    Raises:
        FeedbackError: A label is not among the levels.
    """
    places = {level: place for place, level in enumerate(levels)}
    for row, label in enumerate(labels):
        if label not in places:
            raise FeedbackError(
                f"label {row} is {label!r}, not one of {', '.join(levels)}: correct "
                "the table"
            )
    columns = torch.tensor([places[label] for label in labels])
    return torch.nn.functional.one_hot(columns, len(levels)).double()
