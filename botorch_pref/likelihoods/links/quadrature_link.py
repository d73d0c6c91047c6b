"""The link of any win probability, by quadrature."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from botorch_pref.likelihoods.links.duel_link import DuelLink
from botorch_pref.numerics.bend_quadrature import bend_nodes, bend_width
from botorch_pref.numerics.mixtures.gaussian_mixture import standard_deviation


class QuadratureLink(DuelLink):
    r"""A link :math:`g(u)` that is known by its values.

    Expectations are sums over the nodes of
    :mod:`~botorch_pref.numerics.bend_quadrature`, which resolve the Gaussian and the
    link however much wider one is than the other. For a link that rises once, around 0,
    and is analytic within its own width of the real line (probit, logit, noise of
    Student's t, with or without lapses) they are right within 1e-9; the logarithm of
    the win probability is, as far as the mean is within 116 deviations of 0.

    Args:
        win: :math:`g`, elementwise, of any shape; probabilities in [0, 1]. Its
            parameters are broadcast against the batch and may require gradients.
    """

    def __init__(self, win: Callable[[Tensor], Tensor]) -> None:
        self._win = win

    def log_win_probability(self, mean: Tensor, variance: Tensor) -> Tensor:
        """See base class; right within 1e-9, see above."""
        u, weights = self._nodes(mean, variance)
        # Normalised, so that no rounding makes a probability larger than one.
        logs = self._positive(u).log() + weights.log_softmax(0)
        return logs.logsumexp(0).clamp_max(0.0)

    def expected_entropy(self, mean: Tensor, variance: Tensor) -> Tensor:
        """See base class; within 1e-9 nats."""
        u, weights = self._nodes(mean, variance)
        win, loss = self._positive(u), self._positive(-u)
        entropy = -(win * win.log() + loss * loss.log())
        return (weights.softmax(0) * entropy).sum(0)

    def win_slope(self, mean: Tensor, variance: Tensor) -> Tensor:
        """See base class; of the automatic derivative of the link."""
        keep = torch.is_grad_enabled() and self._win(mean).requires_grad
        with torch.enable_grad():
            u, weights = self._nodes(mean, variance)
            u = u if u.requires_grad else u.requires_grad_()
            (slope,) = torch.autograd.grad(self._win(u).sum(), u, create_graph=keep)
        return (weights.softmax(0) * slope).sum(0)

    def win_variance(self, mean: Tensor, variance: Tensor) -> Tensor:
        """See base class; of differences from the link at the mean."""
        u, weights = self._nodes(mean, variance)
        change, weights = self._win(u) - self._win(mean), weights.softmax(0)
        square = (weights * change.square()).sum(0)
        return (square - (weights * change).sum(0).square()).clamp_min(0.0)

    def _positive(self, u: Tensor) -> Tensor:
        return self._win(u).clamp_min(torch.finfo(u.dtype).tiny)

    def _nodes(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """Nodes that move with mean and deviation, and constant log weights."""
        mean, variance = torch.broadcast_tensors(mean, variance)
        width = self._width(mean)
        shape = torch.broadcast_shapes(mean.shape, width.shape)
        mean, variance, width = (v.expand(shape) for v in (mean, variance, width))
        nodes, weights = bend_nodes(
            mean.detach(), variance.detach(), torch.zeros_like(width), width
        )
        return mean + standard_deviation(variance) * nodes, weights

    def _width(self, mean: Tensor) -> Tensor:
        """Difference at which the link has done half of its rise from 0."""
        zero = mean.new_zeros((1,) * mean.dim())

        def changed(u: Tensor) -> Tensor:
            start, end = self._win(zero), self._win(u[-1])
            return self._win(u) - start >= 0.5 * (end - start)

        return bend_width(changed, zero, zero)
