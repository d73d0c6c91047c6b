r"""Laplace's approximation of the posterior of weights under Plackett and Luce.

Utilities are :math:`f = X \theta` with :math:`\theta \sim N(0, I / \eta)`. With the
choice probabilities ``p`` of a set and their mean features :math:`\bar x`, the log
posterior is concave with minus Hessian
:math:`\eta I + \sum_l \sum_{j \in l} p_j (x_j - \bar x_l)(x_j - \bar x_l)'`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from botorch_pref.inference.derivatives.evidence_surrogate import with_gradient_of
from botorch_pref.inference.weight_space.weight_posterior import (
    WeightPosterior,
    precision_cholesky,
)
from botorch_pref.likelihoods.factors.stage_items import (
    StageItems,
    in_some_element,
    stage_items,
)

_MAX_ITERATIONS = 100
_MAX_HALVINGS = 40
_ARMIJO = 1e-4


class _Model(NamedTuple):
    """Features of the items of all sets, which sets, and the prior's precision.

    Attributes:
        features: ``batch_shape x M x d``.
        items: Of the sets.
        precision: Of the prior.
        counts: How often the set of each item was chosen from so, ``batch_shape x M``.
    """

    features: Tensor
    items: StageItems
    precision: Tensor
    counts: Tensor

    @property
    def chosen(self) -> Tensor:
        """Mask of the items that were chosen, ``batch_shape x M``."""
        return (self.items.place == 0) & self.items.present

    def log_probabilities(self, theta: Tensor) -> Tensor:
        """Log probability of every item in its set, ``batch_shape x M``."""
        items = self.items
        f = (self.features @ theta.unsqueeze(-1)).squeeze(-1)
        f = torch.where(items.present, f, -torch.inf)
        # A set that an element of the batch lacks has no largest item.
        largest = items.largest(f).nan_to_num(neginf=0.0)
        f = f - items.spread(largest)
        total = items.total(f.exp())
        return f - items.spread(torch.where(total > 0, total, 1.0).log())

    def objective(self, theta: Tensor) -> Tensor:
        """The log posterior up to a constant, ``batch_shape``."""
        return self._log_likelihood(self.log_probabilities(theta)) - 0.5 * (
            self.precision * theta.square().sum(-1)
        )

    def _log_likelihood(self, log_p: Tensor) -> Tensor:
        return (self.counts * torch.where(self.chosen, log_p, 0.0)).sum(-1)

    def around_mean(self, p: Tensor) -> Tensor:
        """``x_j - mean of its set``, ``batch_shape x M x d``."""
        weighted = (p.unsqueeze(-1) * self.features).mT
        return self.features - self.items.spread(self.items.total(weighted)).mT


class _Point(NamedTuple):
    """The log posterior at some weights, to second order.

    ``p`` are the probabilities of items, as often as their sets count.
    """

    p: Tensor
    around: Tensor
    gradient: Tensor
    cholesky: Tensor


def _look(model: _Model, theta: Tensor) -> _Point:
    p = model.log_probabilities(theta).exp()
    around = model.around_mean(p)
    p = model.counts * p
    pull = (around * (model.counts * model.chosen).unsqueeze(-1)).sum(-2)
    eta = model.precision.unsqueeze(-1)
    hessian = around.mT @ (p.unsqueeze(-1) * around)
    hessian = hessian + torch.diag_embed(eta.expand_as(theta))
    return _Point(p, around, pull - eta * theta, precision_cholesky(hessian))


def _find_mode(model: _Model, tolerance: float) -> tuple[Tensor, _Point, Tensor, int]:
    """Newton's method with an Armijo line search, for each element of the batch."""
    batch = torch.broadcast_shapes(
        model.precision.shape, model.features.shape[:-2], model.items.present.shape[:-1]
    )
    theta = model.features.new_zeros(*batch, model.features.shape[-1])
    before, iterations = torch.full_like(theta[..., 0], torch.inf), 0
    while True:
        point = _look(model, theta)
        step = torch.cholesky_solve(point.gradient.unsqueeze(-1), point.cholesky)
        step = step.squeeze(-1)
        slope = (point.gradient * step).sum(-1)
        residual = slope.clamp_min(0.0).sqrt()
        # The evidence is not stationary in the mode: one step more squares its error.
        near = (residual <= tolerance**1.5) | (before <= tolerance)
        near = near & (residual <= tolerance)
        if iterations == _MAX_ITERATIONS or bool(near.all()):
            return theta, point, residual, iterations
        theta = _line_search(model, theta, step, slope)
        before = residual
        iterations += 1


