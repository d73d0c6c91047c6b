"""Jaakkola and Jordan's lower bound of logistic factors."""

from __future__ import annotations

import torch
from torch import Tensor

from botorch_pref.inference.variational.gaussian_bound import Bound
from botorch_pref.inference.variational.softmax_bounds import (
    bound_curvature,
    bound_intercept,
    profile_curvature,
)
from botorch_pref.linalg.sparse_design import SparseDesign


class JaakkolaJordanBound(Bound):
    r"""Jaakkola and Jordan's bound, with a parameter :math:`\zeta` for each pair.

    Args:
        rows: Differences, winner minus loser.
        present: ``batch_shape x m`` booleans, False where a row stands for nothing.
    """

    def __init__(self, rows: SparseDesign, present: Tensor | None = None) -> None:
        self.rows, self.num_parameters = rows, rows.num_rows
        self._present = present

    def _masked(self, values: Tensor) -> Tensor:
        return values if self._present is None else values * self._present

    def best(self, mean: Tensor, variance: Tensor) -> Tensor:
        """See base class; equation 19 of Guo et al. (2020)."""
        return (variance + mean.square()).sqrt()

    def sites(self, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """See base class."""
        tau = self._masked(2 * bound_curvature(parameters))
        return tau, self._masked(torch.full_like(tau, 0.5))

    def curvature(
        self, parameters: Tensor, mean: Tensor, variance: Tensor
    ) -> tuple[Tensor, SparseDesign | None]:
        """See base class."""
        return self._masked(profile_curvature(mean, variance)), None

    def intercept(self, parameters: Tensor) -> Tensor:
        """See base class."""
        return self._masked(bound_intercept(parameters)).sum(-1)
