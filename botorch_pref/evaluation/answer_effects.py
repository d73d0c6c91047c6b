"""Effects on the utility of an item in an answer: its position, and controls."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from scipy.sparse import csr_array
from scipy.sparse.linalg import lsqr
from torch import Tensor

from botorch_pref.datasets.items import (
    CONTROL,
    COUNT,
    HOME,
    LOSER,
    WINNER,
    control_columns,
)
from botorch_pref.errors import FeedbackError
from botorch_pref.evaluation.scores import table_of
from botorch_pref.posteriors.gaussian import central_interval

if TYPE_CHECKING:
    from pandas import DataFrame

WinProbability = Callable[[Tensor], Tensor]
"""The probability that an item wins, by how far its utility is ahead."""


class PositionBias(NamedTuple):
    """Advantage of being shown first, or at home, with the ends of intervals.

    To the ``utility``, and as the ``share`` of duels of equals that the first one wins,
    ties left out.
    """

    utility: tuple[float, float, float]
    share: tuple[float, float, float]


def position_bias(model: Any, level: float) -> PositionBias:
    """Computes how much being first adds to an option's utility and to its wins.

    It is the weight of the only covariate of a model, 1 where a winner was first and -1
    where it was second: the posterior mean, and the ends of an interval.

    Args:
        model: Fitted, or an ensemble, whose shares are averaged.
        level: Probability of the intervals.
    """
    with torch.no_grad():
        estimates = torch.cat(central_interval(model.covariate_posterior(), level))
        # Parameters of an ensemble come last.
        share = win_share(estimates.unsqueeze(-1), win_probability(model))
    shares = share.reshape(3, -1).mean(-1)
    return PositionBias(tuple(estimates.tolist()), tuple(shares.tolist()))


def win_probability(model: Any) -> WinProbability:
    """Returns the win probability of a model's likelihood."""
    link = model.likelihood
    return lambda ahead: link.win_probability(ahead, torch.zeros_like(ahead))


def win_share(ahead: Tensor, won: WinProbability) -> Tensor:
    """Computes the share of the duels that are no ties which an item ahead wins."""
    return won(ahead) / (won(ahead) + won(-ahead))


def effect_table(
    names: Sequence[Hashable],
    mean: Tensor,
    half: Tensor,
    won: WinProbability,
) -> DataFrame:
    """Makes a table of effects: what each adds to a utility, and what that wins.

    Args:
        names: Of the effects, ``k``.
        mean: What each adds to the utility, ``k``.
        half: Half of each interval, ``k``.
        won: The probability of a win.

    Returns:
        The columns ``utility``, ``lower`` and ``upper``, and ``share``, ``share_lower``
        and ``share_upper``: what the effect wins of duels between items that are equal
        otherwise, ties left out.
    """
    ends = torch.stack([mean, mean - half, mean + half])
    with torch.no_grad():
        shares = win_share(ends, won)
    columns = dict(zip(("utility", "lower", "upper"), ends, strict=True))
    columns |= dict(zip(("share", "share_lower", "share_upper"), shares, strict=True))
    return table_of(columns, [*names])


def home_bias(effects: DataFrame) -> PositionBias:
    """Reads the position bias in the row ``home`` of a table of `effect_table`."""
    effect = effects.loc[HOME]
    return PositionBias(
        tuple(effect[["utility", "lower", "upper"]].tolist()),
        tuple(effect[["share", "share_lower", "share_upper"]].tolist()),
    )


def standardised(answers: DataFrame) -> tuple[DataFrame, dict[str, float]]:
    """Divides the controls of answers by their root mean squares.

    Unlike the style control of Chatbot Arena it does not subtract the mean: which of
    two items is the first is a matter of chance, and a difference of zero has to say
    nothing.

    Returns:
        The answers, and the root mean square of each control by its name.

    Raises:
        FeedbackError: All differences of a control are zero.
    """
    scales: dict[str, float] = {}
    scaled = {}
    for column in control_columns(answers):
        name, values = column.removeprefix(CONTROL), answers[column].astype(float)
        scale = float(np.sqrt(np.average(np.square(values), weights=answers[COUNT])))
        if scale == 0.0:
            raise FeedbackError(
                f"The two items of every answer have the same {name}: leave the "
                "control out."
            )
        scales[name], scaled[column] = scale, values / scale
    return answers.assign(**scaled), scales


def typical_controls(names: Sequence[Hashable], answers: DataFrame) -> Tensor:
    r"""Estimates how much of each control an item has by and large, ``n x k``.

    The values of all items are those whose differences are nearest to the controls of
    answers, by least squares. Divided by their root mean squares, they are features of
    the items. Without these, if good items gave long answers, the control would be
    credited with a part of what the items are worth (Mundlak 1978).

    Args:
        names: Of the items, ``n``.
        answers: With `standardised` controls.
    """
    place = {name: i for i, name in enumerate(names)}
    rows = np.arange(len(answers))
    weights = np.sqrt(answers[COUNT].to_numpy(float))
    ends = [answers[side].map(place).to_numpy(np.int64) for side in (WINNER, LOSER)]
    values, columns = np.concatenate([weights, -weights]), np.concatenate(ends)
    shape = (len(answers), len(names))
    design = csr_array((values, (np.concatenate([rows, rows]), columns)), shape=shape)
    typical = torch.zeros(len(names), 0, dtype=torch.double)
    for column in control_columns(answers):
        targets = weights * answers[column].to_numpy(float)
        # Answers say nothing of the level of values. Of all solutions this is the
        # smallest, with a mean of 0 in each group that answers connect.
        value = torch.from_numpy(lsqr(design, targets, atol=1e-9, btol=1e-9)[0])
        scale = value.square().mean().sqrt().clamp_min(_LEAST_SPREAD)
        typical = torch.cat([typical, (value / scale).unsqueeze(-1)], dim=-1)
    return typical


_LEAST_SPREAD = 1e-6
"""Deviations of a control up to which items are taken for alike."""
