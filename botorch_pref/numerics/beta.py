r"""The Beta log density with a probit mean, stable where it rounds to 0 or 1.

Symbols: precision :math:`\nu`, mean :math:`\Phi(t)`, shapes :math:`a = \nu \Phi(t)` and
:math:`b = \nu \Phi(-t)`, the hazard :math:`h = \phi / \Phi`. With
:math:`\Gamma(a) = \Gamma(1 + a) / a` the density is

.. math::
    \log \mathrm{Beta}(y; a, b) = \log \Phi(t) + \log \Phi(-t)
    + \log \Gamma(\nu) + 2 \log \nu - \log \Gamma(1 + a) - \log \Gamma(1 + b)
    + (a - 1) \log y + (b - 1) \log(1 - y) :

everything singular in the tails is in the first two terms, which have stable
derivatives, and what remains has arguments of at least 1.

Source: Jensen and Nielsen (2014), appendices A.1.2 and A.2.1, with :math:`d\mu / df`
carrying the factor :math:`1 / (\sqrt 2 \sigma)` that equations 75 and 105 lack, and
:math:`\psi_1(a) + \psi_1(b)` for the repeated :math:`\psi_1(a)` of 81 and 111.
"""

from __future__ import annotations

import math

import torch
from scipy.special import betainc
from torch import Tensor

from botorch_pref.numerics.normal import hazard, log_ndtr, log_ndtr_derivatives

_INVERSE_ROOT_2_PI = 1.0 / math.sqrt(2.0 * math.pi)
_REACH, _BISECTIONS = 40.0, 30


class _Digamma(torch.autograd.Function):
    """Torch differentiates digamma to 5e-10 only; the Hurwitz zeta has all digits."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:  # type: ignore[no-untyped-def]
        ctx.save_for_backward(x)
        return torch.digamma(x)

    @staticmethod
    def backward(ctx, grad: Tensor) -> Tensor:  # type: ignore[no-untyped-def]
        (x,) = ctx.saved_tensors
        return grad * _trigamma(x)


def _digamma(x: Tensor) -> Tensor:
    return _Digamma.apply(x) if x.requires_grad else torch.digamma(x)


def _trigamma(x: Tensor) -> Tensor:
    return torch.special.zeta(2.0, x)


def _shapes(t: Tensor, precision: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """``1 + a``, ``1 + b`` and ``nu phi(t)``."""
    above = torch.special.ndtr(t)
    below = torch.special.ndtr(-t)
    slope = precision * _INVERSE_ROOT_2_PI * (-0.5 * t.square()).exp()
    return 1 + precision * above, 1 + precision * below, slope


def beta_value(y: Tensor, precision: Tensor, t: Tensor) -> Tensor:
    """The log density of answers ``y`` in (0, 1) at the standardised latent ``t``."""
    a1, b1, _ = _shapes(t, precision)
    regular = (a1 - 2) * y.log() + (b1 - 2) * torch.log1p(-y)
    regular = regular - torch.lgamma(a1) - torch.lgamma(b1)
    constant = torch.lgamma(precision) + 2 * precision.log()
    return log_ndtr(t) + log_ndtr(-t) + (constant + regular)


def beta_slope(y: Tensor, precision: Tensor, t: Tensor) -> Tensor:
    """The derivative of :func:`beta_value` in ``t``."""
    a1, b1, slope = _shapes(t, precision)
    pull = torch.logit(y) - _digamma(a1) + _digamma(b1)
    return slope * pull + hazard(t) - hazard(-t)


def beta_log_density(
    y: Tensor, precision: Tensor, t: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    r"""The log density and its first three derivatives in ``t``.

    With :math:`r = \mathrm{logit}(y) - \psi(1 + a) + \psi(1 + b)`,
    :math:`S_k = \psi_k(1 + a) - (-1)^k \psi_k(1 + b)` and :math:`\delta = \nu \phi(t)`
    the derivatives of the regular part are :math:`\delta r`,
    :math:`-t \delta r - \delta^2 S_1` and
    :math:`(t^2 - 1) \delta r + 3 t \delta^2 S_1 - \delta^3 S_2`.

    The density has one peak in ``t``, and its log falls like :math:`-t^2 / 2` in both
    tails, but it is not concave. All four are differentiable, to all digits, in
    ``precision`` and ``t``.
    """
    a1, b1, slope = _shapes(t, precision)
    _, *above = log_ndtr_derivatives(t)
    _, *below = log_ndtr_derivatives(-t)
    pull = slope * (torch.logit(y) - _digamma(a1) + _digamma(b1))
    spread = slope.square() * (_trigamma(a1) + _trigamma(b1))
    # psi_2(x) = -2 zeta(3, x)
    skew = torch.special.zeta(3.0, b1) - torch.special.zeta(3.0, a1)
    first = pull + above[0] - below[0]
    second = above[1] + below[1] - t * pull - spread
    third = above[2] - below[2] + (t.square() - 1) * pull + 3 * t * spread
    third = third - 2 * slope**3 * skew
    return beta_value(y, precision, t), first, second, third


def beta_stiffness(y: Tensor, precision: Tensor, t: Tensor) -> Tensor:
    r"""Approximate upper bound of minus the second derivative in ``t``, at least 2.

    The Fisher information :math:`\nu \phi^2 / (\Phi(t) \Phi(-t))` of ``t`` and the pull
    of an answer far from the mean.
    """
    a1, b1, slope = _shapes(t, precision)
    pull = torch.logit(y) - torch.digamma(a1) + torch.digamma(b1)
    density = _INVERSE_ROOT_2_PI * (-0.5 * t.square()).exp()
    # phi^2 / (Phi(t) Phi(-t)) without a quotient of zeros
    fisher = precision * density * (hazard(t) + hazard(-t))
    return 2 + fisher + slope * (t * pull).abs()


def beta_peak(y: Tensor, precision: Tensor) -> Tensor:
    """The ``t`` where the density is largest, to 1e-7."""
    y, precision = torch.broadcast_tensors(y, precision)
    low, high = torch.full_like(y, -_REACH), torch.full_like(y, _REACH)
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        rising = beta_slope(y, precision, middle) > 0
        low, high = torch.where(rising, middle, low), torch.where(rising, high, middle)
    return 0.5 * (low + high)


@torch.no_grad()
def beta_majority(a: Tensor, b: Tensor) -> Tensor:
    """``P(y > 1/2)`` for ``y ~ Beta(a, b)`` of positive shapes; not differentiable.

    On the host: torch has no incomplete beta function.
    """
    shapes = (shape.double().cpu().numpy() for shape in (b, a))
    return torch.as_tensor(betainc(*shapes, 0.5)).to(a)