def _line_search(model: _Model, theta: Tensor, step: Tensor, slope: Tensor) -> Tensor:
    start = model.objective(theta)
    slack = 10 * torch.finfo(start.dtype).eps * (1 + start.abs())
    size = torch.ones_like(start)
    for _ in range(_MAX_HALVINGS):
        gain = model.objective(theta + size.unsqueeze(-1) * step) - start
        enough = gain >= _ARMIJO * size * slope - slack
        if bool(enough.all()):
            break
        size = torch.where(enough, size, 0.5 * size)
    return theta + size.unsqueeze(-1) * step


def laplace_weights(
    features: Tensor,
    stages: Tensor,
    precision: Tensor,
    counts: Tensor | None = None,
) -> WeightPosterior:
    r"""The Laplace posterior of weights given choices, and its evidence.

    The mean is the mode (MAP). An iteration costs ``O(d^3 + M d^2)`` for sets of ``M``
    items in all.

    With the mode :math:`\hat\theta`, the covariance S there and
    :math:`v = d \hat\theta / d \eta = -S \hat\theta`, the evidence has the derivative

    .. math::
        \frac{d \log Z}{d \eta} = \tfrac12 \Big[ \frac{d}{\eta} - \mathrm{tr}\, S
        - |\hat\theta|^2 - \sum_l \sum_{j \in l} p_j \, (x_j - \bar x_l)' v \,
        (x_j - \bar x_l)' S (x_j - \bar x_l) \Big],

    the last term from the motion of the curvature with the mode.

    Args:
        features: ``X``, ``batch_shape x n x d``.
        stages: ``batch_shape x L x k`` long, the chosen point first, padded with -1.
        precision: :math:`\eta`, positive, ``batch_shape``.
        counts: How often each set was chosen from so, ``batch_shape x L``; None for
            once.
    """
    eta, d = precision.detach(), features.shape[-1]
    tolerance = math.sqrt(torch.finfo(features.dtype).eps)
    with torch.no_grad():
        items = stage_items(stages)
        # A shift of all features changes no probability, but costs digits.
        centred = features - features.mean(-2, keepdim=True)
        often = torch.ones_like(features[..., :1, 0])
        if counts is not None:
            kept = in_some_element(stages >= 0, 2).any(-1)
            often = items.spread(counts[..., kept].to(features))
        model = _Model(_of_items(centred, items), items, eta, often)
        mean, point, residual, iterations = _find_mode(model, tolerance)
        covariance = torch.cholesky_inverse(point.cholesky)
        diagonal = point.cholesky.diagonal(dim1=-2, dim2=-1)
        log_det = (2 * diagonal.log() - eta.log().unsqueeze(-1)).sum(-1)
        value = model.objective(mean) - 0.5 * log_det

    def surrogate() -> Tensor:
        moved = -(covariance @ mean.unsqueeze(-1))
        half = torch.linalg.solve_triangular(
            point.cholesky, point.around.mT, upper=False
        )
        spread = half.square().sum(-2)
        turned = point.p * (point.around @ moved).squeeze(-1) * spread
        trace = covariance.diagonal(dim1=-2, dim2=-1).sum(-1)
        slope = d / eta - trace - mean.square().sum(-1) - turned.sum(-1)
        return 0.5 * slope * precision

    return WeightPosterior(
        mean=mean,
        covariance=covariance,
        log_evidence=with_gradient_of(value, surrogate),
        converged=bool((residual <= tolerance).all()),
        iterations=iterations,
        residual=float(residual.max()),
    )


def _of_items(features: Tensor, items: StageItems) -> Tensor:
    """Rows of the features by item, ``batch_shape x M x d``."""
    batch = torch.broadcast_shapes(features.shape[:-2], items.points.shape[:-1])
    index = items.points.unsqueeze(-1).expand(*batch, -1, features.shape[-1])
    return features.expand(*batch, *features.shape[-2:]).gather(-2, index)
