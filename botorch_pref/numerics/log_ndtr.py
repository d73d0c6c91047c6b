r"""The log of the standard normal distribution function, and its derivatives.

Symbols: :math:`\phi` and :math:`\Phi` are the standard normal density and distribution
function; the hazard is :math:`h(x) = \phi(x) / \Phi(x)`, the derivative of
:math:`\log \Phi`.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

_SQRT_HALF = math.sqrt(0.5)
_SQRT_2_OVER_PI = math.sqrt(2.0 / math.pi)
# The relative error of the asymptotic series of the excess x + h(x) is this over x^10.
_SERIES_ERROR = 8162.0


def _hazard_value(x: Tensor) -> Tensor:
    # erfcx overflows far to the right, where the hazard is zero.
    return _SQRT_2_OVER_PI / torch.special.erfcx(-_SQRT_HALF * x)


def _log_ndtr_and_hazard_value(x: Tensor) -> tuple[Tensor, Tensor]:
    t = _SQRT_HALF * x
    scaled = torch.special.erfcx(-t)
    # Phi = exp(-x^2 / 2) erfcx(-x / sqrt 2) / 2, where its complement has no digits.
    left = scaled.mul(0.5).log_().addcmul_(t, t, value=-1.0)
    right = torch.erfc(t).mul_(-0.5).log1p_()
    return torch.where(x > 0, right, left), _SQRT_2_OVER_PI / scaled


class _Hazard(torch.autograd.Function):
    """Autograd through ``erfcx`` overflows to NaN; ``h' = -h (x + h)`` does not."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:  # type: ignore[no-untyped-def]
        ctx.save_for_backward(x)
        return _hazard_value(x)

    @staticmethod
    def backward(ctx, grad: Tensor) -> Tensor:  # type: ignore[no-untyped-def]
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
    return _Hazard.apply(x) if x.requires_grad else _hazard_value(x)


class _LogNdtr(torch.autograd.Function):
    """Autograd through both branches would meet infinities of the other one."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:  # type: ignore[no-untyped-def]
        ctx.save_for_backward(x)
        return _log_ndtr_and_hazard_value(x)[0]

    @staticmethod
    def backward(ctx, grad: Tensor) -> Tensor:  # type: ignore[no-untyped-def]
        (x,) = ctx.saved_tensors
        return grad * hazard(x)


def log_ndtr(x: Tensor) -> Tensor:
    r"""The log probability :math:`\log \Phi(x)`, with all digits in both tails.

    Args:
        x: A tensor of any shape; any real value, infinities included.

    Returns:
        A tensor like ``x``. Differentiable any number of times.
    """
    if x.requires_grad:
        return _LogNdtr.apply(x)
    return _log_ndtr_and_hazard_value(x)[0]


def hazard_excess(x: Tensor) -> Tensor:
    r"""The excess :math:`x + h(x) > 0` of the hazard over its asymptote.

    The variance ratio of a truncated normal is :math:`1 - h (x + h)`. In the left tail
    the difference loses digits to cancellation (relative error :math:`\epsilon t^2`
    with :math:`t = -x`) and the asymptotic series
    :math:`t^{-1} - 2 t^{-3} + 10 t^{-5} - 74 t^{-7} + 706 t^{-9}` (relative error
    :math:`8162 t^{-10}`) replaces it. They cross at 43 in double precision and at 8 in
    single, with relative errors of 5e-13 and 1e-5.

    Args:
        x: A tensor of any shape.

    Returns:
        A tensor like ``x``, positive.
    """
    return _excess(x, hazard(x))


def _excess(x: Tensor, h: Tensor) -> Tensor:
    cut = -((_SERIES_ERROR / torch.finfo(x.dtype).eps) ** (1 / 12))
    deep = x < cut
    if not bool(deep.any()):
        return x + h
    t = -x.clamp(max=cut)
    s = t.square().reciprocal()
    series = (1 - s * (2 - s * (10 - s * (74 - s * 706)))) / t
    return torch.where(deep, series, x + h)


def log_ndtr_and_slopes(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    r""":math:`\log \Phi` and its first two derivatives.

    Args:
        x: A tensor of any shape.

    Returns:
        Three tensors like ``x``; see :func:`log_ndtr` and :func:`log_ndtr_slopes`.
    """
    if x.requires_grad:
        return log_ndtr(x), *log_ndtr_slopes(x)
    value, h = _log_ndtr_and_hazard_value(x)
    return value, h, -h * _excess(x, h)


def log_ndtr_slopes(x: Tensor) -> tuple[Tensor, Tensor]:
    r"""The first two derivatives of :math:`\log \Phi`.

    Args:
        x: A tensor of any shape.

    Returns:
        Two tensors like ``x``: :math:`h` and :math:`-h (x + h)`, in (-1, 0).
    """
    h = hazard(x)
    return h, -h * _excess(x, h)


def log_ndtr_derivatives(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    r"""The first three derivatives of :math:`\log \Phi`.

    With :math:`h = h(x)` and :math:`e = x + h`: :math:`h`, :math:`-h e` and
    :math:`h (e^2 + h e - 1)`.

    Args:
        x: A tensor of any shape.

    Returns:
        Three tensors like ``x``. The second lies in (-1, 0).
    """
    h = hazard(x)
    e = _excess(x, h)
    slope = h * e
    return h, -slope, h * (e.square() + slope - 1)
