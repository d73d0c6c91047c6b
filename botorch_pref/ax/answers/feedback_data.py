"""Ax's table of data as a data set of feedback."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from ax.adapter.data_utils import ExperimentData
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from botorch_pref.ax.answers.answer_metrics import (
    CHOICE,
    DECIMALS,
    DUEL,
    LEVEL,
    RANK,
    RATING,
    STRENGTH,
    TIE,
    VALID,
)
from botorch_pref.errors import ExperimentError
from botorch_pref.feedback import (
    Choices,
    Comparisons,
    Feedback,
    OrdinalRatings,
    Rankings,
    Ratings,
    Strengths,
    Validity,
)
from botorch_pref.models.data.feedback_dataset import FeedbackDataset

Group = dict[int, float]
"""The values of one metric in one trial, by datapoint."""


def feedback_dataset(
    experiment_data: ExperimentData, parameters: list[str], num_levels: int | None
) -> FeedbackDataset:
    """Every answer of an experiment, about the points that it is about.

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
        outcome_names=[DUEL],
    )


def arms_of(experiment_data: ExperimentData) -> list[str]:
    """The names of the arms that answers are about, in the order of `feedback_dataset`.

    Args:
        experiment_data: Ax's tables.
    """
    index = experiment_data.observation_data.sort_index().index
    return list(dict.fromkeys(index.get_level_values("arm_name")))


Groups = Callable[[str], Iterator[tuple[int, Group]]]
"""Each trial that has data of a metric, with its values."""


def feedback_blocks(groups: Groups, num_levels: int | None) -> list[Feedback]:
    """Answers in containers, one for each kind that there is.

    Args:
        groups: The values of answers.
        num_levels: How many levels the scale of levels has, if there is one.

    Raises:
        ExperimentError: Data that no answer gives.
    """
    blocks = [build(groups) for build in _BLOCKS]
    blocks.append(_levels(groups, num_levels))
    return [block for block in blocks if block is not None]


def _comparisons(groups: Groups) -> Feedback | None:
    pairs = [_duel(trial, group) for trial, group in groups(DUEL)]
    ties = [_pair(TIE, trial, group) for trial, group in groups(TIE)]
    if not pairs and not ties:
        return None
    return Comparisons(_indices(pairs), _indices(ties))


def _choices(groups: Groups) -> Feedback | None:
    rows = [_best_first(CHOICE, t, g, descending=True) for t, g in groups(CHOICE)]
    if not rows:
        return None
    sets = _padded(rows)
    return Choices(sets, sets[:, 0])


def _rankings(groups: Groups) -> Feedback | None:
    rows = [_best_first(RANK, t, g, descending=False) for t, g in groups(RANK)]
    return Rankings(_padded(rows)) if rows else None


def _strengths(groups: Groups) -> Feedback | None:
    found = [(_pair(STRENGTH, t, g), g) for t, g in groups(STRENGTH)]
    if not found:
        return None
    values = [group[pair[0]] for pair, group in found]
    return Strengths(
        torch.tensor([pair for pair, _ in found]),
        torch.tensor(values, dtype=torch.float64),
    )


def _validity(groups: Groups) -> Feedback | None:
    points, values = _each(groups(VALID))
    if not points:
        return None
    return Validity(torch.tensor(points), torch.tensor(values) > 0.5)


def _ratings(groups: Groups) -> Feedback | None:
    points, values = _each(groups(RATING))
    if not points:
        return None
    return Ratings(torch.tensor(points), torch.tensor(values, dtype=torch.float64))


def _levels(groups: Groups, num_levels: int | None) -> Feedback | None:
    points, values = _each(groups(LEVEL))
    if not points:
        return None
    if num_levels is None:
        raise ExperimentError(
            f"There are data of {LEVEL}, whose metric does not say how many levels "
            "there are; create the experiment with num_levels=."
        )
    levels = torch.tensor(values).round().long()
    return OrdinalRatings(torch.tensor(points), levels, num_levels)


_BLOCKS = (_comparisons, _choices, _rankings, _strengths, _validity, _ratings)


def _pair(metric: str, trial: int, group: Group) -> list[int]:
    if len(group) != 2:
        raise ExperimentError(
            f"Trial {trial} has data of {metric} for {len(group)} arms; it takes two."
        )
    return list(group)


def _duel(trial: int, group: Group) -> list[int]:
    pair = _pair(DUEL, trial, group)
    if sorted(group.values()) != [0.0, 1.0]:
        raise ExperimentError(
            f"Trial {trial} has {sorted(group.values())} as {DUEL}; give 1 to the "
            f"winner and 0 to the loser, and data of {TIE} to a tie."
        )
    return sorted(pair, key=group.__getitem__, reverse=True)


def _best_first(metric: str, trial: int, group: Group, descending: bool) -> list[int]:
    if len(group) < 2:
        raise ExperimentError(
            f"Trial {trial} has data of {metric} for {len(group)} arms; it takes two "
            "or more."
        )
    return sorted(group, key=group.__getitem__, reverse=descending)


def _each(groups: Iterator[tuple[int, Group]]) -> tuple[list[int], list[float]]:
    rows = [row for _, group in groups for row in group.items()]
    return [point for point, _ in rows], [value for _, value in rows]


def _indices(rows: list[list[int]]) -> Tensor | None:
    return torch.tensor(rows) if rows else None


def _padded(rows: list[list[int]]) -> Tensor:
    return pad_sequence(list(map(torch.tensor, rows)), True, padding_value=-1)
