r"""Softmax factors of choices out of sets, as rows of differences.

A set with utilities ``f``, of which item 0 was chosen with probability
:math:`p_0 = e^{f_0} / \sum_j e^{f_j}`, has the log-likelihood Hessian

.. math::
    -(\mathrm{diag}(p) - p p') = -\sum_{i < j} p_i p_j (e_i - e_j)(e_i - e_j)' ,

exactly. So with a row :math:`f_i - f_j` for every pair of the set the curvature is
diagonal, and engines that work on rows need not know of softmax. A pair is one row, the
logistic factor.
"""

from __future__ import annotations

from copy import copy

import torch
from torch import Tensor

from botorch_pref.likelihoods.factors.factors import (
    Factors,
    GroupsOf,
    LogDerivatives,
)
from botorch_pref.likelihoods.factors.stage_items import in_some_element
from botorch_pref.linalg.sparse_design import SparseDesign


class PlackettLuceFactors(Factors):
    r"""Choices of the first item of each set, with softmax probabilities.

    Args:
        stages: ``batch_shape x L x k`` long, the chosen point first, padded with -1.
        num_points: ``n``.
        like: A tensor whose dtype and device the rows take.
        answers: ``L`` long, the answer that each set is of; None for one each.

    Attributes:
        counts: How often each set was chosen from so, ``batch_shape x L``; None for
            once.
    """

    takes_counts = True
    counts: Tensor | None = None

    def __init__(
        self,
        stages: Tensor,
        num_points: int,
        like: Tensor,
        answers: Tensor | None = None,
    ) -> None:
        self.stages, self._answers = stages, answers
        k = stages.shape[-1]
        # All pairs (i, j) of places, those of the chosen item first.
        self._first, self._second = torch.triu_indices(
            k, k, offset=1, device=stages.device
        )
        there = stages[..., self._second] >= 0
        keep = in_some_element(there, 2).flatten()
        (self._kept,) = keep.nonzero(as_tuple=True)
        # Where the row of each pair is; any where it has none.
        place = (keep.cumsum(0) - 1).clamp_min(0).unflatten(0, (-1, there.shape[-1]))
        self._against_chosen, self._there = place[:, : k - 1], there[..., : k - 1]
        pairs = torch.stack([stages[..., self._first], stages[..., self._second]], -1)
        pairs = torch.where(there.unsqueeze(-1), pairs, 0)
        signs = torch.tensor([1.0, -1.0], dtype=like.dtype, device=like.device)
        coefficients = torch.where(there.unsqueeze(-1), signs, 0.0)
        self.rows = SparseDesign(
            pairs.flatten(-3, -2)[..., self._kept, :],
            coefficients.flatten(-3, -2)[..., self._kept, :],
            num_points,
        )

    def merged(self, counts: Tensor | None, groups_of: GroupsOf) -> PlackettLuceFactors:
        """See base class: sets that were chosen from many times count as often."""
        if counts is None:
            return self
        own = counts if self._answers is None else counts[..., self._answers]
        copied = copy(self)
        copied.counts = own.to(self.rows.coefficients)
        return copied

    def _weighted(self, of_sets: Tensor) -> Tensor:
        """Values of each set, ``batch_shape x L x P``, as often as it counts."""
        if self.counts is None:
            return of_sets
        return of_sets * self.counts.unsqueeze(-1)

    def reindex(self, inverse: Tensor, num_points: int) -> None:
        """See base class."""
        super().reindex(inverse, num_points)
        there = self.stages >= 0
        self.stages = torch.where(there, inverse[self.stages.clamp_min(0)], -1)

    def _log_probabilities(self, z: Tensor) -> Tensor:
        """Log probability of each item of each set, ``batch_shape x L x k``."""
        behind = -z[..., self._against_chosen]
        behind = torch.where(self._there, behind, -torch.inf)
        chosen = behind.new_zeros(*behind.shape[:-1], 1)
        return torch.cat([chosen, behind], dim=-1).log_softmax(-1)

    def _of_pairs(self, log_p: Tensor) -> Tensor:
        """``p_i p_j`` of all pairs of each set, ``batch_shape x L x P``."""
        return (log_p[..., self._first] + log_p[..., self._second]).exp()

    def _rows_of(self, pairs: Tensor) -> Tensor:
        """``batch_shape x L x P`` to ``batch_shape x m``."""
        return pairs.flatten(-2)[..., self._kept]

    def log_prob(self, z: Tensor) -> LogDerivatives:
        """See base class."""
        log_p = self._log_probabilities(z)
        products = self._of_pairs(log_p)
        value, first = torch.zeros_like(products), torch.zeros_like(products)
        value[..., 0] = log_p[..., 0]
        first[..., : log_p.shape[-1] - 1] = log_p[..., 1:].exp()
        each = map(self._weighted, (value, first, -products))
        return LogDerivatives(*map(self._rows_of, each))

    def curvature_gradient(self, z: Tensor, weights: Tensor) -> Tensor:
        r"""See base class.

        With the weighted products :math:`w_{ij} p_i p_j`, their sum S over a set and
        :math:`T_j` over the pairs of item j, the derivative in the row of j and the
        chosen item is :math:`T_j - 2 p_j S`.
        """
        log_p = self._log_probabilities(z)
        products = self._of_pairs(log_p)
        sizes = products.shape[-2:]
        given = weights.new_zeros(*weights.shape[:-1], sizes.numel())
        given[..., self._kept] = weights
        products = self._weighted(products * given.unflatten(-1, sizes))
        of_item = products.new_zeros(*products.shape[:-1], log_p.shape[-1])
        of_item = of_item.index_add(-1, self._first, products)
        of_item = of_item.index_add(-1, self._second, products)
        out = torch.zeros_like(products)
        total = products.sum(-1, keepdim=True)
        out[..., : log_p.shape[-1] - 1] = (of_item - 2 * log_p.exp() * total)[..., 1:]
        return self._rows_of(out)
