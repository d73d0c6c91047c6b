"""Scores of predictions of held-out answers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from botorch_pref.datasets import ComparisonData
from botorch_pref.errors import FeedbackError

Predictor = Callable[[ComparisonData, Tensor, Tensor], Tensor]
"""Maps training comparisons and two `t x d` tables to `t` log probabilities that the
first is preferred, given that one of the two is."""


@dataclass(frozen=True)
class HeldOut:
    """Log probabilities that were predicted for held-out answers.

    Attributes:
        log_probability: `m` log probabilities of the answers that were given.
        groups: `m` long numbers of what is independent: the rater, or the answer.
    """

    log_probability: Tensor
    groups: Tensor

    @property
    def log_loss(self) -> float:
        """Mean negative log probability of the answer, in nats."""
        return -float(self.log_probability.mean())

    @property
    def accuracy(self) -> float:
        """Share of answers that were predicted; an undecided prediction counts half."""
        excess = self.log_probability - math.log(0.5)
        undecided = excess.abs() < 1e-12
        right = torch.where(undecided, 0.5, (excess > 0).to(excess))
        return float(right.mean())

    def gain_over(self, other: HeldOut) -> tuple[float, float]:
        """Log-loss saved against another prediction of the same answers.

        Returns:
            The mean difference (positive where this one is better) and its standard
            error, answers of one group being taken as dependent.
        """
        return clustered_mean(self.log_probability - other.log_probability, self.groups)


def clustered_mean(values: Tensor, groups: Tensor) -> tuple[float, float]:
    """Mean of dependent values and its standard error.

    Values of one group may depend on each other, groups are independent. With group
    sums `S_g` of the residuals, `se^2 = G / (G - 1) sum_g S_g^2 / m^2` (Liang and
    Zeger, 1986).

    Args:
        values: `m` values.
        groups: `m` long group numbers in `0 .. G - 1`.

    Returns:
        The mean and its standard error, which is infinite for a single group.
    """
    mean = values.mean()
    num_groups = int(groups.max()) + 1
    if num_groups == 1:
        return float(mean), math.inf
    sums = torch.zeros(num_groups).to(values).index_add(0, groups, values - mean)
    variance = sums.square().sum() * num_groups / (num_groups - 1)
    return float(mean), float(variance.sqrt()) / len(values)


def coin(train: ComparisonData, first: Tensor, second: Tensor) -> Tensor:
    """Baseline that gives every answer probability one half.

    Args:
        train: The comparisons to learn from, which make no difference.
        first: `t x d` features.
        second: `t x d` features.

    Returns:
        `t` log probabilities that the first is preferred.
    """
    return first.new_full(first.shape[:1], math.log(0.5))


def cross_validate(
    data: ComparisonData,
    folds: Tensor,
    predictor: Predictor,
    train_rows: Sequence[Tensor],
) -> HeldOut:
    """Predicts each fold from rows outside it.

    Ties are learned from, by predictors that can, and not scored.

    Args:
        data: The comparisons.
        folds: `m` long fold numbers in `0 .. F - 1`.
        predictor: What is scored.
        train_rows: For each fold the long rows to learn from, none of them in it.

    Returns:
        The score of every answer that is no tie.

    Raises:
        FeedbackError: Every answer is one.
    """
    if not data.decided.any():
        raise FeedbackError("every answer is a tie, so that there is nothing to score")
    log_probability = torch.empty(len(data), dtype=data.datapoints.dtype)
    for fold, rows in enumerate(train_rows):
        test = (folds == fold) & data.decided
        if not test.any():
            continue
        train = data.subset(rows)
        log_probability[test] = predictor(train, data.winners[test], data.losers[test])
    if data.raters is None:
        groups = torch.arange(len(data))
    else:
        groups = torch.unique(data.raters, return_inverse=True)[1]
    scored = torch.unique(groups[data.decided], return_inverse=True)[1]
    return HeldOut(log_probability[data.decided], scored)
