r"""Expectations of a function that bends in one place, of any width.

.. math:: \int f(u) \, N(u; \mu, \tau^2) \, du,

where ``f`` changes around a centre ``c`` over a width ``w`` and is smooth elsewhere on
the scale of its distance from there: a win probability, which rises once, or a density,
which peaks once. Neither the deviation :math:`\tau` nor :math:`|\mu - c|` need be
comparable with ``w``.

The trapezoidal rule in :math:`x = (u - c) / \tau + \operatorname{asinh}((u - c) / w)`,
whose steps are short beside both the Gaussian and the bend: it converges exponentially
for an analytic integrand (Trefethen and Weideman 2014). Its nodes solve an equation of
Kepler's kind, :math:`a \sinh y + y = x` with :math:`a = w / \tau`, by Newton's steps
from an upper bound, which converge monotonically since the left side is convex.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from botorch_pref.errors import InferenceWarning, PrecisionError, warn_caller
from botorch_pref.numerics.normal import log_ndtr
from botorch_pref.numerics.quadrature import (
    LogConcave,
    OfRows,
    TiltedMoments,
    completed,
    hermite_integral,
    node_sums,
    tilted_moments,
)

# e^(-9^2 / 2) = 3e-18
_HALF_WIDTH = 9.0
# Beyond the centre where that is far out in a tail, and how far out it may be.
_BEYOND, _REACH = 4.0, 120.0
_NEWTON_STEPS = 6
# Where the bend is so wide, steps of the Gaussian alone will do, and keep their digits.
_WIDE = 4.0
_NARROWEST = 1e-12
_BISECTIONS = 16
# How much a peak is above the ends of the line.
_LEVEL = 1.0
_ZOOM_POINTS, _ZOOMS = 17, 12
_PROBES = 2.0 ** torch.arange(-40, 41, dtype=torch.float64)
# Steps are halved until two forms of the tilted moments agree so far; a difference of
# more than the second is said.
_AGREEMENT, _DISAGREEMENT = 1e-12, 1e-4
_LONGEST_STEP, _SHORTEST_STEP = 0.5, 0.5 / 32
# Nodes of the even rule about a product's peak, over nine of its deviations to either
# side, and more of them for what these miss: of a Gaussian even 27 miss 1e-17. How far
# identities may be missed but for rounding, and what may lie beyond the nodes.
_PEAK_NODES = (27, 53)
_PEAK_AGREEMENT, _LOG_BEYOND = 3e-11, math.log(1e-12)
# Beyond so many deviations of the Gaussian the bend is hardly within reach of it.
_FAR = 100.0
STEP = 0.4
"""A step in ``x`` at which win probabilities of any kind are right within 1e-9."""


@torch.no_grad()
def bend_nodes(
    mean: Tensor, variance: Tensor, centre: Tensor, width: Tensor, step: float = STEP
) -> tuple[Tensor, Tensor]:
    r"""Places standardised nodes with log weights, both ``num_nodes x shape``.

    A node ``t`` stands for :math:`u = \mu + \tau t`, with the mean and the deviation of
    a Gaussian, and the weights hold its density. So they integrate functions of ``u``
    that bend at a ``centre`` ``c`` over a positive ``width`` ``w``: nodes are at most
    ``step`` apart in :math:`x = (u - c) / \tau + \operatorname{asinh}((u - c) / w)`.
    The variance may be 0.
    """
    tiny = torch.finfo(mean.dtype).tiny
    deviation = variance.clamp_min(tiny).sqrt()
    ratio = (width / deviation).clamp_min(_NARROWEST)
    # From the bend to the mean, in deviations; so (u - c) / tau is t plus this.
    distance = (mean - centre) / deviation
    # Ends in t: nine deviations off, or four beyond a bend that is farther out.
    low = (-_BEYOND - distance).clamp(-_REACH, -_HALF_WIDTH)
    high = (_BEYOND - distance).clamp(_HALF_WIDTH, _REACH)
    # Where the bend is wide its coordinate is not needed, and would lose digits.
    wide = ratio > _WIDE
    inner, apart = torch.where(wide, 1.0, ratio), torch.where(wide, 0.0, distance)
    ends = torch.stack([apart + low, apart + high])
    ends = ends + torch.where(wide, 0.0, torch.asinh(ends / inner))
    count = math.ceil(float((ends[1] - ends[0]).max()) / step) + 1
    share = torch.linspace(0, 1, count, dtype=mean.dtype, device=mean.device)
    x = ends[0] + (ends[1] - ends[0]) * share.view(-1, *[1] * mean.dim())
    # With (u - c) / w = sinh y, and the ratio a = w / tau, x is a sinh y + y.
    y = _kepler(x, inner)
    nodes = torch.where(wide, x, inner * y.sinh() - apart)
    # The derivative of x in t.
    stretch = torch.where(wide, 1.0, 1 + 1 / (inner * y.cosh()))
    spacing = (ends[1] - ends[0]) / (count - 1)
    log_density = -0.5 * nodes.square() - 0.5 * math.log(2 * math.pi)
    return nodes, log_density + (spacing / stretch).log()


def moving_nodes(
    mean: Tensor,
    variance: Tensor,
    centre: Tensor,
    width: Tensor,
    step: float = STEP,
    about: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Returns distances of nodes from the mean, and log weights, ``num_nodes x shape``.

    Arguments as in :func:`bend_nodes`, with positive variances. Nodes are placed about
    the mean, or ``about`` another point. They are constants: derivatives in mean and
    variance are those of the weights, and the integrand is not differentiated.
    """
    node_centre, deviation = mean.detach(), variance.detach().sqrt()
    node_centre = node_centre if about is None else about
    nodes, log_weights = bend_nodes(
        node_centre, deviation.square(), centre, width, step
    )
    # Not a rounded place less the mean, from which a small distance is lost.
    offset = deviation * nodes + (node_centre - mean)
    moved = -0.5 * (offset.square() / variance - nodes.square())
    return offset, log_weights + moved - 0.5 * (variance / deviation.square()).log()


