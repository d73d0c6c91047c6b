"""Ax's table of data as a data set of feedback."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import torch
from ax.adapter.data_utils import ExperimentData

from botorch_pref.ax.answers.answer import KINDS
from botorch_pref.ax.answers.kinds.metric_data import DECIMALS, Group, Groups
from botorch_pref.ax.answers.kinds.winner import OBJECTIVE
from botorch_pref.errors import ExperimentError
from botorch_pref.feedback import Feedback
from botorch_pref.models.data.feedback_dataset import FeedbackDataset


def feedback_dataset(
    experiment_data: ExperimentData,
    parameters: list[str],
    num_levels: int | None,
    raters: Mapping[int, int] | None = None,
) -> FeedbackDataset:
    """Data set of every answer of an experiment.

    Args:
        experiment_data: Ax's tables, with parameters transformed to numbers.
        parameters: The columns that make the features, in order.
        num_levels: How many levels the scale of levels has, if there is one.
        raters: The number of who answered, by trial, where that is to count.

    Returns:
        The data set, with the arms of `arms_of` for datapoints; where raters count,
        each as often as there are raters who judged it.

    Raises:
        ExperimentError: There is no answer, or data that no answer gives.
    """
    rows = arms_and_raters(experiment_data, raters or {})
    if not rows:
        raise ExperimentError("There is no answer yet; ask and tell first.")
    # A database keeps no order, and Ax's transforms not always this one.
    means = experiment_data.observation_data["mean"].sort_index()
    arms = experiment_data.arm_data.droplevel("trial_index")
    place = {row: i for i, row in enumerate(rows)}

    def groups(metric: str) -> Iterator[tuple[int, Group]]:
        if metric not in means.columns:
            return
        for trial, values in means[metric].dropna().groupby(level="trial_index"):
            who = (raters or {}).get(trial)
            names = values.index.get_level_values("arm_name")
            at = (place[name, who] for name in names)
            # Ax's tables keep so many decimals, and read them back rounded otherwise.
            yield trial, dict(zip(at, values.round(DECIMALS).tolist(), strict=True))

    names, numbers = zip(*rows, strict=True)
    first = arms[~arms.index.duplicated()].loc[[*names], parameters]
    return FeedbackDataset(
        torch.from_numpy(first.to_numpy(dtype=float, copy=True)),
        feedback_blocks(groups, num_levels),
        feature_names=parameters,
        outcome_names=[OBJECTIVE],
        raters=None if raters is None else torch.tensor(numbers),
    )


def arms_of(experiment_data: ExperimentData) -> list[str]:
    """The names of the arms that answers are about, in the order of the questions.

    Args:
        experiment_data: Ax's tables.
    """
    rows = arms_and_raters(experiment_data, {})
    return [name for name, _ in rows]


def arms_and_raters(
    experiment_data: ExperimentData, raters: Mapping[int, int]
) -> list[tuple[str, int | None]]:
    """The names of the arms that answers are about, with those who judged them.

    Args:
        experiment_data: Ax's tables.
        raters: The number of who answered, by trial; None where there is none.
    """
    index = experiment_data.observation_data.sort_index().index
    levels = ("arm_name", "trial_index")
    pairs = zip(*(index.get_level_values(level) for level in levels), strict=True)
    return list(dict.fromkeys((name, raters.get(trial)) for name, trial in pairs))


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
