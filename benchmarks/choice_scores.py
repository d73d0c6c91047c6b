"""Scores of held-out choices, and Bradley-Terry on features to compare with."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from scipy.optimize import minimize
from torch import Tensor
from torch.nn.functional import logsigmoid

from botorch_pref.commands.choices import RIDGE, clustered_mean
from botorch_pref.datasets import ComparisonData


def fit_bradley_terry(differences: Tensor) -> Tensor:
    """Most probable weights ``d`` of a linear utility, in the units of the features.

    From differences ``m x d`` of the winner's features and the loser's. They maximise
    `sum_i log sigmoid(w' (x_winner - x_loser)_i) - (RIDGE / 2) |s w|^2`, where `s` is
    the root mean square of each feature's difference: logistic regression with a prior
    too weak to matter unless data are separable (Bradley and Terry, 1952).
    """
    scale = differences.square().mean(0).sqrt()
    # A feature that never differs has no say.
    scale = torch.where(scale > 0, scale, torch.ones_like(scale))
    rows = (differences / scale).detach().cpu().double()

    def loss(weights: Tensor) -> Tensor:
        return 0.5 * RIDGE * weights @ weights - logsigmoid(rows @ weights).sum()

    def gradient(weights: Tensor) -> Tensor:
        return RIDGE * weights - rows.mT @ torch.sigmoid(-rows @ weights)

    def hessian(weights: Tensor) -> Tensor:
        won = torch.sigmoid(rows @ weights)
        curvature = (won * (1 - won)).unsqueeze(-1)
        return torch.diag(RIDGE * torch.ones_like(weights)) + rows.mT @ (
            curvature * rows
        )

    def of_arrays(function: Callable[[Tensor], Tensor]) -> Callable[[Any], Any]:
        return lambda point: function(torch.as_tensor(point)).numpy()

    found = minimize(
        of_arrays(loss),
        torch.zeros(rows.shape[-1]).double().numpy(),
        jac=of_arrays(gradient),
        hess=of_arrays(hessian),
        method="trust-exact",
        tol=1e-9,
    )
    return torch.as_tensor(found.x).to(scale) / scale


def bradley_terry(train: ComparisonData, first: Tensor, second: Tensor) -> Tensor:
    """Log probabilities ``t`` that the first is preferred, by Bradley-Terry.

    It learns from the features of comparisons, without their ties.
    """
    decided = train.decided
    weights = fit_bradley_terry(train.winners[decided] - train.losers[decided])
    return logsigmoid((first - second) @ weights)


def coin(train: ComparisonData, first: Tensor, second: Tensor) -> Tensor:
    """Baseline that gives every answer probability one half."""
    return first.new_full(first.shape[:1], math.log(0.5))


@dataclass(frozen=True)
class HeldOut:
    """Log probabilities ``m`` that were predicted for held-out answers.

    Answers of different ``groups``, of raters for example, are independent.
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
        """Log-loss saved against another prediction, and its standard error."""
        return clustered_mean(self.log_probability - other.log_probability, self.groups)
