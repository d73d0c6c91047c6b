r"""Moments of a Gaussian times powers of the normal distribution function.

.. math:: \int \Phi(t)^a \, \Phi(-t)^b \, N(t; \mu, s) dt, \qquad
    \frac{1}{s} + \frac{2}{\pi} (a + b) \le 8.7,

as of a duel that was answered a few times: the left side is the curvature at 0. The
powers change between -8.5 and 8.5 alone, where their values at Gauss-Legendre nodes are
known once for all, and are 0 or 1 beyond, to rounding: there the moments are those of a
truncated Gaussian. Narrower products are for :mod:`~botorch_pref.numerics.quadrature`,
which searches for its nodes.
"""

from __future__ import annotations

import math

import torch
from botorch.utils.probability.utils import leggauss
from torch import Tensor

from botorch_pref.numerics.normal import hazard, log_ndtr
from botorch_pref.numerics.quadrature import TiltedMoments

_END, _PANELS = 8.5, 8
_UNIT, _WEIGHTS = leggauss(16, dtype=torch.float64)
_MOST_CURVATURE = 8.7
# More answers than these bend more than that, whatever the Gaussian.
_MOST_ANSWERS = 14
# Integrals that are taken together: the nodes of more do not fit into a cache.
_AT_ONCE = 2**12
# The peak of the product, which lies at most so far out, is 6 of its deviations inside.
_FARTHEST_PEAK = 2.5


def _nodes() -> tuple[Tensor, Tensor]:
    """Places nodes of Gauss and Legendre between -8.5 and 8.5, with their log weights.

    They are on eight panels of equal length. Beyond, the powers of the normal
    distribution function are 0 or 1 to rounding.
    """
    half = _END / _PANELS
    centres = torch.arange(1 - _PANELS, _PANELS, 2).double() * half
    nodes = (centres.unsqueeze(-1) + half * _UNIT).flatten()
    return nodes, (half * _WEIGHTS).log().repeat(_PANELS)


class NormalPowers:
    r"""The powers :math:`\Phi(t)^a \, \Phi(-t)^b` of some rows.

    Args:
        wins: :math:`a`, ``m`` numbers, at least 0.
        losses: :math:`b`.
    """

    def __init__(self, wins: Tensor, losses: Tensor) -> None:
        """Computes the logs of the powers at all nodes, with the weights in them."""
        self.wins, self.losses = wins.double(), losses.double()
        nodes, log_weights = (column.to(wins.device) for column in _nodes())
        self._nodes = nodes.unsqueeze(-1)
        # Rows may be many: those of the same powers share a column.
        won, lost = (n.clamp_max(_MOST_ANSWERS) for n in (self.wins, self.losses))
        base = _MOST_ANSWERS + 1
        key, self._which = (won + base * lost).unique(return_inverse=True)
        won, lost = key % base, key // base
        powers = won * log_ndtr(self._nodes) + lost * log_ndtr(-self._nodes)
        self._logs = powers + log_weights.unsqueeze(-1)
        # The side towards which powers go to 1, of rows with wins or losses alone.
        self._side = torch.where(self.wins > 0, 1.0, -1.0)
        self._one_sided = (self.wins == 0) | (self.losses == 0)

    @torch.no_grad()
    def covers(self, mean: Tensor, variance: Tensor) -> Tensor:
        """Tells for which Gaussians, ``... x m``, of all rows the nodes are right.

        With others the product may be too narrow for the nodes, or have its peak more
        than 2.5 from 0.
        """
        # Powers that pull the product from the mean towards 0.
        against = torch.where(mean < 0, self.wins, self.losses)
        near = mean.abs() <= _FARTHEST_PEAK * (1 + against * variance)
        bend = variance.reciprocal() + 2 / math.pi * (self.wins + self.losses)
        wide = (bend <= _MOST_CURVATURE) & (mean + variance).isfinite()
        return wide & (near | (against == 0))

    def moments(self, mean: Tensor, variance: Tensor, rows: Tensor) -> TiltedMoments:
        """Computes the moments under Gaussians that are covered, to about 1e-11.

        Args:
            mean: ``... x k``, of some rows.
            variance: The same.
            rows: Which rows these are, ``k``.
        """
        size = max(1, _AT_ONCE * len(rows) // max(1, mean.numel()))
        chunks = (column.double().split(size, -1) for column in (mean, variance))
        parts = map(self._moments, *chunks, rows.split(size))
        columns = zip(*parts, strict=True)
        return TiltedMoments(*(torch.cat(part, -1).to(mean.dtype) for part in columns))

    def _moments(self, mean: Tensor, variance: Tensor, rows: Tensor) -> TiltedMoments:
        """Sums over the nodes, with the Gaussian beyond them where the powers are 1.

        The product is a mixture of the part ``within`` the nodes and a truncated
        Gaussian ``beyond``, whose moments are joined by their ``share``.
        """
        deviation = variance.sqrt()
        nodes = self._nodes.view(-1, *[1] * mean.dim())
        logs = self._logs[:, self._which[rows]]
        logs = logs.view(len(logs), *[1] * (mean.dim() - 1), -1)
        logs = logs - 0.5 * ((nodes - mean) / deviation).square()
        logs = logs - (deviation * math.sqrt(2 * math.pi)).log()
        side = self._side[rows]
        # The rest of the Gaussian begins so many deviations beyond its mean.
        start = (_END - side * mean) / deviation
        log_tail = torch.where(self._one_sided[rows], log_ndtr(-start), -torch.inf)
        top = torch.maximum(logs.detach().amax(0), log_tail.detach())
        weights, beyond = (logs - top).exp(), (log_tail - top).exp()
        # Of a Gaussian that is beyond all nodes the weights are zeros.
        within = weights.sum(0).clamp_min(torch.finfo(torch.double).tiny)
        total = within + beyond
        centre = (weights * nodes).sum(0) / within
        spread = (weights * (nodes - centre).square()).sum(0) / within / variance
        share, shift = within / total, (centre - mean) / deviation
        # Of a rest far out, where this has no digits, the share is zero.
        rate = hazard(-start)
        far, far_spread = side * rate, 1 - rate * (rate - start)
        first = share * shift + (1 - share) * far
        ratio = share * spread + (1 - share) * far_spread
        ratio = ratio + share * (1 - share) * (shift - far).square()
        value, second = top + total.log(), (ratio - 1) / variance
        return TiltedMoments(value, first / deviation, second, ratio)