def bent_integral(
    function: Callable[[Tensor], tuple[Tensor, Tensor]],
    mean: Tensor,
    variance: Tensor,
    centre: Tensor,
    width: Tensor,
) -> TiltedMoments:
    r"""Computes :math:`\log \int e^{g(z)} N(z; \mu, s) dz`, and its derivatives.

    They are in the mean :math:`\mu`; the variance is ``s``. ``function`` gives ``g``
    and its derivative, elementwise, for ``num_nodes x shape``; ``g`` need not be
    concave, and bends at ``centre`` over a ``width``. The rule of `bend_nodes` halves
    its step until two forms of the moments agree within 1e-12, or differ by rounding:
    from a short step to half of it an error squares, and rounding does not. Arguments
    that are not finite, or too large to be squared, are a ``PrecisionError``; an
    `InferenceWarning` says that at the shortest step they differ by more than 1e-4.
    """
    dtype = mean.dtype
    mean, variance, centre, width = (
        part.double() for part in (mean, variance, centre, width)
    )
    if not bool((mean.square() + variance).isfinite().all()):
        raise PrecisionError(
            "The integral of an answer's density over a utility is not a number: the "
            "mean or the variance is not finite, or larger than can be squared. Check "
            "for hyper-parameters that are not finite, or use a smaller output scale."
        )
    about, step = _near_product(function, mean, variance, centre), _LONGEST_STEP
    before, small = math.inf, math.sqrt(torch.finfo(mean.dtype).eps)
    while True:
        offset, weights = moving_nodes(mean, variance, centre, width, step, about)
        value, slope = function((mean + offset).detach())
        moments, errors = tilted_moments(value + weights, slope, offset, variance)
        error = float(errors.max())
        stalled = before <= small and error > 0.1 * before
        if error <= _AGREEMENT or stalled or step <= _SHORTEST_STEP:
            break
        before, step = error, 0.5 * step
    if error > _DISAGREEMENT:
        warn_caller(
            f"The log integral of an answer is known within {error:.1e} only. Its "
            "density has steps or bends in several places; give factors with a "
            "log_partition of their own.",
            InferenceWarning,
        )
    return TiltedMoments(*(part.to(dtype) for part in moments))


class Peak(NamedTuple):
    """The one peak of a density, as a function of its latent.

    The ``place``, the ``width`` of the bend there within a factor of 2, the
    ``curvature`` (minus the second derivative of the log), the ``height`` of the log,
    and how far ``rounding`` takes values of it.
    """

    place: Tensor
    width: Tensor
    curvature: Tensor
    height: Tensor
    rounding: Tensor


ValueAndSlope = Callable[[Tensor], tuple[Tensor, Tensor]]
"""A function and its derivative, elementwise."""


