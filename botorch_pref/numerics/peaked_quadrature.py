r"""Integrals of a function with one peak times a Gaussian, on a line, in log space.

.. math:: \log \int e^{g(t)} N(t; \mu, s) dt

for a smooth ``g`` that rises to one peak and falls beyond it but need not be concave.
The product may be much narrower than either factor, lie far from both peaks, or have
two bumps. All rows of a batch are integrated side by side.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from botorch_pref.errors import PrecisionError

# What the integrand may be below its maximum where it is left out: e^-36 = 2e-16.
_DROP = 36.0
# An interval a little too long costs a panel that is then left out: 4^7 parts.
_QUARTERINGS = 7
_METRIC_POINTS = 97
# The peak of g and its bends lie here, in its natural unit.
_METRIC_REACH = 10.0
# Sixteen nodes over three deviations: at four the first digits above rounding go.
_PANEL_LENGTH = 3.0
_ORDER = 16
# Enough for a precision of 1e5 without zooming in.
_MAX_PANELS = 400
_MAX_ZOOMS = 8
Elementwise = Callable[[Tensor], Tensor]


class TiltedMoments(NamedTuple):
    r"""The moments of a Gaussian :math:`N(\mu, s)` times a function.

    Attributes:
        value: The log integral.
        first: Its first derivative in :math:`\mu`.
        second: Its second derivative.
        ratio: The variance of the product over ``s``: one plus ``s`` times the second
            derivative, to its own digits however narrow the product is.
    """

    value: Tensor
    first: Tensor
    second: Tensor
    ratio: Tensor


@cache
def gauss_legendre() -> tuple[Tensor, Tensor]:
    """Sixteen nodes and weights on [-1, 1] (Golub and Welsch 1969), ``float64``."""
    k = torch.arange(1, _ORDER, dtype=torch.float64)
    beside = k / (4 * k.square() - 1).sqrt()
    nodes, vectors = torch.linalg.eigh(beside.diag(1) + beside.diag(-1))
    return nodes, 2 * vectors[0].square()


def _bracket(
    function: Elementwise, mean: Tensor, variance: Tensor, peak: Tensor
) -> tuple[Tensor, Tensor]:
    """An interval outside which the integrand is negligible.

    Each of the two factors alone bounds the product, so that it is negligible outside
    the level set of either: an interval around the Gaussian's mean, in closed form, and
    one around the peak of ``g``, by repeated quartering.
    """
    highest = function(peak)
    reached = highest - 0.5 * (peak - mean).square() / variance
    level = torch.maximum(function(mean), reached) - _DROP
    radius = (2 * variance * (highest - level)).sqrt()
    ends = torch.stack([mean - radius, mean + radius])
    outside = torch.stack([ends[0].minimum(peak), ends[1].maximum(peak)])
    far, inside = outside, peak.expand_as(outside)
    share = torch.linspace(0, 1, 5, dtype=mean.dtype, device=mean.device)
    share = share.view(-1, *([1] * outside.dim()))
    for _ in range(_QUARTERINGS):
        parts = inside + share * (outside - inside)
        above = (function(parts[1:-1]) >= level).long().cumprod(0).sum(0, keepdim=True)
        inside, outside = (parts.gather(0, above + k).squeeze(0) for k in (0, 1))
    edge = torch.where(function(far) >= level, far, outside)
    return ends[0].maximum(edge[0]), ends[1].minimum(edge[1])


def _breakpoints(
    stiffness: Elementwise, variance: Tensor, low: Tensor, high: Tensor
) -> tuple[Tensor, Tensor]:
    r"""Panels of equal length in the metric :math:`\sqrt{1 / s + \text{stiffness}}`.

    In it the integrand has no bump narrower than about 1.

    Returns:
        Ends of panels, ``(count + 1) x shape``, and whether those of a row are as short
        as they must be, ``shape``.
    """
    unit = torch.linspace(0, 1, _METRIC_POINTS, dtype=low.dtype, device=low.device)
    unit = unit.view(-1, *([1] * low.dim()))
    even = low + (high - low) * unit
    natural = _METRIC_REACH * (2 * unit - 1)
    natural = natural.expand_as(even).maximum(low).minimum(high)
    grid = torch.cat([even, natural]).sort(dim=0).values
    density = (variance.reciprocal() + stiffness(grid)).sqrt()
    pieces = 0.5 * (density[1:] + density[:-1]) * grid.diff(dim=0)
    length = torch.cat([torch.zeros_like(low).unsqueeze(0), pieces.cumsum(0)])
    total = length[-1]
    if not bool(total.isfinite().all()):
        raise PrecisionError(
            "The integral of an answer's density over a utility is not a number: the "
            "mean, the variance or a parameter of the likelihood is not finite, or "
            "larger than can be squared. Use a smaller output scale or precision."
        )
    panel = (total / _MAX_PANELS).clamp_min(_PANEL_LENGTH)
    count = math.ceil(float((total / panel).max()))
    steps = torch.arange(count + 1, dtype=low.dtype, device=low.device)
    # Rows that need fewer panels have empty ones at their end.
    wanted = (panel.unsqueeze(-1) * steps).minimum(total.unsqueeze(-1))
    along = length.movedim(0, -1).contiguous()
    right = torch.searchsorted(along, wanted.contiguous()).clamp(1, len(grid) - 1)
    points = grid.movedim(0, -1)
    x0, x1 = points.gather(-1, right - 1), points.gather(-1, right)
    u0, u1 = along.gather(-1, right - 1), along.gather(-1, right)
    tiny = torch.finfo(low.dtype).tiny
    share = (wanted - u0) / (u1 - u0).clamp_min(tiny)
    breaks = (x0 + share.clamp(0, 1) * (x1 - x0)).movedim(-1, 0)
    return breaks, panel <= _PANEL_LENGTH


def _around_maximum(
    breaks: Tensor, height: Tensor, keep: Tensor
) -> tuple[Tensor, Tensor]:
    """Rest of an interval that is too long: panels next to high ends.

    So long an interval is one where the mean lies thousands of deviations from the
    peak. The product has one bump there, in a panel next to the highest end.
    """
    high_end = height >= height.amax(0) - _DROP
    index = torch.arange(len(breaks), device=breaks.device)
    index = index.view(-1, *([1] * (breaks.dim() - 1))).expand_as(breaks)
    last = len(breaks) - 1
    first = index.masked_fill(~high_end, last).amin(0) - 1
    final = index.masked_fill(~high_end, 0).amax(0) + 1
    first, final = first.clamp_min(0), final.clamp_max(last)
    first, final = first.masked_fill(keep, 0), final.masked_fill(keep, last)
    low = breaks.gather(0, first.unsqueeze(0)).squeeze(0)
    high = breaks.gather(0, final.unsqueeze(0)).squeeze(0)
    return low, high


@torch.no_grad()
def _nodes(
    function: Elementwise,
    stiffness: Elementwise,
    mean: Tensor,
    variance: Tensor,
    peak: Tensor,
) -> tuple[Tensor, Tensor]:
    """Nodes and log weights, both ``num_nodes x shape``, where the integrand is."""
    low, high = _bracket(function, mean, variance, peak)
    for _ in range(_MAX_ZOOMS):
        breaks, short = _breakpoints(stiffness, variance, low, high)
        height = function(breaks) - 0.5 * (breaks - mean).square() / variance
        if bool(short.all()):
            break
        low, high = _around_maximum(breaks, height, short)
    score = torch.maximum(height[1:], height[:-1])
    score = score.masked_fill(breaks.diff(dim=0) <= 0, -torch.inf)
    needed = (score >= score.amax(0) - _DROP).sum(0)
    chosen = score.topk(int(needed.max()), dim=0).indices
    left, right = breaks[:-1].gather(0, chosen), breaks[1:].gather(0, chosen)
    shape = (-1, *([1] * left.dim()))
    unit, weights = (column.to(mean).view(shape) for column in gauss_legendre())
    half = 0.5 * (right - left)
    nodes = (left + half * (1 + unit)).flatten(0, 1)
    return nodes, (half * weights).log().flatten(0, 1)


def peaked_integral(
    function: Elementwise,
    derivative: Elementwise,
    stiffness: Elementwise,
    mean: Tensor,
    variance: Tensor,
    peak: Tensor,
) -> TiltedMoments:
    r"""The log integral and its first two derivatives in :math:`\mu`.

    With expectations under the tilted density these are :math:`E[g']` and
    :math:`\mathrm{Cov}[g', t] / s`, which keep their digits where ``g`` is flat, or
    :math:`(E[t] - \mu) / s` and :math:`(\mathrm{Var}[t] / s - 1) / s`, which keep them
    where ``g`` is narrow.

    Gauss-Legendre quadrature on panels that are three deviations of the narrowest bump
    that can be where they are. Panels on which the integrand is below :math:`e^{-36}`
    of its maximum are left out; the rest follows one bump or two wherever they are. The
    nodes are constants of differentiation: what is differentiated is the sum.

    Args:
        function: ``t -> g``, elementwise; takes ``num_nodes x ...``.
        derivative: ``t -> g'``, likewise.
        stiffness: ``t -> c``, elementwise, about an upper bound of :math:`-g''` and of
            the inverse square of the scale on which ``g`` bends.
        mean: ``mu``, any shape.
        variance: ``s``, positive, like ``mean``.
        peak: Where ``g`` is largest, like ``mean``.

    Returns:
        The moments, like ``mean``.

    Raises:
        PrecisionError: Arguments that are not finite, or too large to be squared.
    """
    nodes, log_weights = _nodes(function, stiffness, mean, variance, peak)
    value, slope = function(nodes), derivative(nodes)
    offset = nodes - mean
    log_integrand = value - 0.5 * offset.square() / variance + log_weights
    log_integrand = log_integrand - 0.5 * (2 * math.pi * variance).log()
    return tilted_derivatives(log_integrand, slope, offset, variance)


def tilted_derivatives(
    log_terms: Tensor, slope: Tensor, offset: Tensor, variance: Tensor
) -> TiltedMoments:
    r"""A log integral and its first two derivatives in :math:`\mu`, from its terms.

    Args:
        log_terms: Logarithms of what is summed over, ``num_nodes x shape``.
        slope: :math:`g'` at the nodes, likewise.
        offset: :math:`t - \mu` of the nodes, likewise.
        variance: ``s``, positive, ``shape``.

    Returns:
        The moments, of ``shape``; see :func:`peaked_integral`.
    """
    log_sum = torch.logsumexp(log_terms, dim=0)
    weights = (log_terms - log_sum).exp()
    first, shift = (weights * slope).sum(0), (weights * offset).sum(0)
    centred = weights * (offset - shift)
    second = (centred * (slope - first)).sum(0) / variance
    ratio = (centred * (offset - shift)).sum(0) / variance
    narrow = ratio < 0.5
    first = torch.where(narrow, shift / variance, first)
    second = torch.where(narrow, (ratio - 1) / variance, second)
    return TiltedMoments(log_sum, first, second, ratio)
