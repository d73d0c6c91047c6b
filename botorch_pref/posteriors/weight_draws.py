"""Draws of the weights of a posterior, with their mean and spread."""

from __future__ import annotations

import math
from functools import cached_property

import torch
from torch import Tensor


class WeightDraws:
    r"""Draws of weights ``w``, of which utilities are linear functions ``k w``.

    With :math:`\bar w` and the root :math:`R` of the covariance of the draws, utilities
    have the mean :math:`k \bar w` and the covariance :math:`(k R)(k R)^T` over draws:
    exact, at the cost of ``n`` columns instead of ``s``.

    Args:
        values: ``batch_shape x n x s``.
    """

    def __init__(self, values: Tensor) -> None:
        self.values = values

    @cached_property
    def mean(self) -> Tensor:
        """Mean over draws, ``batch_shape x n x 1``."""
        # What is asked for first without a graph may be asked for later with it.
        with torch.enable_grad():
            return self.values.mean(-1, keepdim=True)

    @cached_property
    def root(self) -> Tensor:
        """A root of the covariance over draws, ``batch_shape x n x min(n, s)``."""
        num_points, num_draws = self.values.shape[-2:]
        with torch.enable_grad():
            deviations = (self.values - self.mean) / math.sqrt(num_draws)
        # A triangular factor is no function of the draws where these are dependent.
        if deviations.requires_grad or num_draws <= num_points:
            return deviations
        return torch.linalg.qr(deviations.mT, mode="r").R.mT
