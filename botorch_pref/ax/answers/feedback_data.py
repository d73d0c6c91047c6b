"""Ax's table of data as a data set of feedback."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from ax.adapter.data_utils import ExperimentData

from botorch_pref.ax.answers.answer import KINDS
from botorch_pref.ax.answers.kinds.metric_data import DECIMALS, Group, Groups
from botorch_pref.ax.answers.kinds.winner import OBJECTIVE
from botorch_pref.errors import ExperimentError
from botorch_pref.feedback import Feedback
from botorch_pref.models.data.feedback_dataset import FeedbackDataset


def feedback_dataset(
    experiment_data: ExperimentData, parameters: list[str], num_levels: int | None
) -> FeedbackDataset:
    """Data set of every answer of an experiment.

    Args:
        experiment_data: Ax's tables, with parameters transformed to numbers.
        parameters: The columns that make the features, in order.
        num_levels: How many levels the scale of levels has, if there is one.

    Returns:
        The data set, with the arms of `arms_of` for datapoints.

    Raises:
        ExperimentError: There is no answer, or data that no answer gives.
    """
    names = arms_of(experiment_data)
    if not names:
        raise ExperimentError("There is no answer yet; ask and tell first.")
    # A database keeps no order, and Ax's transforms not always this one.
    means = experiment_data.observation_data["mean"].sort_index()
    arms = experiment_data.arm_data.droplevel("trial_index")
    place = {name: i for i, name in enumerate(names)}

    def groups(metric: str) -> Iterator[tuple[int, Group]]:
        if metric not in means.columns:
            return
        for trial, values in means[metric].dropna().groupby(level="trial_index"):
            at = (place[name] for name in values.index.get_level_values("arm_name"))
            # Ax's tables keep so many decimals, and read them back rounded otherwise.
            yield trial, dict(zip(at, values.round(DECIMALS).tolist(), strict=True))

    first = arms[~arms.index.duplicated()].loc[names, parameters]
    return FeedbackDataset(
        torch.from_numpy(first.to_numpy(dtype=float, copy=True)),
        feedback_blocks(groups, num_levels),
        feature_names=parameters,
        outcome_names=[OBJECTIVE],
    )


def arms_of(experiment_data: ExperimentData) -> list[str]:
    """The names of the arms that answers are about, in the order of `feedback_dataset`.

    Args:
        experiment_data: Ax's tables.
    """
    index = experiment_data.observation_data.sort_index().index
    return list(dict.fromkeys(index.get_level_values("arm_name")))


GroupsOf = Callable[[str], Groups]
"""The data of a metric, by its name."""


def feedback_blocks(groups: GroupsOf, num_levels: int | None) -> list[Feedback]:
    """Answers in containers, one for each class of feedback that there is.

    Args:
        groups: The values of answers.
        num_levels: How many levels the scale of levels has, if there is one.

    Raises:
        ExperimentError: Data that no answer gives.
    """
    blocks: dict[type[Feedback], Feedback] = {}
    for kind in KINDS:
        block = kind.decode(groups(kind.metric), num_levels)
        if block is None:
            continue
        earlier = blocks.get(type(block))
        blocks[type(block)] = block if earlier is None else earlier.followed_by(block)
    return list(blocks.values())
