"""Bradley-Terry on features: the linear baseline of preference models."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from botorch_pref.datasets import ComparisonData

RIDGE = 0.01
"""Precision of the Gaussian prior of each weight, per standardised feature."""


def fit_bradley_terry(differences: Tensor) -> Tensor:
    """Most probable weights of a linear utility.

    Maximises `sum_i log sigmoid(w' (x_winner - x_loser)_i) - (RIDGE / 2) |s * w|^2`,
    where `s` is the root mean square of each feature's difference: logistic regression
    on differences, with a prior too weak to matter save where data are separable
    (Bradley and Terry, 1952).

    Args:
        differences: `m x d` features of the winner less those of the loser.

    Returns:
        The `d` weights, in the units of the features.
    """
    scale = differences.square().mean(0).sqrt()
    # A feature that never differs has no say.
    scale = torch.where(scale > 0, scale, torch.ones_like(scale))
    standardised = differences / scale
    weights = torch.zeros_like(scale, requires_grad=True)
    optimizer = torch.optim.LBFGS(
        [weights], max_iter=200, tolerance_grad=1e-9, line_search_fn="strong_wolfe"
    )

    def loss() -> Tensor:
        optimizer.zero_grad()
        value = 0.5 * RIDGE * weights.square().sum()
        value = value - logsigmoid(standardised @ weights).sum()
        value.backward()
        return value

    optimizer.step(loss)
    return weights.detach() / scale


def bradley_terry(train: ComparisonData, first: Tensor, second: Tensor) -> Tensor:
    """Log probabilities of answers by Bradley-Terry on the features.

    Args:
        train: The comparisons to learn from.
        first: `t x d` features.
        second: `t x d` features.

    Returns:
        `t` log probabilities that the first is preferred.
    """
    weights = fit_bradley_terry(train.winners - train.losers)
    return logsigmoid((first - second) @ weights)
