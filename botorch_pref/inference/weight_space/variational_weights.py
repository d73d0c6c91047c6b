r"""The variational posterior of weights (Guo et al. 2020, algorithm 1).

Utilities are :math:`f = X \theta` with :math:`\theta \sim N(0, I / \eta)`. The bound
and its ascent are those of :mod:`.bound_ascent`; only the
Gaussian is conditioned in the space of the ``d`` weights.
"""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from botorch_pref.inference.derivatives.evidence_surrogate import with_gradient_of
from botorch_pref.inference.variational.bound_ascent import first_parameters, last_step
from botorch_pref.inference.variational.variational_bounds import stage_bound
from botorch_pref.inference.weight_space.weight_posterior import (
    WeightPosterior,
    precision_cholesky,
)
from botorch_pref.linalg.sparse_design import SparseDesign

_ROUNDING = 16.0


class _RowFeatures:
    """Features of the rows; of rows that repeat, once, where there are no batches."""

    def __init__(self, features: Tensor, rows: SparseDesign) -> None:
        self._count, self._place = rows.num_rows, None
        if rows.indices.dim() == 2:
            kinds = torch.cat([rows.indices.to(features), rows.coefficients], dim=-1)
            kinds, self._place = torch.unique(kinds, dim=0, return_inverse=True)
            width = rows.indices.shape[-1]
            index, coefficients = kinds[:, :width].long(), kinds[:, width:]
            rows = SparseDesign(index, coefficients, rows.num_points)
        self.matrix = rows.apply_matrix(features)

    def total(self, values: Tensor) -> Tensor:
        """Sums over rows that repeat."""
        if self._place is None:
            return values
        out = values.new_zeros(*values.shape[:-1], self.matrix.shape[-2])
        return out.index_add_(-1, self._place, values)

    def spread(self, values: Tensor) -> Tensor:
        """The value of each row from that of its kind."""
        return values if self._place is None else values[..., self._place]


class WeightFactor:
    """Weights given sites: one Cholesky of ``d x d``, reused.

    Args:
        features: Of the rows.
        precision: ``eta``, ``batch_shape``.
        tau: Site precisions, ``batch_shape x m``.
    """

    def __init__(self, features: _RowFeatures, precision: Tensor, tau: Tensor) -> None:
        self._features, self._precision = features, precision
        b = features.matrix
        gram = b.mT @ (features.total(tau).unsqueeze(-1) * b)
        eta = precision.unsqueeze(-1).expand(*precision.shape, b.shape[-1])
        self._cholesky = precision_cholesky(gram + torch.diag_embed(eta))
        diagonal = self._cholesky.diagonal(dim1=-2, dim2=-1)
        self.log_det = (2 * diagonal.log() - precision.log().unsqueeze(-1)).sum(-1)

    def weights(self, nu: Tensor) -> Tensor:
        """The posterior mean of the weights, ``batch_shape x d``."""
        pull = self._features.matrix.mT @ self._features.total(nu).unsqueeze(-1)
        return torch.cholesky_solve(pull, self._cholesky).squeeze(-1)

    def covariance(self) -> Tensor:
        """The posterior covariance of the weights, ``batch_shape x d x d``."""
        return torch.cholesky_inverse(self._cholesky)

    def mean(self, nu: Tensor) -> Tensor:
        """See :class:`botorch_pref.inference.variational.bound_ascent.Conditioned`."""
        return self.settle(nu)[0]

    def settle(self, nu: Tensor) -> tuple[Tensor, Tensor]:
        """See :class:`botorch_pref.inference.variational.bound_ascent.Conditioned`."""
        weights = self.weights(nu)
        mean = self._features.matrix @ weights.unsqueeze(-1)
        energy = self._precision * weights.square().sum(-1)
        return self._features.spread(mean.squeeze(-1)), energy

    def variance(self) -> Tensor:
        """See :class:`botorch_pref.inference.variational.bound_ascent.Conditioned`."""
        half = torch.linalg.solve_triangular(
            self._cholesky, self._features.matrix.mT, upper=False
        )
        return self._features.spread(half.square().sum(-2))


class _WeightSolver:
    """The prior of rows of ``X theta``."""

    def __init__(self, features: Tensor, rows: SparseDesign, precision: Tensor) -> None:
        self._features, self._precision = _RowFeatures(features, rows), precision
        # Steps do not depend on where all features are shifted, their digits do.
        self._points = features - features.mean(-2, keepdim=True)
        self._centred = _RowFeatures(self._points, rows)

    @cached_property
    def variance(self) -> Tensor:
        squares = self._features.matrix.square().sum(-1)
        return self._features.spread(squares / self._precision.unsqueeze(-1))

    @cached_property
    def rounding(self) -> Tensor:
        return _ROUNDING * torch.finfo(self.variance.dtype).eps * self.variance

    def factor(self, tau: Tensor) -> WeightFactor:
        return WeightFactor(self._features, self._precision, tau)

    def newton_step(
        self, curvature: Tensor, groups: SparseDesign | None, force: Tensor
    ) -> Tensor:
        b = self._features
        if groups is None:
            return self.factor(curvature).mean(force)
        c, v = self._centred, groups.apply_matrix(self._points)
        gram = c.matrix.mT @ (c.total(curvature).unsqueeze(-1) * c.matrix) - v.mT @ v
        eta = self._precision.unsqueeze(-1).expand(gram.shape[:-1])
        pull = b.matrix.mT @ b.total(force).unsqueeze(-1)
        moved = torch.linalg.solve(gram + torch.diag_embed(eta), pull)
        return b.spread((b.matrix @ moved).squeeze(-1))


def variational_weights(
    features: Tensor,
    stages: Tensor,
    precision: Tensor,
    counts: Tensor | None = None,
) -> WeightPosterior:
    r"""The variational posterior of weights given choices, and its lower bound.

    An iteration costs ``O(d^3 + r d^2)`` for ``r`` different rows: pairs, and the items
    of larger sets.

    Args:
        features: ``X``, ``batch_shape x n x d``.
        stages: ``batch_shape x L x k`` long, the chosen point first, padded with -1.
        precision: :math:`\eta`, positive, ``batch_shape``.
        counts: How often each set was chosen from so, ``batch_shape x L``; None for
            once.
    """
    with torch.no_grad():
        eta = precision.detach()
        often = None if counts is None else counts.to(features)
        bound = stage_bound(stages, features.shape[-2], features, often)
        solver = _WeightSolver(features, bound.rows, eta)
        prior = torch.zeros_like(solver.variance)
        step, iterations, converged = last_step(
            solver, prior, bound, first_parameters(bound, prior, solver.variance)
        )
        mean, covariance = step.factor.weights(step.nu), step.factor.covariance()

    def surrogate() -> Tensor:
        # At the maximum only the prior's own dependence on eta is left.
        d = features.shape[-1]
        trace = covariance.diagonal(dim1=-2, dim2=-1).sum(-1)
        slope = 0.5 * (d / eta - trace - mean.square().sum(-1))
        return slope * precision

    return WeightPosterior(
        mean=mean,
        covariance=covariance,
        log_evidence=with_gradient_of(step.value, surrogate),
        converged=converged,
        iterations=iterations,
        residual=float(step.residual.max()),
    )
