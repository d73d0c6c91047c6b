"""Measures and folds of Guo et al. (2020), sections 5.2 and 6."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Generator, Tensor

from botorch_pref.datasets import ComparisonData, FeedbackData, assign_folds
from botorch_pref.feedback.container import check_num_folds


class RankingFold(NamedTuple):
    """Rows of the answers to learn from, and of those held out."""

    train: Tensor
    test: Tensor


def folds_by_sets(
    data: ComparisonData | FeedbackData[Any], num_folds: int, generator: Generator
) -> list[RankingFold]:
    r"""Folds of the answers; items appear on both sides.

    The :math:`\mathcal L` partition of Guo et al. (2020), section 5.2. Answers of one
    rater, where raters are known, fall in one fold.
    """
    folds = assign_folds(data, num_folds, generator)
    sides = ((folds != number, folds == number) for number in range(num_folds))
    return [RankingFold(*(side.nonzero()[:, 0] for side in both)) for both in sides]


def folds_by_samples(
    data: FeedbackData[Any], num_folds: int, generator: Generator
) -> list[RankingFold]:
    r"""Folds of the items; no held-out item was seen in training.

    The :math:`\mathcal N` partition of Guo et al. (2020), section 5.2: sets within the
    training items are learned from, and sets within the test items are held out. Of
    sets of k items about :math:`(1 - 1/F)^k` and :math:`F^{-k}` remain, which may be
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
    check_num_folds(num_folds, num_items, "items")
    sets = getattr(data.feedback, data.feedback.index_fields[0])
    folds = torch.randperm(num_items, generator=generator) % num_folds
    fold_of, absent = folds[sets], sets < 0
    sides = (
        (
            ((fold_of != number) | absent).all(-1),
            ((fold_of == number) | absent).all(-1),
        )
        for number in range(num_folds)
    )
    return [
        RankingFold(train.nonzero()[:, 0], test.nonzero()[:, 0])
        for train, test in sides
    ]


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
    both = torch.stack([means, deviations], dim=-1)
    edges = [mean_edges.to(both), deviation_edges.to(both)]
    wins, count = (
        torch.histogramdd(both, edges, weight=weight).hist
        for weight in (positive, None)
    )
    return PositiveRatio(mean_edges, deviation_edges, wins / count, count.long())
