"""Bradley-Terry on features: the linear baseline of preference models."""

from __future__ import annotations

from typing import Any

import torch
from scipy.optimize import minimize
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
    rows = standardised.detach().cpu().double()

    def loss(point: Any) -> tuple[float, Any]:
        weights = torch.as_tensor(point)
        u = rows @ weights
        value = 0.5 * RIDGE * weights @ weights - logsigmoid(u).sum()
        return float(value), (RIDGE * weights - torch.sigmoid(-u) @ rows).numpy()

    def curvature(point: Any) -> Any:
        u = rows @ torch.as_tensor(point)
        spread = torch.sigmoid(u) * torch.sigmoid(-u)
        ridge = RIDGE * torch.eye(rows.shape[-1]).double()
        return (rows.mT @ (spread.unsqueeze(-1) * rows) + ridge).numpy()

    start = torch.zeros(rows.shape[-1]).double().numpy()
    found = minimize(
        loss, start, jac=True, hess=curvature, method="trust-exact", tol=1e-9
    )
    return torch.as_tensor(found.x).to(scale) / scale


def bradley_terry(train: ComparisonData, first: Tensor, second: Tensor) -> Tensor:
    """Log probabilities of answers by Bradley-Terry on the features.

    Args:
        train: The comparisons to learn from; it knows no ties and leaves them out.
        first: `t x d` features.
        second: `t x d` features.

    Returns:
        `t` log probabilities that the first is preferred.
    """
    decided = train.decided
    weights = fit_bradley_terry(train.winners[decided] - train.losers[decided])
    return logsigmoid((first - second) @ weights)
