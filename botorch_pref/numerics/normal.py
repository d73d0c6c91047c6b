r"""Standard normal probabilities of intervals, and their derivatives, in every tail.

Symbols: :math:`\phi` and :math:`\Phi` are the standard normal density and distribution
function; the hazard is :math:`h(x) = \phi(x) / \Phi(x)`, the derivative of
:math:`\log \Phi`.
"""

from __future__ import annotations

import math

import torch
from botorch.utils.probability.utils import log_ndtr
from torch import Tensor

_SQRT_HALF = math.sqrt(0.5)
_SQRT_2_OVER_PI = math.sqrt(2.0 / math.pi)
# Below this the excess x + h(x) loses digits to cancellation (relative error
# eps * x^2) and the asymptotic series (relative error 8162 / x^10) keeps them.
_SERIES_BELOW = -60.0


def _hazard_value(x: Tensor) -> Tensor:
    left = x.clamp(max=0.0)
    right = x.clamp(min=0.0)
    below = _SQRT_2_OVER_PI / torch.special.erfcx(-_SQRT_HALF * left)
    density = (-0.5 * right.square()).exp() * (0.5 * _SQRT_2_OVER_PI)
    above = density / torch.special.ndtr(right)
    return torch.where(x < 0, below, above)


class _Hazard(torch.autograd.Function):
    """Autograd through ``erfcx`` overflows to NaN; ``h' = -h (x + h)`` does not."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:  # type: ignore[no-untyped-def]
        ctx.save_for_backward(x)
        return _hazard_value(x)

    @staticmethod
    def backward(ctx, grad: Tensor) -> Tensor:  # type: ignore[no-untyped-def, override]
        (x,) = ctx.saved_tensors
        return -grad * hazard(x) * hazard_excess(x)


def hazard(x: Tensor) -> Tensor:
    r"""The hazard :math:`h(x) = \phi(x) / \Phi(x) = (\log \Phi)'(x)`.

    Args:
        x: A tensor of any shape; any real value, infinities included.

    Returns:
        A tensor like ``x``: about ``-x`` for very negative ``x``, 0 at infinity.
        Differentiable any number of times.
    """
    return _Hazard.apply(x)  # type: ignore[no-untyped-call, no-any-return]


def hazard_excess(x: Tensor) -> Tensor:
    r"""The excess :math:`x + h(x) > 0` of the hazard over its asymptote.

    The variance ratio of a truncated normal is :math:`1 - h (x + h)`. Below -60 the
    asymptotic series :math:`t^{-1} - 2 t^{-3} + 10 t^{-5} - 74 t^{-7} + 706 t^{-9}`
    with :math:`t = -x` replaces the difference, which has no digits left there.

    Args:
        x: A tensor of any shape.

    Returns:
        A tensor like ``x``, positive.
    """
    deep = x < _SERIES_BELOW
    t = -torch.where(deep, x, torch.full_like(x, _SERIES_BELOW))
    s = t.square().reciprocal()
    series = (1 - s * (2 - s * (10 - s * (74 - s * 706)))) / t
    shallow = torch.where(deep, torch.zeros_like(x), x)
    return torch.where(deep, series, shallow + hazard(shallow))


def log_ndtr_derivatives(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    r"""The first three derivatives of :math:`\log \Phi`.

    With :math:`h = h(x)` and :math:`e = x + h`: :math:`h`, :math:`-h e` and
    :math:`h (e^2 + h e - 1)`.

    Args:
        x: A tensor of any shape.

    Returns:
        Three tensors like ``x``. The second lies in (-1, 0).
    """
    h, e = hazard(x), hazard_excess(x)
    return h, -h * e, h * (e.square() + h * e - 1)


def _orient(lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Mirrors intervals that lie to the right, where ``Phi`` has no digits left."""
    mirrored = lower + upper > 0
    alpha = torch.where(mirrored, -upper, lower)
    beta = torch.where(mirrored, -lower, upper)
    return alpha, beta, torch.where(mirrored, -1.0, 1.0).to(alpha)


def log_interval_probability(lower: Tensor, upper: Tensor) -> Tensor:
    r""":math:`\log(\Phi(u) - \Phi(l))`, right in both tails.

    Args:
        lower: Lower ends ``l``, any shape; ``-inf`` for none.
        upper: Upper ends ``u``, broadcastable with ``lower``; ``inf`` for none. Each
            interval has at least one finite end and ``l < u``.

    Returns:
        The log probabilities; differentiable in every finite end.
    """
    lower, upper = torch.broadcast_tensors(lower, upper)
    alpha, beta, _ = _orient(lower, upper)
    log_beta = log_ndtr(beta)
    bounded = alpha.isfinite()
    inner = torch.where(bounded, alpha, beta - 1.0)
    gap = log_beta - log_ndtr(inner)
    return log_beta + torch.where(bounded, torch.log(-torch.expm1(-gap)), 0.0)


def interval_derivatives(
    lower: Tensor, upper: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    r"""Log probability of an interval and its derivatives as the interval shifts.

    With :math:`Z(x) = \Phi(u + x) - \Phi(l + x)`: :math:`\log Z` and its first three
    derivatives at :math:`x = 0`. With :math:`g_j = [\phi^{(j)}(u) - \phi^{(j)}(l)] / Z`
    these are :math:`g_0`, :math:`g_1 - g_0^2` and
    :math:`g_2 - 3 g_0 g_1 + 2 g_0^3`, where :math:`\phi' = -x \phi` and
    :math:`\phi'' = (x^2 - 1) \phi`. One-sided intervals use the hazard instead,
    which loses no digits in the tail.

    Args:
        lower: Lower ends ``l``, any shape; ``-inf`` for none.
        upper: Upper ends ``u``, broadcastable with ``lower``; ``inf`` for none. Each
            interval has at least one finite end and ``l < u``.

    Returns:
        :math:`\log Z` and three derivatives, all of the broadcast shape. The second
        derivative lies in (-1, 0).
    """
    lower, upper = torch.broadcast_tensors(lower, upper)
    alpha, beta, sign = _orient(lower, upper)
    log_beta = log_ndtr(beta)
    first, second, third = log_ndtr_derivatives(beta)
    bounded = alpha.isfinite()
    if bool(bounded.any()):
        a = torch.where(bounded, alpha, beta - 1.0)
        gap = log_beta - log_ndtr(a)
        mass = -torch.expm1(-gap)
        at_beta, at_alpha = first / mass, hazard(a) * torch.exp(-gap) / mass
        g0 = at_beta - at_alpha
        g1 = a * at_alpha - beta * at_beta
        g2 = (beta.square() - 1) * at_beta - (a.square() - 1) * at_alpha
        log_beta = log_beta + torch.where(bounded, torch.log(mass), 0.0)
        first = torch.where(bounded, g0, first)
        second = torch.where(bounded, g1 - g0.square(), second)
        third = torch.where(bounded, g2 - 3 * g0 * g1 + 2 * g0**3, third)
    return log_beta, sign * first, second, sign * third
