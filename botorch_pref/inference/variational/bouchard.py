"""Bouchard's lower bound of softmax factors."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from botorch_pref.inference.variational.gaussian_bound import Bound
from botorch_pref.inference.variational.softmax_bounds import (
    bound_curvature,
    bound_intercept,
    profile_curvature,
)
from botorch_pref.likelihoods.factors.stage_items import in_some_element, stage_items
from botorch_pref.linalg.sparse_design import SparseDesign

_MAX_STEPS = 100


class BouchardBound(Bound):
    r"""Bouchard's bound: :math:`\xi` for each item and :math:`\alpha` for each set.

    Args:
        stages: ``batch_shape x L x k`` long, the chosen point first, padded with -1.
        num_points: ``n``.
        like: A tensor whose dtype and device the rows take.
        counts: How often each set was chosen from so, ``batch_shape x L``; None for
            once.
    """

    def __init__(
        self,
        stages: Tensor,
        num_points: int,
        like: Tensor,
        counts: Tensor | None = None,
    ) -> None:
        self._items = items = stage_items(stages)
        self._here = items.present.to(like)
        own = in_some_element(stages >= 0, 2).any(-1)
        self._counts = like.new_ones(()) if counts is None else counts[..., own]
        self._weights = self._here
        if counts is not None:
            self._weights = self._here * items.spread(self._counts)
        self.rows = SparseDesign(
            items.points.unsqueeze(-1), self._here.unsqueeze(-1), num_points
        )
        self.num_parameters = self.rows.num_rows + items.num_stages
        self._sizes = items.total(self._here)
        self._free_shift = ((items.place == 0).to(like) - 0.5) * self._weights

    def _split(self, parameters: Tensor) -> tuple[Tensor, Tensor]:
        xi, alpha = parameters.split(
            [self.rows.num_rows, self._items.num_stages], dim=-1
        )
        return xi, alpha

    def best(self, mean: Tensor, variance: Tensor) -> Tensor:
        """See base class; equation 23 of Guo et al. (2020) at the best alpha."""
        alpha = self._best_alpha(mean, variance)
        xi = (variance + (mean - self._items.spread(alpha)).square()).sqrt()
        return torch.cat([xi, alpha], dim=-1)

    def _best_alpha(self, mean: Tensor, variance: Tensor) -> Tensor:
        """Best alpha, with the derivatives of an implicit function."""
        with torch.no_grad():
            alpha = self._find_alpha(mean, variance)
        slope, curvature = self._in_alpha(alpha, mean, variance)
        # At the maximum one more step is none, but has the derivative of the maximum.
        stiff = curvature.detach()
        return alpha + slope / torch.where(stiff > 0, stiff, 1.0)

    def _in_alpha(
        self, alpha: Tensor, mean: Tensor, variance: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The slope of the expected bound in alpha, and minus its derivative."""
        items, k = self._items, self._sizes.clamp_min(2.0)
        distance = mean - items.spread(alpha)
        xi = (variance + distance.square()).sqrt()
        pull = 2 * bound_curvature(xi) * distance * self._here
        curvature = profile_curvature(distance, variance) * self._here
        return 0.5 * (k - 2) + items.total(pull), items.total(curvature)

    def _find_alpha(self, mean: Tensor, variance: Tensor) -> Tensor:
        r"""Newton's method in a bracket that shrinks.

        Instead of equations 22 and 23 of Guo et al. (2020), which are taken by turns.

        With the best :math:`\xi` for every alpha the expected bound is concave in it.
        Its slope :math:`(k - 2) / 2 + \sum_j 2 \lambda(\xi_j)(\mu_j - \alpha)` is
        positive at the smallest mean, and no longer so above the largest one by t where
        :math:`\tanh(t / 2)` and :math:`t / \sqrt{t^2 + s}` are at least
        :math:`\sqrt{1 - 2 / k}`.
        """
        items, here, k = self._items, self._items.present, self._sizes.clamp_min(2.0)
        low = -items.largest(torch.where(here, -mean, -torch.inf))
        high = items.largest(torch.where(here, mean, -torch.inf))
        widest = items.largest(torch.where(here, variance, 0.0))
        logistic = 2 * torch.atanh((1 - 2 / k).sqrt())
        high = high + torch.maximum(logistic, (widest * (0.5 * k - 1)).sqrt())
        # Any alpha for a set that this element of the batch lacks.
        low, high = low.nan_to_num(posinf=0.0), high.nan_to_num(neginf=0.0)
        alpha = 0.5 * (low + high)
        tolerance = math.sqrt(torch.finfo(alpha.dtype).eps)
        for _ in range(_MAX_STEPS):
            slope, curvature = self._in_alpha(alpha, mean, variance)
            low, high = (
                torch.where(slope >= 0, alpha, low),
                torch.where(slope >= 0, high, alpha),
            )
            new = alpha + slope / curvature
            inside = (new >= low) & (new <= high)
            new = torch.where(inside, new, 0.5 * (low + high))
            done = (new - alpha).abs() <= tolerance * (1 + alpha.abs())
            alpha = new
            if bool(done.all()):
                break
        return alpha

    def sites(self, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """See base class."""
        xi, alpha = self._split(parameters)
        tau = 2 * bound_curvature(xi) * self._weights
        return tau, self._free_shift + tau * self._items.spread(alpha)

    def curvature(
        self, parameters: Tensor, mean: Tensor, variance: Tensor
    ) -> tuple[Tensor, SparseDesign | None]:
        """See base class."""
        distance = mean - self._items.spread(self._split(parameters)[1])
        c = profile_curvature(distance, variance) * self._weights
        total = self._items.spread(self._items.total(c))
        share = torch.where(total > 0, c / torch.where(total > 0, total, 1.0).sqrt(), 0)
        index, coefficients = (
            self._items.padded(self._items.points),
            self._items.padded(share),
        )
        index = index.expand_as(coefficients)
        return c, SparseDesign(index, coefficients, self.rows.num_points)

    def intercept(self, parameters: Tensor) -> Tensor:
        r"""See base class; :math:`M_l` of equation 25 of Guo et al. (2020)."""
        xi, alpha = self._split(parameters)
        lowered = bound_curvature(xi) * self._items.spread(alpha).square()
        of_items = (bound_intercept(xi) - lowered) * self._weights
        there = self._sizes > 0
        of_sets = torch.where(there, 0.5 * (self._sizes - 2) * alpha, 0.0)
        return of_items.sum(-1) + (self._counts * of_sets).sum(-1)
