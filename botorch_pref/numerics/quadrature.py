r"""Integrals of a log-concave function times a Gaussian, on a line.

.. math:: \log \int e^{g(z)} N(z; \mu, s) dz, \qquad g'' \le 0,

and its derivatives in :math:`\mu`, for all rows of a batch side by side. The nodes are
constants, and the sum over them is differentiated. Other functions are integrated by
:mod:`~botorch_pref.numerics.bend_quadrature`.

The product has one peak but need not look like a Gaussian: the power of a win
probability is a cliff, which may be ten thousand times narrower than the Gaussian.
Three rules share the integrals; each takes those that the one before it missed:

1. of few integrals, whose time goes into calls and not into nodes, the trapezoidal rule
   over the whole Gaussian; of many, Gauss-Hermite quadrature about the product's
   approximate peak, where ``g`` bends little over the width of the Gaussian;
2. the trapezoidal rule in even steps from one end of the product to the other;
3. Gauss-Legendre quadrature on panels that are short where the slope changes.

Integration by parts tells which integrals a rule missed. With expectations under the
product and :math:`u = g' - (z - \mu) / s`, :math:`E[u] = 0` and :math:`E[(z - E[z]) u]
= -1`: the sums over the nodes miss both by about the relative error of the integral and
of its moments.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import torch
from botorch.utils.probability.utils import leggauss
from scipy.special import roots_hermitenorm
from torch import Tensor

from botorch_pref.errors import PrecisionError

LogConcave = Callable[[Tensor], tuple[Tensor, Tensor, Tensor]]
"""``z -> (g, g', g'')``, elementwise; takes ``num_nodes x shape``."""
F = TypeVar("F")
OfRows = Callable[[Tensor | None], LogConcave]
"""The function of rows at some places of the last dimension; of all rows for None."""

# The integrand is left out where it is e^-36 = 2e-16 of its maximum.
_DROP = 36.0
# Sixteen nodes over three deviations: at four the first digits above rounding go.
_PANEL_LENGTH = 3.0
_LEGENDRE = leggauss(16, dtype=torch.float64)


class LogDerivatives(NamedTuple):
    """A log function of ``z`` and its derivatives, each ``batch_shape x m``.

    Factors that couple rows give any values that have the right sum over rows, any
    gradient that has the right ``A' first``, and any curvature that has the right
    ``A' diag(second) A``.
    """

    value: Tensor
    first: Tensor
    second: Tensor


class TiltedMoments(NamedTuple):
    r"""The moments of a Gaussian :math:`N(\mu, s)` times a function.

    The log integral, two derivatives in :math:`\mu`, and the ``ratio`` of the product's
    variance to ``s``: one plus ``s`` times the second, to its own digits.
    """

    value: Tensor
    first: Tensor
    second: Tensor
    ratio: Tensor


Integral = Callable[[Tensor, Tensor], TiltedMoments]
"""Gives the moments of functions by means and variances of Gaussians, ``... x m``."""

Rule = Callable[[OfRows, Tensor, Tensor, Tensor | None], TiltedMoments]
"""Gives the moments of functions by their means and variances, ``... x m``; where they
are some of other rows, also their places among these."""


def tilted_moments(
    logs: Tensor, slope: Tensor, offset: Tensor, variance: Tensor
) -> tuple[TiltedMoments, Tensor]:
    r"""Computes moments from the logarithms of the terms of a sum over nodes.

    The derivatives are :math:`E[g']` and :math:`\mathrm{Cov}[g', z] / s`, which keep
    their digits where ``g`` is flat, or :math:`(E[z] - \mu) / s` and
    :math:`(\mathrm{Var}[z] / s - 1) / s`, where :math:`\mathrm{Var}[z] < s / 2`. The
    second result is by how much both forms differ: in deviations of the product and
    relative to its variance. At the nodes, ``slope`` is :math:`g'` and ``offset``
    :math:`z - \mu`.
    """
    top = logs.detach().amax(0)
    weights = (logs - top).exp()
    total = weights.sum(0)
    weights = weights / total
    first, shift = (weights * slope).sum(0), (weights * offset).sum(0)
    away = offset - shift
    centred = weights * away
    covariance = (centred * (slope - first)).sum(0)
    ratio = (centred * away).sum(0) / variance
    by_shift = shift / variance
    with torch.no_grad():
        errors = (first - by_shift).abs() * (ratio * variance).sqrt()
        errors = errors.maximum((covariance - ratio + 1).abs())
    narrow = ratio < 0.5
    first = torch.where(narrow, by_shift, first)
    second = torch.where(narrow, ratio - 1, covariance) / variance
    return TiltedMoments(top + total.log(), first, second, ratio), errors


def _on_panels(starts: Tensor, ends: Tensor) -> tuple[Tensor, Tensor]:
    """Places nodes of Gauss and Legendre on panels, with the logs of their weights.

    Panels are ``num_panels x shape``. Of sixteen nodes each, the first of all panels
    come first, then the second ones, ``num_nodes x shape``.
    """
    shape = (-1, *[1] * starts.dim())
    unit, weights = (column.to(starts).view(shape) for column in _LEGENDRE)
    half = 0.5 * (ends - starts)
    nodes = (starts + half * (1 + unit)).flatten(0, 1)
    # Of an empty panel the smallest weight is as good as none.
    weights = (half * weights).clamp_min(torch.finfo(starts.dtype).tiny)
    return nodes, weights.log().flatten(0, 1)


def _points_along(grid: Tensor, along: Tensor, wanted: Tensor) -> Tensor:
    """Finds where an increasing quantity on a grid, ``k x shape``, has wanted values.

    It interpolates linearly. Wanted values are ``shape x count``, the result is
    ``count x shape``.
    """
    along, points = along.movedim(0, -1).contiguous(), grid.movedim(0, -1)
    right = torch.searchsorted(along, wanted.contiguous()).clamp(1, len(grid) - 1)
    x0, x1 = points.gather(-1, right - 1), points.gather(-1, right)
    u0, u1 = along.gather(-1, right - 1), along.gather(-1, right)
    share = (wanted - u0) / (u1 - u0).clamp_min(torch.finfo(grid.dtype).tiny)
    return (x0 + share.clamp(0, 1) * (x1 - x0)).movedim(-1, 0)


# How far the sums may miss the identities, in deviations of the product and relative to
# its variance. Moments are then right within three times that.
_TOLERANCE = 3e-11
# Rounding may add that much; a sum that missed the product misses by about one.
_LEAST_DIGITS = 1e-6
# The nodes of the first rule, more of them for what fewer miss, up to which s |g''| at
# the mean it may serve, and the share of such integrals from which it is worth a try.
# The fewest are for integrals half of which have at most the last number.
_HERMITE = [[*map(torch.from_numpy, roots_hermitenorm(n))] for n in (6, 12, 24)]
_GENTLE, _MOST_ROWS, _STRAIGHT = 1.0, 0.25, 0.08
# Nodes of the first rule of few integrals, of any product that is wider than a fifth of
# the Gaussian, and how many integrals are few: beyond, the nodes cost more than calls.
_WIDE_NODES, _FEW = 192, 256
_NEWTON_STEPS, _HALVED_EVERY = 100, 6
_BRACKET_STEPS = 60
# Steps of the trapezoidal rule in widths of the peak, and how many there may be.
_STEP, _MOST_STEPS = 0.45, 96
# A panel is no longer than the way to a bend and three of its own deviations.
_GROWTH = 1.0
_GRID_POINTS, _GRID_ROUNDS = 25, 3
# Integrals that are taken together: a hundred nodes of more do not fit into a cache.
_AT_ONCE = 2**13


def log_concave_integral(
    of_rows: OfRows, mean: Tensor, variance: Tensor
) -> TiltedMoments:
    """Integrates a log-concave function times a Gaussian, to about 1e-10.

    The result has the log of the integral, and its derivatives in the mean of the
    Gaussian, for ``... x m`` means and variances. Arguments that are not finite are a
    ``PrecisionError``.
    """
    dtype, m = mean.dtype, mean.shape[-1]
    mean, variance = torch.broadcast_tensors(mean.double(), variance.double())
    rows = max(1, _AT_ONCE * m // max(1, mean.numel()))
    if rows >= m:
        moments = _integrals(of_rows, mean, variance)
    else:
        every = torch.arange(m, device=mean.device)

        def of_part(places: Tensor) -> TiltedMoments:
            part_function = at_places(of_rows, places)
            return _integrals(part_function, mean[..., places], variance[..., places])

        parts = zip(*map(of_part, every.split(rows)), strict=True)
        moments = TiltedMoments(*(torch.cat(moment, dim=-1) for moment in parts))
    value, first, second, ratio = (moment.to(dtype) for moment in moments)
    # Never positive for log-concave functions but for rounding, where g is straight.
    return TiltedMoments(value, first, second.clamp_max(0.0), ratio.clamp_max(1.0))


def at_places(
    of_rows: Callable[[Tensor | None], F], places: Tensor
) -> Callable[[Tensor | None], F]:
    """Restricts functions to the rows at some places of the last dimension.

    These rows are then counted from 0: place ``i`` of the result is ``places[i]``.
    """
    return lambda inner: of_rows(places if inner is None else places[inner])


def _integrals(of_rows: OfRows, mean: Tensor, variance: Tensor) -> TiltedMoments:
    """Computes the moments in double precision, by the rule for so many integrals."""
    rule = _wide_rule if mean.numel() <= _FEW else _hermite_rule
    return rule(of_rows, mean, variance)


def _hermite_rule(of_rows: OfRows, mean: Tensor, variance: Tensor) -> TiltedMoments:
    """Applies Gauss-Hermite quadrature, and `_even_rule` where that misses."""
    return hermite_integral(of_rows, mean, variance, _even_rule)


def hermite_integral(
    of_rows: OfRows, mean: Tensor, variance: Tensor, fallback: Rule
) -> TiltedMoments:
    """Computes moments by Gauss-Hermite quadrature about approximate peaks.

    The functions need not be log-concave. Nodes are 6, 12 and 24, each for integrals
    that fewer miss; 12 are the first where half of the functions bend too much for 6.

    Args:
        of_rows: Gives the functions.
        mean: ``... x m``, in double precision, as is the next one.
        variance: ``... x m``.
        fallback: The rule for integrals that all of these nodes miss, and for all of
            them where less than a quarter bend little enough for nodes.
    """
    function, gaussian = of_rows(None), (mean.detach(), variance.detach())
    with torch.no_grad():
        _, slope, bend = (v.squeeze(0) for v in function(gaussian[0].unsqueeze(0)))
        # How much a function bends over a Gaussian, s |g''| at its mean, and the share
        # of integrals that bend little enough for this rule to be worth a try.
        bends = bend.abs() * gaussian[1]
        gentle = float((bends <= _GENTLE).double().mean())
        curvature = gaussian[1].reciprocal() - bend.clamp_max(0.0)
        # One step of Newton's method from the mean leads near enough to the peak.
        peak, width = slope / curvature, curvature.rsqrt()
    if gentle < _MOST_ROWS:
        return fallback(of_rows, mean, variance, None)
    sets = _HERMITE if float(bends.median()) <= _STRAIGHT else _HERMITE[1:]
    return _by_node_sets(sets, peak, width, of_rows, mean, variance, fallback)


def _by_node_sets(
    sets: Sequence[Sequence[Tensor]],
    peak: Tensor,
    width: Tensor,
    of_rows: OfRows,
    mean: Tensor,
    variance: Tensor,
    fallback: Rule,
) -> TiltedMoments:
    """Sums moments over the first set of Hermite nodes, and over the next where missed.

    Args:
        sets: Nodes and weights of a unit Gaussian, the fewest first.
        peak: Peaks, as distances from the means, ``... x m``.
        width: Widths of the peaks, ``... x m``.
        of_rows: Gives the functions.
        mean: ``... x m``.
        variance: ``... x m``.
        fallback: The rule for what all sets miss.
    """
    unit, weights = (
        column.to(mean.device).view(-1, *[1] * mean.dim()) for column in sets[0]
    )
    log_weights = weights.log() + 0.5 * unit.square() + width.log()
    nodes = peak + width * unit
    moments, missed = _sums(of_rows(None), nodes, log_weights, mean, variance)

    def by_more_nodes(
        of_missed: OfRows, mean: Tensor, variance: Tensor, places: Tensor
    ) -> TiltedMoments:
        """Integrates what was missed by the next set, or by the fallback."""
        if len(sets) == 1:
            return fallback(of_missed, mean, variance, places)
        peaks = peak[..., places], width[..., places]
        return _by_node_sets(sets[1:], *peaks, of_missed, mean, variance, fallback)

    return completed(moments, missed, of_rows, mean, variance, by_more_nodes)


def _wide_rule(of_rows: OfRows, mean: Tensor, variance: Tensor) -> TiltedMoments:
    """Applies even steps over the whole Gaussian, and `_even_rule` where that misses.

    More nodes than need be, and no search for a peak: of few integrals calls cost more
    than nodes.
    """
    with torch.no_grad():
        reach = math.sqrt(2 * _DROP)
        step = 2 * reach / (_WIDE_NODES - 1)
        unit = torch.linspace(
            -reach, reach, _WIDE_NODES, dtype=mean.dtype, device=mean.device
        )
        deviation = variance.sqrt()
        # About the middle of a symmetric product the identity of the first moment holds
        # whatever was missed: nodes are a quarter of a step away from there.
        nodes = (unit + 0.25 * step).view(-1, *[1] * mean.dim()) * deviation
        log_weights = (deviation * step).log().expand_as(nodes)
    moments, missed = _sums(of_rows(None), nodes, log_weights, mean, variance)
    return completed(moments, missed, of_rows, mean, variance, _even_rule)


def _even_rule(
    of_rows: OfRows, mean: Tensor, variance: Tensor, places: Tensor | None = None
) -> TiltedMoments:
    """Applies even steps between both ends of the product, and panels where they miss.

    Integrals with too many steps are given to the panels as well.
    """
    function, gaussian = of_rows(None), (mean.detach(), variance.detach())
    with torch.no_grad():
        peak = _peak(function, *gaussian)
        ends = _bracket(function, *gaussian, peak)
        _check_finite(ends.sum(0) + peak.height)
        nodes, log_weights, short = _even_nodes(peak, ends)
    moments, missed = _sums(function, nodes, log_weights, mean, variance)

    def by_panels(
        of_missed: OfRows, mean: Tensor, variance: Tensor, places: Tensor
    ) -> TiltedMoments:
        """Integrates missed rows, at ``places`` among all, on panels: the last rule.

        Nothing checks whether panels miss any.
        """
        function, gaussian = of_missed(None), (mean.detach(), variance.detach())
        missed_peak = _Peak(*(part[..., places] for part in peak))
        panels = _panel_nodes(function, *gaussian, missed_peak, ends[..., places])
        return _sums(function, *panels, mean, variance)[0]

    return completed(moments, missed | ~short, of_rows, mean, variance, by_panels)


def _check_finite(value: Tensor) -> None:
    """Refuses an integral of which some number is not finite, as of bad parameters."""
    if not bool(value.isfinite().all()):
        raise PrecisionError(
            "The integral of an answer's probability over a utility is not a number: "
            "the mean, the variance or a parameter of the likelihood is not finite, or "
            "too large for its digits. Check the hyper-parameters, or use a smaller "
            "output scale."
        )


def completed(
    moments: TiltedMoments,
    missed: Tensor,
    of_rows: Callable[[Tensor | None], F],
    mean: Tensor,
    variance: Tensor,
    rule: Callable[
        [Callable[[Tensor | None], F], Tensor, Tensor, Tensor], TiltedMoments
    ],
) -> TiltedMoments:
    """Replaces moments by another rule's where they miss in any element of a batch.

    ``missed`` is ``... x m``, and a row, a place of the last dimension, is replaced
    whole. ``rule`` gets functions, means and variances of these rows alone, and their
    places among all.
    """
    missed = missed.reshape(-1, missed.shape[-1]).any(0)
    if not bool(missed.any()):
        return moments
    (places,) = missed.nonzero(as_tuple=True)
    of_missed = at_places(of_rows, places)
    replacement = rule(of_missed, mean[..., places], variance[..., places], places)
    parts = zip(moments, replacement, strict=True)
    return TiltedMoments(*(a.index_copy(-1, places, b) for a, b in parts))


def node_sums(
    value: Tensor,
    slope: Tensor,
    nodes: Tensor,
    log_weights: Tensor,
    mean: Tensor,
    variance: Tensor,
) -> tuple[TiltedMoments, Tensor]:
    """Sums moments over nodes, and tells how far they miss identities.

    Nodes are distances from the mean. Misses are counted beyond what rounding does to
    the nodes; see :func:`tilted_moments`.
    """
    # Nodes are constants: the Gaussian moves over them.
    offset = nodes + (mean.detach() - mean)
    logs = value - 0.5 * offset.square() / variance + log_weights
    logs = logs - 0.5 * (2 * math.pi * variance).log()
    moments, errors = tilted_moments(logs, slope, offset, variance)
    with torch.no_grad():
        # Nodes have no more digits than the mean leaves them.
        deviation = (moments.ratio * variance).sqrt()
        rounding = 4 * torch.finfo(mean.dtype).eps * mean.abs() / deviation
    return moments, errors - rounding.clamp_max(_LEAST_DIGITS)


def _sums(
    function: LogConcave,
    nodes: Tensor,
    log_weights: Tensor,
    mean: Tensor,
    variance: Tensor,
) -> tuple[TiltedMoments, Tensor]:
    """Sums moments over nodes, distances from the mean, and tells which are missed."""
    value, slope, _ = function(mean.detach() + nodes)
    moments, errors = node_sums(value, slope, nodes, log_weights, mean, variance)
    # A weighted mean of e^g is not above its maximum, but for rounding.
    value = moments.value.minimum(value.amax(0))
    return moments._replace(value=value), ~(errors <= _TOLERANCE)


class _Peak(NamedTuple):
    """The product's peak: distance from the mean, height of its logarithm, width."""

    offset: Tensor
    height: Tensor
    width: Tensor


def _peak(function: LogConcave, mean: Tensor, variance: Tensor) -> _Peak:
    r"""Finds the peak of :math:`e^{g(z)} N(z; \mu, s)`, to a fiftieth of its width.

    It takes Newton steps in a bracket, which begins at the mean and ends at a gradient
    step from there, however far that leads. Instead of a step that leaves the bracket,
    or ends at its end, the bracket is halved. So it is at each sixth step anyway, for
    steps from one side of the logistic function's bend may lead to the other and back.
    """
    slope = function(mean.unsqueeze(0))[1].squeeze(0)
    sign, far = slope.sign(), variance * slope.abs()
    min_distance = 1e-3 * variance.sqrt()
    # Distances from the mean in the direction of the slope.
    low, high = torch.zeros_like(far), 1.01 * far + min_distance
    distance = torch.zeros_like(far)
    for number in range(1, _NEWTON_STEPS + 1):
        z = mean + sign * distance
        value, first, second = (v.squeeze(0) for v in function(z.unsqueeze(0)))
        gradient = sign * first - distance / variance
        curvature = variance.reciprocal() - second
        width, step = curvature.rsqrt(), gradient / curvature
        done = step.abs() <= 0.02 * width
        if bool(done.all()):
            break
        low = torch.where(gradient >= 0, distance, low)
        high = torch.where(gradient <= 0, distance, high)
        # On a cliff the logarithm of the slope is nearer to a line than the slope.
        pull = sign * first * variance
        log_step = (pull / distance).log() / (
            distance.reciprocal() - sign * second / first
        )
        climb = torch.where((distance > 0) & (gradient > 0), log_step, step)
        new = distance + climb.nan_to_num(nan=0.0).maximum(step)
        inside = (new > low) & (new < high) & (number % _HALVED_EVERY != 0)
        new = torch.where(inside, new, _between(low, high, min_distance))
        distance = torch.where(done, distance, new)
    return _Peak(sign * distance, value - 0.5 * distance.square() / variance, width)


def _between(low: Tensor, high: Tensor, min_distance: Tensor) -> Tensor:
    """Returns the middle of a bracket of distances, in their logarithm where it can."""
    middle = (low.maximum(min_distance.minimum(0.5 * high)) * high).sqrt()
    return torch.where((middle > low) & (middle < high), middle, 0.5 * (low + high))


def _bracket(
    function: LogConcave, mean: Tensor, variance: Tensor, peak: _Peak
) -> Tensor:
    r"""Finds the two ends where the integrand is at most e^-36 of its peak.

    The result is ``2 x shape``, by Newton's method on the root of the fall, which is
    about linear in the distance both in a Gaussian and beyond a cliff. The Gaussian
    alone bounds the distance.
    """
    shape = (2, *[1] * mean.dim())
    side = torch.tensor([-1.0, 1.0], dtype=mean.dtype, device=mean.device).view(shape)
    high = (2 * _DROP * variance).sqrt().expand(2, *mean.shape).contiguous()
    low = torch.zeros_like(high)
    distance = (1.1 * math.sqrt(2 * _DROP) * peak.width).minimum(high)
    for _ in range(_BRACKET_STEPS):
        offset = peak.offset + side * distance
        value, slope, _ = function(mean + offset)
        fall = peak.height - value + 0.5 * offset.square() / variance
        pace = side * (offset / variance - slope)
        enough = fall >= _DROP
        high = torch.where(enough, distance.minimum(high), high)
        low = torch.where(enough, low, distance)
        if bool((enough & (fall <= 2 * _DROP)).all()):
            break
        root = fall.clamp_min(0.0).sqrt()
        new = distance + 2 * root * (math.sqrt(1.2 * _DROP) - root) / pace
        inside = (new > low) & (new < high)
        new = torch.where(inside, new, 0.5 * (low + high))
        settled = (enough & (fall <= 2 * _DROP)) | (high - low <= 1e-3 * high)
        distance = torch.where(settled, high, new)
        if bool(settled.all()):
            break
    return peak.offset + side * high


def _even_nodes(peak: _Peak, ends: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Places nodes in even steps, with log weights; tells where 96 steps suffice."""
    low, high = ends
    wanted = (high - low) / (_STEP * peak.width)
    short = wanted <= _MOST_STEPS
    max_steps = float(torch.where(short, wanted, 0.0).max())
    count = max(math.ceil(max_steps), 16) + 1
    share = torch.linspace(0, 1, count, dtype=low.dtype, device=low.device)
    nodes = low + (high - low) * share.view(-1, *[1] * low.dim())
    spacing = ((high - low) / (count - 1)).log()
    return nodes, spacing.expand_as(nodes), short


@torch.no_grad()
def _panel_nodes(
    function: LogConcave, mean: Tensor, variance: Tensor, peak: _Peak, ends: Tensor
) -> tuple[Tensor, Tensor]:
    r"""Places nodes, with log weights, on panels, short where the slope changes.

    Over a panel of length :math:`\ell` the slope of the log integrand changes by
    :math:`\delta`, and the integrand is as smooth as a Gaussian over
    :math:`\sqrt{\delta \ell}` deviations. Three rounds make panels more even in that.
    """
    unit = torch.linspace(0, 1, _GRID_POINTS, dtype=mean.dtype, device=mean.device)
    unit = unit.view(-1, *[1] * mean.dim())
    lower_grid = ends[0] + (peak.offset - ends[0]) * unit
    upper_grid = peak.offset + (ends[1] - peak.offset) * unit[1:]
    grid = torch.cat([lower_grid, upper_grid])
    for _ in range(_GRID_ROUNDS):
        length = _panel_lengths(function, mean, variance, grid)
        grid = _even_grid(grid, length, 2 * _GRID_POINTS)
    length = _panel_lengths(function, mean, variance, grid)
    panels = (grid.diff(dim=0) / length).sum(0)
    # Ends of more panels than this have too few digits to differ: the product is then
    # refused as not finite.
    limit = 1 / torch.finfo(mean.dtype).eps
    _check_finite(torch.where(panels <= limit, panels, torch.inf))
    breaks = _even_grid(grid, length, math.ceil(float(panels.max())) + 1)
    return _on_panels(breaks[:-1], breaks[1:])


def _panel_lengths(
    function: LogConcave, mean: Tensor, variance: Tensor, grid: Tensor
) -> Tensor:
    """Computes how long a panel may be in each interval of a grid of distances.

    The grid is increasing, ``k x shape``, and the result ``k - 1 x shape``.
    """
    steps = grid.diff(dim=0)
    slope = function(mean + grid)[1] - grid / variance
    tiny = torch.finfo(mean.dtype).tiny
    change = (slope[:-1] - slope[1:]).clamp_min(tiny)
    allowed_length = _PANEL_LENGTH * (steps / change).sqrt()
    # A panel next to a bend is as short as the bend, and others grow from there.
    middle = 0.5 * (grid[1:] + grid[:-1])
    ahead = (allowed_length - _GROWTH * middle).cummin(0).values + _GROWTH * middle
    behind = (allowed_length + _GROWTH * middle).flip(0).cummin(0).values.flip(0)
    return ahead.minimum(behind - _GROWTH * middle).clamp_min(tiny)


def _even_grid(grid: Tensor, length: Tensor, count: int) -> Tensor:
    """Places points between which there are equally many panels, ``count x shape``.

    In each interval of the grid, panels have its ``length``.
    """
    panels = (grid.diff(dim=0) / length).cumsum(0)
    along = torch.cat([torch.zeros_like(panels[:1]), panels])
    unit = torch.linspace(0, 1, count, dtype=grid.dtype, device=grid.device)
    return _points_along(grid, along, along[-1].unsqueeze(-1) * unit)
