"""Metrics of rankings by predicted comparisons, as in Guo et al. (2020)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


def ordered_pairs(stages: Tensor) -> Tensor:
    """Pairs of items that rankings, stage by stage, put in order.

    Args:
        stages: ``s x k`` long, in each row the chosen item first, padded with -1, as
            ``Rankings.stages()`` and ``Choices.stages()`` give them.

    Returns:
        ``m x 2``, winner first.
    """
    losers = stages[:, 1:]
    pairs = torch.stack([stages[:, :1].expand_as(losers), losers], dim=-1)
    return pairs[losers >= 0]


def comparison_auc(win_probability: Tensor) -> float:
    """The area under the ROC curve of comparisons as binary variables.

    Each comparison counts as won by its winner and as not won by its loser (Guo et al.
    2020, section 5.2).

    Args:
        win_probability: ``m``, predicted probabilities that the winners win.

    Returns:
        From 0 to 1; a half for a coin.
    """
    losses = (1 - win_probability).sort().values
    below, not_above = (
        torch.searchsorted(losses, win_probability.contiguous(), right=right)
        for right in (False, True)
    )
    return float((below + not_above).double().mean() / (2 * len(losses)))


def item_values(pairs: Tensor, win_probability: Tensor, num_items: int) -> Tensor:
    r"""The share of its comparisons that each item wins.

    The truth, :math:`w_i` of eq. 27 of Guo et al. (2020), for win probabilities of one;
    the estimate, :math:`\hat w_i` of eq. 28, for predicted ones.

    Args:
        pairs: ``m x 2``, winner first.
        win_probability: ``m``, of the winner.
        num_items: How many items there are.

    Returns:
        ``num_items``; NaN for items that no comparison contains.
    """
    both = torch.cat([win_probability, 1 - win_probability])
    items = pairs.mT.flatten()
    wins = both.new_zeros(num_items).index_add(0, items, both)
    seen = both.new_zeros(num_items).index_add(0, items, torch.ones_like(both))
    return wins / seen


def top_k_value(truth: Tensor, estimate: Tensor, k: int) -> float:
    r"""True value of the k items estimated best, relative to the best k.

    :math:`T_K = W(\hat S^+) / \max_{|S| = K} W(S)` (Guo et al. 2020,
    section 5.2).

    Args:
        truth: ``num_items``, NaN for items that were not seen.
        estimate: ``num_items``.
        k: How many; fewer where fewer items were seen.
    """
    seen = ~truth.isnan()
    truth, estimate = truth[seen], estimate[seen]
    k = min(k, truth.numel())
    return float(truth[estimate.topk(k).indices].sum() / truth.topk(k).values.sum())


@dataclass(frozen=True)
class PositiveRatio:
    """Share of positive differences, by predicted mean and deviation.

    Attributes:
        mean_edges: Edges of the bins of the predicted mean difference.
        deviation_edges: Edges of the bins of its deviation.
        ratio: Share of differences that were positive, ``means x deviations``; NaN
            where a bin is empty.
        count: How many comparisons there are in each bin.
    """

    mean_edges: Tensor
    deviation_edges: Tensor
    ratio: Tensor
    count: Tensor


def positive_ratio(
    mean: Tensor, deviation: Tensor, mean_edges: Tensor, deviation_edges: Tensor
) -> PositiveRatio:
    """Positive ratio of held-out comparisons in bins (figure 4).

    Each comparison counts from both sides: with the winner's difference as a positive
    and the loser's as a negative.

    Args:
        mean: ``m``, of the utility of the winner minus that of the loser.
        deviation: ``m``, its posterior standard deviation.
        mean_edges: Increasing; differences outside are not counted.
        deviation_edges: Increasing; deviations outside are not counted.
    """
    means = torch.cat([mean, -mean])
    deviations = torch.cat([deviation, deviation])
    positive = torch.cat([torch.ones_like(mean), torch.zeros_like(mean)])
    row = torch.bucketize(means, mean_edges) - 1
    column = torch.bucketize(deviations, deviation_edges) - 1
    shape = len(mean_edges) - 1, len(deviation_edges) - 1
    inside = (row >= 0) & (row < shape[0]) & (column >= 0) & (column < shape[1])
    where = (row * shape[1] + column)[inside]
    size = shape[0] * shape[1]
    count = mean.new_zeros(size).index_add(0, where, torch.ones_like(positive[inside]))
    wins = mean.new_zeros(size).index_add(0, where, positive[inside])
    return PositiveRatio(
        mean_edges,
        deviation_edges,
        (wins / count).reshape(shape),
        count.reshape(shape).long(),
    )