def peaked_integral(
    of_rows: Callable[[Tensor | None], ValueAndSlope],
    mean: Tensor,
    variance: Tensor,
    peak: Peak,
) -> TiltedMoments:
    """Integrates a density with one peak times a Gaussian, to about 1e-10.

    The result has the log of the integral, and its derivatives in the mean of the
    Gaussian. The product mostly has one peak too: between that of the density and the
    mean, by their precisions. The trapezoidal rule over nine deviations to either side
    is taken where two things hold. Integration by parts is met (see
    :func:`.tilted_moments`). And since the density falls from its peak on, the part of
    the integral beyond an end ``r`` is at most its value there times the Gaussian's
    tail, which is to be less than 1e-12 of the whole: there is no second peak outside.
    Other integrals are those of :func:`bent_integral`.

    Args:
        of_rows: Gives the logs of the densities at some places of the last dimension,
            or of all for None, and their derivatives.
        mean: ``... x m``, in double precision, as are all of them.
        variance: ``... x m``.
        peak: Of the densities, each ``... x m``.
    """
    with torch.no_grad():
        width = (variance.reciprocal() + peak.curvature).rsqrt()
        shift = width.square() * peak.curvature * (peak.place - mean)
    return _about_peaks(of_rows, mean, variance, peak, (shift, width), _PEAK_NODES)


def _about_peaks(
    of_rows: Callable[[Tensor | None], ValueAndSlope],
    mean: Tensor,
    variance: Tensor,
    peak: Peak,
    product: tuple[Tensor, Tensor],
    counts: Sequence[int],
) -> TiltedMoments:
    """Sums moments over nodes about the peak of density times Gaussian.

    Integrals that the first of the ``counts`` of nodes misses are tried with the next,
    and after the last with :func:`bent_integral`. The ``product`` of density and
    Gaussian is given by the distance of its peak from the mean, and by its width.
    """
    shift, width = product
    unit = torch.linspace(
        -_HALF_WIDTH, _HALF_WIDTH, counts[0], dtype=mean.dtype, device=mean.device
    )
    nodes = shift + width * unit.view(-1, *[1] * mean.dim())
    log_weights = (width * (unit[1] - unit[0])).log()
    value, slope = of_rows(None)(mean.detach() + nodes)
    moments, errors = node_sums(value, slope, nodes, log_weights, mean, variance)
    with torch.no_grad():
        missed = ~(errors <= _PEAK_AGREEMENT + peak.rounding)
        missed |= ~(_log_beyond(value, nodes, mean, variance, peak) <= moments.value)

    def rule(
        of_missed: Callable[[Tensor | None], ValueAndSlope],
        mean: Tensor,
        variance: Tensor,
        places: Tensor,
    ) -> TiltedMoments:
        """Integrates missed rows by the next number of nodes, or by `bent_integral`."""
        missed_peak = Peak(*(part[..., places] for part in peak))
        if len(counts) == 1:
            function = of_missed(None)
            return bent_integral(
                function, mean, variance, missed_peak.place, missed_peak.width
            )
        with torch.no_grad():
            ratio, first = moments.ratio[..., places], moments.first[..., places]
            # Even moments that missed say better where the product is.
            width_before, deviation = width[..., places], (ratio * variance).sqrt()
            product_width = torch.where(ratio > 0, deviation, width_before)
        product = (first * variance).detach(), product_width
        return _about_peaks(of_missed, mean, variance, missed_peak, product, counts[1:])

    return completed(moments, missed, of_rows, mean, variance, rule)


def _log_beyond(
    value: Tensor, nodes: Tensor, mean: Tensor, variance: Tensor, peak: Peak
) -> Tensor:
    """Bounds the log of the integral beyond the nodes, over 1e-12.

    Where the bound is at most the log of the whole integral, the nodes leave out less
    than 1e-12 of it. Nodes are distances from the mean, the lowest first.
    """
    deviation = variance.sqrt()
    sides = []
    for end, side in ((0, -1), (-1, 1)):
        # Outwards the density falls from its peak on: the highest value beyond an end
        # is that at the end, or that of the peak where this is farther out.
        falls = side * (mean + nodes[end] - peak.place) >= 0
        highest = torch.where(falls, value[end], peak.height)
        sides.append(highest + log_ndtr(-side * nodes[end] / deviation))
    return torch.logaddexp(*sides) - _LOG_BEYOND


