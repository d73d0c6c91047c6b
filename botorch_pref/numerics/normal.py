r"""The standard normal distribution: tails in log space, intervals, truncated draws.

Symbols: :math:`\phi` and :math:`\Phi` are the standard normal density and distribution
function; the hazard is :math:`h(x) = \phi(x) / \Phi(x)`, the derivative of
:math:`\log \Phi`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from botorch.utils.probability.utils import leggauss
from scipy.special import erfc, erfcx
from torch import Tensor

Elementwise = Callable[[Tensor], Tensor]

_SQRT_HALF = math.sqrt(0.5)
_SQRT_2_OVER_PI = math.sqrt(2.0 / math.pi)
# The relative error of the asymptotic series of the excess x + h(x) is this over x^10.
_SERIES_ERROR = 8162.0


def _hazard_value(x: Tensor) -> Tensor:
    # erfcx overflows far to the right, where the hazard is zero.
    return _SQRT_2_OVER_PI / torch.special.erfcx(-_SQRT_HALF * x)


def _log_ndtr_and_hazard_value(x: Tensor) -> tuple[Tensor, Tensor]:
    """Computes ``log Phi(x)`` and the hazard ``phi(x) / Phi(x)``, to all digits.

    Gradients through it would overflow: :func:`with_slope` gives these.
    """
    t = _SQRT_HALF * x
    scaled = torch.special.erfcx(-t)
    # Phi = exp(-x^2 / 2) erfcx(-x / sqrt 2) / 2 where x is negative, else 1 - Phi(-x).
    log_tail = scaled.mul(0.5).log_().addcmul_(t, t, value=-1.0)
    log_body = torch.erfc(t).mul_(-0.5).log1p_()
    return torch.where(x > 0, log_body, log_tail), _SQRT_2_OVER_PI / scaled


class _SlopedValue(torch.autograd.Function):
    """Value of a function whose derivative is given."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, value: Elementwise, slope: Elementwise) -> Tensor:
        """Computes the value."""
        ctx.save_for_backward(x)
        ctx.slope = slope
        return value(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        """Multiplies by the slope."""
        (x,) = ctx.saved_tensors
        return grad * ctx.slope(x), None, None


def with_slope(x: Tensor, value: Elementwise, slope: Elementwise) -> Tensor:
    """Returns ``value(x)`` with derivative ``slope``, where autograd loses digits."""
    result: Tensor = (
        _SlopedValue.apply(x, value, slope) if x.requires_grad else value(x)
    )
    return result


def hazard(x: Tensor) -> Tensor:
    """Computes the hazard :math:`h(x)`, differentiable any number of times."""
    # Autograd through erfcx overflows to NaN.
    return with_slope(x, _hazard_value, lambda x: -hazard(x) * hazard_excess(x))


def log_ndtr(x: Tensor) -> Tensor:
    r"""Computes :math:`\log \Phi(x)` to all digits, differentiable at any order."""
    # Autograd through both branches would meet infinities of the other one.
    return with_slope(x, lambda x: _log_ndtr_and_hazard_value(x)[0], hazard)


def hazard_excess(x: Tensor) -> Tensor:
    r"""Computes the excess :math:`x + h(x) > 0` of the hazard over its asymptote.

    The variance ratio of a truncated normal is :math:`1 - h (x + h)`. In the left tail,
    :math:`t = -x`, the sum loses digits (relative error :math:`\epsilon t^2`), and the
    series :math:`t^{-1} - 2 t^{-3} + 10 t^{-5} - 74 t^{-7} + 706 t^{-9}` (relative
    error :math:`8162 t^{-10}`) replaces it: from 43 in double precision, with an error
    of 5e-13, and from 8 in single, with 1e-5.
    """
    return _excess(x, hazard(x))


def _excess(x: Tensor, h: Tensor) -> Tensor:
    """Computes ``x + h`` of a point and its hazard, by a series in the left tail."""
    # From here on the series is nearer than the sum, in this floating point type.
    cut = -((_SERIES_ERROR / torch.finfo(x.dtype).eps) ** (1 / 12))
    deep = x < cut
    if not bool(deep.any()):
        return x + h
    t = -x.clamp(max=cut)
    s = t.square().reciprocal()
    series = (1 - s * (2 - s * (10 - s * (74 - s * 706)))) / t
    return torch.where(deep, series, x + h)


def log_ndtr_derivatives(x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    r"""Computes :math:`\log \Phi` and its first three derivatives.

    With the hazard :math:`h = \phi / \Phi` and :math:`e = x + h` these are :math:`h`,
    :math:`-h e`, in (-1, 0), and :math:`h (e^2 + h e - 1)`.
    """
    if x.requires_grad:
        value, h = log_ndtr(x), hazard(x)
    elif x.device.type == "cpu" and x.numel() <= _NUMPY_SIZE:
        return _numpy_derivatives(x)
    else:
        value, h = _log_ndtr_and_hazard_value(x)
    e = _excess(x, h)
    slope = h * e
    return value, h, -slope, h * (e.square() + slope - 1)


# Of fewer numbers than these torch takes longer to start operations than to do them.
_NUMPY_SIZE = 1024


def _numpy_derivatives(x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Computes `log_ndtr_derivatives` in NumPy, which is faster for few numbers."""
    points = x.numpy()
    with np.errstate(all="ignore"):
        t = _SQRT_HALF * points
        scaled = erfcx(-t)
        log_tail = np.log(0.5 * scaled) - t * t
        value = np.where(points > 0, np.log1p(-0.5 * erfc(t)), log_tail)
        h = np.asarray(_SQRT_2_OVER_PI / scaled)
        e = _excess(x, torch.from_numpy(h)).numpy()
        slope = h * e
        third = h * (e * e + slope - 1)
    value, h, second, third = map(np.asarray, (value, h, -slope, third))
    make = torch.from_numpy
    return make(value), make(h), make(second), make(third)


_HALF_LOG_2_PI = 0.5 * math.log(2.0 * math.pi)
# Gauss-Legendre on [0, 1], eight points.
_NARROW_NODES, _NARROW_WEIGHTS = (0.5 * t for t in leggauss(8, dtype=torch.float64))


def _orient(lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Mirrors intervals that lie to the right, where ``Phi`` has no digits left.

    Returns their lower and upper ends, and the sign: -1 where an interval was mirrored,
    which odd derivatives and draws have to be multiplied by.
    """
    mirrored = lower + upper > 0
    alpha = torch.where(mirrored, -upper, lower)
    beta = torch.where(mirrored, -lower, upper)
    return alpha, beta, torch.where(mirrored, -1.0, 1.0).to(alpha)


class _Interval(NamedTuple):
    """Log probability of an interval, and derivatives as the interval shifts."""

    value: Tensor
    first: Tensor
    second: Tensor
    third: Tensor


def _around_zero(a: Tensor, b: Tensor, _: Tensor) -> _Interval:
    r"""Computes the terms of intervals with ``a < 0 < b``.

    These are :math:`\log Z`, with :math:`Z = \Phi(b) - \Phi(a)`, and its derivatives as
    both ends shift. With :math:`g_j = [\phi^{(j)}(b) - \phi^{(j)}(a)] / Z` the
    derivatives are :math:`g_0`, :math:`g_1 - g_0^2` and :math:`g_2 - 3 g_0 g_1 + 2
    g_0^3`, where :math:`\phi' = -x \phi` and :math:`\phi'' = (x^2 - 1) \phi`.
    """
    log_beta = log_ndtr(b)
    gap = log_beta - log_ndtr(a)
    mass = -torch.expm1(-gap)
    # Densities at the ends over Z, which is Phi(b) times the mass.
    at_beta, at_alpha = hazard(b) / mass, hazard(a) * torch.exp(-gap) / mass
    g0 = at_beta - at_alpha
    g1 = a * at_alpha - b * at_beta
    g2 = (b.square() - 1) * at_beta - (a.square() - 1) * at_alpha
    third = g2 - 3 * g0 * g1 + 2 * g0**3
    return _Interval(log_beta + torch.log(mass), g0, g1 - g0.square(), third)


def _in_tail(a: Tensor, b: Tensor, width: Tensor) -> _Interval:
    r"""Computes the terms of intervals with ``a < b <= 0``, by ``t = b - y``.

    Here ``y`` is the standard normal kept in the interval. The derivatives are minus
    its mean, its variance minus 1, and minus its third central moment; the differences
    of :func:`_around_zero` would cancel. With the hazard :math:`H = \phi(a) / Z` of
    ``a`` and the width w, :math:`E[t^{k+1}] = k E[t^{k-1}] + b E[t^k] - w^k H`, and
    :math:`E[t]` is a sum of hazard excesses.
    """
    excess_a, excess_b = hazard_excess(a), hazard_excess(b)
    # log Phi(b) - log Phi(a), where Phi = phi / h.
    gap = torch.log(hazard(a) / hazard(b)) - 0.5 * width * (a + b)
    mass = -torch.expm1(-gap)
    odds = torch.exp(-gap) / mass
    at_alpha = hazard(a) * odds
    t1 = excess_b + odds * (excess_b - excess_a - width)
    t2 = 1 + b * t1 - width * at_alpha
    t3 = 2 * t1 + b * t2 - width.square() * at_alpha
    third = t3 - 3 * t1 * t2 + 2 * t1**3
    return _Interval(log_ndtr(b) + torch.log(mass), t1 - b, t2 - t1.square() - 1, third)


def _narrow(_: Tensor, b: Tensor, width: Tensor) -> _Interval:
    """Computes the terms of intervals whose density changes by a factor of e at most.

    Eight-point Gauss-Legendre quadrature: exact to rounding there, and free of the
    cancellation of ``Phi(b) - Phi(a)``, and of ``b - a``.
    """
    shape = (-1, *([1] * b.dim()))
    nodes, weights = (
        column.to(b).view(shape) for column in (0.5 + _NARROW_NODES, _NARROW_WEIGHTS)
    )
    t = width * nodes
    density = weights * (t * (b - 0.5 * t)).exp()
    total = density.sum(0)
    probability = density / total
    mean = (probability * t).sum(0)
    centred = t - mean
    squares = probability * centred.square()
    variance, third = squares.sum(0), (squares * centred).sum(0)
    value = torch.log(width * total) - 0.5 * b.square() - _HALF_LOG_2_PI
    return _Interval(value, mean - b, variance - 1, third)


def _bounded(alpha: Tensor, beta: Tensor, width: Tensor) -> _Interval:
    """Computes terms for ``alpha + beta <= 0`` by the form that keeps digits.

    Each form is called with those intervals alone for which it does.
    """
    narrow = -alpha * width <= 1.0
    tail = (beta <= 0) & ~narrow
    out = _Interval(*(torch.zeros_like(beta).flatten() for _ in range(4)))
    ends = [end.flatten() for end in (alpha, beta, width)]
    for form, chosen in (
        (_around_zero, ~narrow & ~tail),
        (_in_tail, tail),
        (_narrow, narrow),
    ):
        (places,) = chosen.flatten().nonzero(as_tuple=True)
        if len(places):
            parts = form(*(end[places] for end in ends))
            pairs = zip(out, parts, strict=True)
            out = _Interval(*(x.index_copy(0, places, y) for x, y in pairs))
    return _Interval(*(part.view_as(beta) for part in out))


def interval_derivatives(
    lower: Tensor, upper: Tensor, width: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    r"""Computes an interval's log probability and derivatives as the interval shifts.

    With :math:`Z(x) = \Phi(u + x) - \Phi(l + x)`: :math:`\log Z` and its first three
    derivatives at 0, which are minus the mean, the variance minus 1 and minus the third
    central moment of the standard normal kept in the interval. Of one without ends all
    are 0. ``width`` is ``u - l`` where it is known to more digits than the ends leave.
    """
    width = upper - lower if width is None else width
    lower, upper, width = torch.broadcast_tensors(lower, upper, width)
    alpha, beta, sign = _orient(lower, upper)
    whole_line = beta.isposinf()
    # Any end will do where there is none: its derivatives are not used.
    beta = torch.where(whole_line, 0.0, beta)
    result = _Interval(*log_ndtr_derivatives(beta))
    if bool(whole_line.any()):
        result = _Interval(*(torch.where(whole_line, 0.0, x) for x in result))
    bounded = alpha.isfinite()
    if bool(bounded.any()):
        inner = _bounded(
            torch.where(bounded, alpha, -2.0),
            torch.where(bounded, beta, -1.0),
            torch.where(bounded, width, 1.0),
        )
        parts = zip(inner, result, strict=True)
        result = _Interval(*(torch.where(bounded, x, y) for x, y in parts))
    value, first, second, third = result
    return value, sign * first, second, sign * third


_NUM_NODES = 20
_NODES, _WEIGHTS = (
    values.tolist() for values in leggauss(_NUM_NODES, dtype=torch.float64)
)
# Farther out the integrand has decayed by exp(-40) and adds less than a rounding.
_CUT = 80.0


def probit_win_variance(
    mean: Tensor, variance: Tensor, scale: Tensor | float
) -> Tensor:
    r"""Computes :math:`Var[\Phi(u / s)]`, :math:`u \sim N(\mu, \tau^2)`.

    ``scale`` is :math:`s^2`.

    With :math:`a = \mu / \sqrt{s^2 + \tau^2}` the second moment is :math:`\Phi(a) - 2
    T(a, \eta)` (Fauvel and Chalk 2021) with Owen's T and :math:`\eta^2 = s^2 / (s^2 + 2
    \tau^2)`. Since :math:`\Phi(a) \Phi(-a) = 2 T(a, 1)` the variance is one integral of
    a positive function, in which nothing cancels,

    .. math:: 2 T(a, 1) - 2 T(a, \eta) = \frac1\pi \int_\eta^1
        \frac{e^{-a^2 (1 + x^2) / 2}}{1 + x^2} \, dx .

    Gauss-Legendre quadrature over what the exponential leaves of the interval is right
    within 1e-11 of itself.
    """
    square = mean.square() / (scale + variance)
    eta = (scale / (scale + 2 * variance)).sqrt()
    full_width = 2 * variance / (scale + 2 * variance) / (1 + eta)
    reach = _CUT / square.clamp_min(1e-30)
    width = torch.minimum(full_width, reach / (eta + (eta.square() + reach).sqrt()))
    total = torch.zeros((), dtype=mean.dtype, device=mean.device)
    # One node at a time: a mixture of 1,024 components has no room for all at once.
    for node, weight in zip(_NODES, _WEIGHTS, strict=True):
        step = width * (0.5 + 0.5 * node)
        x_square = (eta + step).square()
        decay = torch.exp(-0.5 * square * (step * (2 * eta + step)))
        total = total + 0.5 * weight * decay / (1 + x_square)
    density = torch.exp(-0.5 * square * (1 + eta.square())) / math.pi
    return density * width * total


# The interval is in the tail if its likelier end is so many deviations from the mean.
_TAIL = 5.0
# Phi(10) is 1 in double precision, and exp(10^2 / 2) is finite in single.
_ALL_MASS = 10.0
# From E / h(beta) the error of Newton's method falls as 2, 0.2, 3e-3, 3e-7, 5e-15 in
# the worst case, beta = -5 and E = -log 2^-53.
_NEWTON_STEPS = 6


def _log_decay(beta: Tensor, distance: Tensor) -> Tensor:
    r"""Computes :math:`\log \Phi(\beta) - \log \Phi(\beta - \delta)`, no cancellation.

    In :math:`\mathrm{erfcx}(t) = e^{t^2} \mathrm{erfc}(t)` the squares subtract.
    """
    near = torch.special.erfcx(-_SQRT_HALF * beta)
    far = torch.special.erfcx(_SQRT_HALF * (distance - beta))
    return distance * (0.5 * distance - beta) + torch.log(near / far)


def _distance_in_tail(beta: Tensor, energy: Tensor) -> Tensor:
    r"""Solves :math:`\log \Phi(\beta) - \log \Phi(\beta - \delta) = E` for a deep beta.

    The left side is convex and increasing in :math:`\delta`, so Newton's method falls
    monotonely from :math:`E / h(\beta)`, which lies above the solution.
    """
    distance = energy / hazard(beta)
    for _ in range(_NEWTON_STEPS):
        excess = _log_decay(beta, distance) - energy
        distance = distance - excess / hazard(beta - distance)
    return distance


def _log_mass_ratio(alpha: Tensor, beta: Tensor, width: Tensor) -> Tensor:
    r"""Computes :math:`\log \Phi(\beta) - \log \Phi(\alpha)`; infinite if alpha is."""
    bounded = alpha.isfinite()
    if not bool(bounded.any()):
        return torch.full_like(beta, torch.inf)
    # Farther right Phi is 1 all the same, and squares would overflow.
    near = beta.clamp(max=_ALL_MASS)
    distance = torch.where(beta > _ALL_MASS, near - alpha, width)
    finite = torch.where(bounded, distance, torch.ones_like(distance))
    return torch.where(bounded, _log_decay(near, finite), torch.inf)


def truncated_normal_quantile(
    uniform: Tensor, mean: Tensor, variance: Tensor, lower: Tensor, upper: Tensor
) -> Tensor:
    r"""Computes draws of :math:`N(\mu_i, r_i)` in :math:`[l_i, u_i]` from uniform ones.

    The ``variance`` is :math:`r_i`. A uniform draw, in [0, 1], is the share of the
    interval's probability between the result and the end that is nearer to the mean.
    Each interval is mirrored so that this is its upper standardised end :math:`\beta`,
    and the result solves :math:`\Phi(x) = \Phi(\beta) q`. Where :math:`\beta < -5` the
    distance :math:`\beta - x` to the bound is solved for, in log space, so that draws
    next to a far bound keep their digits.
    """
    uniform, mean, variance, lower, upper = torch.broadcast_tensors(
        uniform, mean, variance, lower, upper
    )
    scale = variance.sqrt()
    below, above = (lower - mean) / scale, (upper - mean) / scale
    alpha, beta, sign = _orient(below, above)
    # q - 1, where q = 1 - u (1 - Phi(alpha) / Phi(beta)) for the uniform u.
    shortfall = uniform * torch.expm1(
        -_log_mass_ratio(alpha, beta, (upper - lower) / scale)
    )
    x = torch.special.ndtri(torch.special.ndtr(beta) * (1 + shortfall))
    sign, mirrored = sign * scale, sign < 0
    draws = mean + sign * x
    tail = beta < -_TAIL
    if bool(tail.any()):
        bound = torch.where(mirrored, lower, upper)[tail]
        distance = _distance_in_tail(beta[tail], -torch.log1p(shortfall[tail]))
        draws[tail] = bound - sign[tail] * distance
    # Rounding alone can leave the interval.
    return torch.minimum(torch.maximum(draws, lower), upper)


def sample_truncated_normal(
    mean: Tensor,
    variance: Tensor,
    lower: Tensor,
    upper: Tensor,
    generator: torch.Generator | None = None,
) -> Tensor:
    r"""Draws from :math:`N(\mu_i, r_i)` kept to :math:`[l_i, u_i]`.

    It takes :func:`truncated_normal_quantile` of uniform draws. Over the first
    dimension they are a Latin hypercube, one in each of as many equal parts of [0, 1):
    what they add to an average cancels (McKay, Beckman and Conover 1979, Technometrics
    21).
    """
    shape = torch.broadcast_shapes(mean.shape, variance.shape, lower.shape, upper.shape)
    # The order of the parts, and the place of each draw in its part.
    order, within = (
        torch.rand(shape, generator=generator, dtype=mean.dtype, device=mean.device)
        for _ in range(2)
    )
    uniform = (order.argsort(0) + within) / shape[0]
    return truncated_normal_quantile(uniform, mean, variance, lower, upper)
