r"""Variance of a probit win probability ``Phi(u / s)``."""

from __future__ import annotations

import math

import torch
from botorch.utils.probability.utils import leggauss
from torch import Tensor

_NUM_NODES = 20
_NODES, _WEIGHTS = (
    values.tolist() for values in leggauss(_NUM_NODES, dtype=torch.float64)
)
# What lies farther out has decayed by exp(-40) and adds less than a rounding.
_CUT = 80.0


def probit_win_variance(
    mean: Tensor, variance: Tensor, scale: Tensor | float
) -> Tensor:
    r""":math:`Var[\Phi(u / s)]`, :math:`u \sim N(\mu, \tau^2)`.

    With :math:`a = \mu / \sqrt{s^2 + \tau^2}` the second moment is a bivariate normal
    probability (Fauvel and Chalk 2021), :math:`\Phi(a) - 2 T(a, \eta)` with Owen's T
    and :math:`\eta^2 = s^2 / (s^2 + 2 \tau^2)`. Since
    :math:`\Phi(a) \Phi(-a) = 2 T(a, 1)` the variance is one integral of a positive
    function,

    .. math:: 2 T(a, 1) - 2 T(a, \eta) = \frac1\pi \int_\eta^1
        \frac{e^{-a^2 (1 + x^2) / 2}}{1 + x^2} \, dx ,

    so that nothing cancels: not where :math:`\tau` vanishes, and the interval with it,
    nor in the tails. Gauss-Legendre quadrature over what the exponential leaves of the
    interval is right within 1e-11 of itself.

    Args:
        mean: :math:`\mu`, any shape.
        variance: :math:`\tau^2`, nonnegative, broadcastable with ``mean``.
        scale: :math:`s^2`, positive, broadcastable with both.

    Returns:
        Variances in [0, 1/4] of the broadcast shape, differentiable in all three.
    """
    square = mean.square() / (scale + variance)
    eta = (scale / (scale + 2 * variance)).sqrt()
    whole = 2 * variance / (scale + 2 * variance) / (1 + eta)
    reach = _CUT / square.clamp_min(1e-30)
    width = torch.minimum(whole, reach / (eta + (eta.square() + reach).sqrt()))
    total = torch.zeros((), dtype=mean.dtype, device=mean.device)
    # One node at a time: a mixture of 1,024 components has no room for all at once.
    for node, weight in zip(_NODES, _WEIGHTS, strict=True):
        step = width * (0.5 + 0.5 * node)
        x_square = (eta + step).square()
        decay = torch.exp(-0.5 * square * (step * (2 * eta + step)))
        total = total + 0.5 * weight * decay / (1 + x_square)
    density = torch.exp(-0.5 * square * (1 + eta.square())) / math.pi
    return density * width * total