@dataclass(frozen=True)
class _PlacedFunctions:
    """Functions of rows at some places, None for all, as `LogConcave` calls them."""

    function: LogConcave
    places: Tensor | None

    def __call__(self, z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.function(z)


class BentProducts:
    """Log integrals of functions that bend, and derivatives, to about 1e-10.

    Where a function bends little over the width of the Gaussian a few nodes about the
    peak will do, which know what they miss; elsewhere see :func:`bent_integral`. Of
    their second derivatives only the size counts. A bend is sought once, whatever
    Gaussians the function is multiplied with.

    Args:
        of_rows: Gives the functions.
        num_rows: How many there are.
    """

    def __init__(self, of_rows: OfRows, num_rows: int) -> None:
        self._of_rows, self._num_rows = of_rows, num_rows
        self._bends: Tensor | None = None

    def __call__(self, mean: Tensor, variance: Tensor) -> TiltedMoments:
        """Gives integrals by means and variances of Gaussians, ``... x num_rows``."""
        dtype = mean.dtype
        mean, variance = torch.broadcast_tensors(mean.double(), variance.double())
        moments = hermite_integral(self._placed, mean, variance, self._about_bends)
        return TiltedMoments(*(part.to(dtype) for part in moments))

    def _placed(self, places: Tensor | None) -> _PlacedFunctions:
        return _PlacedFunctions(self._of_rows(places), places)

    def _about_bends(
        self, of_rows: OfRows, mean: Tensor, variance: Tensor, _: Tensor | None
    ) -> TiltedMoments:
        """Computes the :func:`bent_integral` of some functions, wherever they bend."""
        placed = of_rows(None)
        assert isinstance(placed, _PlacedFunctions)
        centre, width = self._bends_at(placed.places, mean)
        return bent_integral(lambda z: placed(z)[:2], mean, variance, centre, width)

    def _bends_at(self, places: Tensor | None, like: Tensor) -> Tensor:
        """Returns centres and widths of bends, ``2 x len(places)``, of all for None.

        They are sought at first use and kept, NaN before that.
        """
        if self._bends is None:
            self._bends = like.new_full((2, self._num_rows), torch.nan)
        every = torch.arange(self._num_rows, device=like.device)
        places = every if places is None else places
        unseen = places[self._bends[0, places].isnan()]
        if len(unseen):
            function = self._of_rows(unseen)
            bends = density_bend(lambda z: function(z)[0], like.new_zeros(len(unseen)))
            self._bends[:, unseen] = torch.stack(bends)
        return self._bends[:, places]


@torch.no_grad()
def _near_product(
    function: Callable[[Tensor], tuple[Tensor, Tensor]],
    mean: Tensor,
    variance: Tensor,
    centre: Tensor,
) -> Tensor:
    """Returns the places about which `bent_integral` puts its nodes.

    These are the means; where a bend is more than a hundred deviations from the mean,
    the place between mean and bend at which the product with the Gaussian is largest,
    sought on twelve grids, each about the largest value on the one before.
    """
    mean, variance = mean.detach(), variance.detach()
    far = (mean - centre).square() > _FAR**2 * variance
    if not bool(far.any()):
        return mean
    low, high = mean, centre
    share = torch.linspace(0, 1, _ZOOM_POINTS, dtype=mean.dtype, device=mean.device)
    share = share.view(-1, *[1] * mean.dim())
    for _ in range(_ZOOMS):
        grid = low + (high - low) * share
        height = function(grid)[0] - 0.5 * (grid - mean).square() / variance
        peak_index = height.argmax(0, keepdim=True)
        low, highest, high = (
            grid.gather(0, (peak_index + k).clamp(0, _ZOOM_POINTS - 1)).squeeze(0)
            for k in (-1, 0, 1)
        )
    return torch.where(far, highest, mean)


def _kepler(x: Tensor, a: Tensor) -> Tensor:
    """Solves ``a sinh y + y = x`` for ``y``, with positive ``a``.

    It is solved for ``|x|``, where the left side is convex, so that Newton's steps fall
    from an upper bound to the solution; ``y`` has the sign of ``x``.
    """
    size = x.abs()
    y = size.minimum(torch.asinh(size / a))
    for _ in range(_NEWTON_STEPS):
        # One exponential for both hyperbolic functions.
        up = (0.5 * a) * y.exp()
        down = (0.25 * a * a) / up
        y = y - (up - down + y - size) / (up + down + 1)
    return y * x.sign()


@torch.no_grad()
def bend_width(
    changed: Callable[[Tensor], Tensor], centre: Tensor, like: Tensor
) -> Tensor:
    """Finds how far from a centre a function has changed, within a factor of 2.

    ``changed`` says so of points, ``num_points x shape``, elementwise. The result is
    half of the smallest power of two, from ``2^-40`` to ``2^40``, at which it has; 1
    where it has at none.
    """
    probes = _PROBES.to(like).view(-1, *[1] * like.dim())
    has_changed = changed(centre + probes)
    first = has_changed.to(torch.uint8).argmax(0)
    return torch.where(has_changed.any(0), 0.5 * probes.flatten()[first], 1.0)


@torch.no_grad()
def half_rise(function: Callable[[Tensor], Tensor], like: Tensor) -> Tensor:
    """Finds where a monotone function has half of its rise from 0 to infinity.

    It is right to 1e-10 of itself where the function bends once. ``like`` gives the
    shape, dtype and device of the points.
    """
    start, end = function(torch.zeros_like(like)), function(_PROBES[-1] + 0 * like)
    middle = 0.5 * (start + end)
    rising = end > start
    low = bend_width(lambda u: (function(u) > middle) == rising, like * 0, like)
    high = 2 * low
    for _ in range(_BISECTIONS):
        point = 0.5 * (low + high)
        done = (function(point) > middle) == rising
        low, high = torch.where(done, low, point), torch.where(done, point, high)
    # A chord: between so near points the function is all but straight.
    before, after = function(low), function(high)
    share = (middle - before) / (after - before)
    return torch.where(after == before, high, low + share * (high - low))


@torch.no_grad()
def density_bend(
    log_density: Callable[[Tensor], Tensor], like: Tensor
) -> tuple[Tensor, Tensor]:
    """Finds where a density bends in its latent, and the width within a factor of 2.

    It has one peak, around which it bends, or rises or falls once from one level to
    another, and bends halfway. ``log_density`` is elementwise and takes
    ``num_points x shape``; ``like`` has the shape and dtype of its values.
    """
    probes = _PROBES.to(like)
    line = torch.cat([-probes.flip(0), probes.new_zeros(1), probes])
    grid = line.view(-1, *[1] * like.dim()).expand(-1, *like.shape)
    values = log_density(grid)
    highest = values.amax(0)
    # A peak is above both ends of the line; else one end is the higher level. Levels
    # are logs beside the highest value, and halfway is between the densities.
    peaked = torch.maximum(values[0], values[-1]) < highest - _LEVEL
    first, last = (values[end] - highest for end in (0, -1))
    middle = 0.5 * (first.exp() + last.exp())
    falling = first > last

    def beyond(logs: Tensor) -> Tensor:
        """Tells whether the density is past halfway from its left end's level."""
        return ((logs - highest).exp() > middle) != falling

    share = torch.linspace(0, 1, _ZOOM_POINTS, dtype=like.dtype, device=like.device)
    share = share.view(-1, *[1] * like.dim())
    for _ in range(_ZOOMS):
        last_index = len(grid) - 1
        # The next grid is between the neighbours of the highest point, or between the
        # first point that is past halfway and the one before it.
        bend_index = torch.where(
            peaked, values.argmax(0), beyond(values).to(torch.uint8).argmax(0)
        )
        after = torch.where(peaked, bend_index + 1, bend_index).clamp(1, last_index)
        low, high = (
            grid.gather(0, index.unsqueeze(0)).squeeze(0)
            for index in ((bend_index - 1).clamp(0, last_index - 1), after)
        )
        grid = low + (high - low) * share
        values = log_density(grid)
    centre = 0.5 * (low + high)
    level = log_density(centre.unsqueeze(0)).squeeze(0) - highest

    def changed(u: Tensor) -> Tensor:
        """Tells whether a peak has fallen by half a nat, or a level by half its way.

        A peak has to on one side at least: at ``u``, or as far to the left of the
        centre as ``u`` is to the right.
        """
        log_ratios = [log_density(v) - highest for v in (u, 2 * centre - u)]
        fallen = torch.minimum(*log_ratios) <= level - 0.5
        risen = (log_ratios[0].exp() - level.exp()).abs() >= 0.5 * (
            torch.where(falling, first, last).exp() - level.exp()
        ).abs()
        return torch.where(peaked, fallen, risen)

    return centre, bend_width(changed, centre, like)
