"""The data of one metric, read back as answers."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from botorch_pref.errors import ExperimentError

DECIMALS = 10
"""Digits after the point of a stored answer: what Ax's tables of data keep."""

Group = dict[int, float]
"""The values of one metric in one trial, by datapoint."""

Groups = Iterable[tuple[int, Group]]
"""Each trial that has data of a metric, with its values."""


def pair_of(metric: str, trial: int, group: Group) -> list[int]:
    """The two datapoints of a trial.

    Args:
        metric: To name in messages.
        trial: To name in messages.
        group: The trial's values.

    Raises:
        ExperimentError: There are not two.
    """
    if len(group) != 2:
        raise ExperimentError(
            f"Trial {trial} has data of {metric} for {len(group)} arms; it takes two."
        )
    return list(group)


def sorted_sets(metric: str, groups: Groups, descending: bool) -> Tensor | None:
    """The datapoints of each trial in the order of their values.

    Args:
        metric: To name in messages.
        groups: The data.
        descending: Whether the largest value comes first.

    Returns:
        ``m x k``, padded with -1; None if there are no trials.

    Raises:
        ExperimentError: A trial has fewer than two.
    """
    rows = []
    for trial, group in groups:
        if len(group) < 2:
            raise ExperimentError(
                f"Trial {trial} has data of {metric} for {len(group)} arms; it takes "
                "two or more."
            )
        in_order = sorted(group, key=group.__getitem__, reverse=descending)
        rows.append(torch.tensor(in_order))
    return pad_sequence(rows, batch_first=True, padding_value=-1) if rows else None


def points_and_values(groups: Groups) -> tuple[Tensor, Tensor] | None:
    """Values of all trials, each with its datapoint.

    Args:
        groups: The data.

    Returns:
        Two vectors of one length; None if there are no values.
    """
    rows = [row for _, group in groups for row in group.items()]
    if not rows:
        return None
    points, values = zip(*rows, strict=True)
    return torch.tensor(points), torch.tensor(values, dtype=torch.float64)
