r"""Standard normal probabilities of intervals, and their derivatives, in every tail.

Symbols: :math:`\phi` and :math:`\Phi` are the standard normal density and distribution
function; the hazard is :math:`h(x) = \phi(x) / \Phi(x)`, the derivative of
:math:`\log \Phi`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from botorch_pref.numerics.log_ndtr import (
    hazard,
    hazard_excess,
    log_ndtr,
    log_ndtr_derivatives,
)

_HALF_LOG_2_PI = 0.5 * math.log(2.0 * math.pi)
# Gauss-Legendre on [0, 1], eight points (Abramowitz and Stegun 1972, table 25.4).
_LEGENDRE_NODES = (
    0.019855071751231884,
    0.101666761293186630,
    0.237233795041835507,
    0.408282678752175098,
    0.591717321247824902,
    0.762766204958164493,
    0.898333238706813370,
    0.980144928248768116,
)
_LEGENDRE_WEIGHTS = (
    0.050614268145188130,
    0.111190517226687235,
    0.156853322938943644,
    0.181341891689180991,
    0.181341891689180991,
    0.156853322938943644,
    0.111190517226687235,
    0.050614268145188130,
)


def _orient(lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Mirrors intervals that lie to the right, where ``Phi`` has no digits left."""
    mirrored = lower + upper > 0
    alpha = torch.where(mirrored, -upper, lower)
    beta = torch.where(mirrored, -lower, upper)
    return alpha, beta, torch.where(mirrored, -1.0, 1.0).to(alpha)


class _Interval(NamedTuple):
    """Log probability of an interval and the moments of a normal inside it.

    ``first``, ``second`` and ``third`` are derivatives of the log probability as the
    interval shifts: minus the mean, the variance minus 1, minus the third central
    moment.
    """

    value: Tensor
    first: Tensor
    second: Tensor
    third: Tensor


def _around_zero(a: Tensor, b: Tensor, _: Tensor) -> _Interval:
    r"""Intervals with ``a < 0 < b``.

    With :math:`g_j = [\phi^{(j)}(b) - \phi^{(j)}(a)] / Z` the derivatives are
    :math:`g_0`, :math:`g_1 - g_0^2` and :math:`g_2 - 3 g_0 g_1 + 2 g_0^3`, where
    :math:`\phi' = -x \phi` and :math:`\phi'' = (x^2 - 1) \phi`.
    """
    log_beta = log_ndtr(b)
    gap = log_beta - log_ndtr(a)
    mass = -torch.expm1(-gap)
    at_beta, at_alpha = hazard(b) / mass, hazard(a) * torch.exp(-gap) / mass
    g0 = at_beta - at_alpha
    g1 = a * at_alpha - b * at_beta
    g2 = (b.square() - 1) * at_beta - (a.square() - 1) * at_alpha
    third = g2 - 3 * g0 * g1 + 2 * g0**3
    return _Interval(log_beta + torch.log(mass), g0, g1 - g0.square(), third)


def _in_tail(a: Tensor, b: Tensor, width: Tensor) -> _Interval:
    r"""Intervals with ``a < b <= 0``, through the distance ``t = b - y`` from ``b``.

    Differences of the :math:`g_j` of :func:`_around_zero` cancel here. With
    :math:`w = b - a` and the hazard ``H`` of ``a`` in the interval,
    :math:`E[t^{k+1}] = k E[t^{k-1}] + b E[t^k] - w^k H` (by parts), and :math:`E[t]` is
    a sum of hazard excesses.
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
    """Intervals over which the density changes by less than a factor e.

    Eight-point Gauss-Legendre quadrature: exact to rounding there, and free of the
    cancellation of ``Phi(b) - Phi(a)``, and of ``b - a``.
    """
    shape = (-1, *([1] * b.dim()))
    nodes, weights = (
        torch.tensor(values, dtype=b.dtype, device=b.device).view(shape)
        for values in (_LEGENDRE_NODES, _LEGENDRE_WEIGHTS)
    )
    t = width * nodes
    density = weights * (t * (b - 0.5 * t)).exp()
    total = density.sum(0)
    probability = density / total
    mean = (probability * t).sum(0)
    centred = t - mean
    variance = (probability * centred.square()).sum(0)
    third = (probability * centred**3).sum(0)
    value = torch.log(width * total) - 0.5 * b.square() - _HALF_LOG_2_PI
    return _Interval(value, mean - b, variance - 1, third)


def _bounded(alpha: Tensor, beta: Tensor, width: Tensor) -> _Interval:
    """Two-sided intervals with ``alpha + beta <= 0``, by the form that keeps digits."""
    narrow = -alpha * width <= 1.0
    tail = (beta <= 0) & ~narrow
    out = _Interval(*(torch.zeros_like(beta) for _ in range(4)))
    for form, chosen in (
        (_around_zero, ~narrow & ~tail),
        (_in_tail, tail),
        (_narrow, narrow),
    ):
        if bool(chosen.any()):
            # Where another form is chosen, ends that suit all of them.
            a = torch.where(chosen, alpha, -2.0)
            b = torch.where(chosen, beta, -1.0)
            w = torch.where(chosen, width, 1.0)
            parts = zip(form(a, b, w), out, strict=True)
            out = _Interval(*(torch.where(chosen, x, y) for x, y in parts))
    return out


def interval_derivatives(
    lower: Tensor, upper: Tensor, width: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    r"""Log probability of an interval and its derivatives as the interval shifts.

    With :math:`Z(x) = \Phi(u + x) - \Phi(l + x)`: :math:`\log Z` and its first three
    derivatives at :math:`x = 0`: minus the mean of the standard normal kept in the
    interval, its variance minus 1, and minus its third central moment.

    Args:
        lower: Lower ends ``l``, any shape; ``-inf`` for none.
        upper: Upper ends ``u``, broadcastable with ``lower``; ``inf`` for none.
            ``l < u``; of an interval without ends all derivatives are 0.
        width: ``u - l`` where it is known to more digits than the ends leave, for
            example of a narrow interval far from zero.

    Returns:
        :math:`\log Z` and three derivatives, all of the broadcast shape. The second
        derivative lies in (-1, 0).
    """
    width = upper - lower if width is None else width
    lower, upper, width = torch.broadcast_tensors(lower, upper, width)
    alpha, beta, sign = _orient(lower, upper)
    whole = beta.isposinf()
    # Any end will do where there is none: its derivatives are not used.
    beta = torch.where(whole, 0.0, beta)
    result = _Interval(log_ndtr(beta), *log_ndtr_derivatives(beta))
    if bool(whole.any()):
        result = _Interval(*(torch.where(whole, 0.0, x) for x in result))
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
