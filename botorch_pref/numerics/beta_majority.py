r"""The probability that a Beta variable is above a half.

.. math:: P(y > \tfrac12) = I_{1/2}(b, a), \qquad y \sim \mathrm{Beta}(a, b),

with :math:`I` the regularised incomplete beta function.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

_MIN_TERMS = 30
_TERMS_PER_ROOT = 4


def _half_fraction(p: Tensor, q: Tensor) -> Tensor:
    r"""The continued fraction of :math:`I_{1/2}(p, q)` for ``p >= q``.

    By Lentz's method (Press et al. 2007, section 6.4): it takes of the order of
    :math:`\sqrt{p}` terms.
    """
    x = 0.5
    terms = _MIN_TERMS + math.ceil(_TERMS_PER_ROOT * math.sqrt(float(p.max())))
    # Denominators are positive at 1/2 for p >= q, so that none needs a floor.
    c = torch.ones_like(p)
    d = (1 - (p + q) * x / (p + 1)).reciprocal()
    out = d
    for m in range(1, terms + 1):
        even = m * (q - m) * x / ((p + 2 * m - 1) * (p + 2 * m))
        d = (1 + even * d).reciprocal()
        c = 1 + even / c
        out = out * d * c
        odd = -(p + m) * (p + q + m) * x / ((p + 2 * m) * (p + 2 * m + 1))
        d = (1 + odd * d).reciprocal()
        c = 1 + odd / c
        out = out * d * c
    return out


@torch.no_grad()
def beta_majority(a: Tensor, b: Tensor) -> Tensor:
    """``P(y > 1/2)`` for ``y ~ Beta(a, b)``; not differentiable.

    Args:
        a: Non-negative, any shape.
        b: Non-negative, broadcastable with ``a``; not both are 0.
    """
    a, b = torch.broadcast_tensors(a, b)
    p, q, total = torch.maximum(a, b), torch.minimum(a, b), a + b
    # q Gamma(q) = Gamma(1 + q): nothing is singular where one shape vanishes.
    front = q * torch.exp(
        torch.lgamma(total)
        - torch.lgamma(1 + p)
        - torch.lgamma(1 + q)
        - total * math.log(2.0)
    )
    minority = front * _half_fraction(p, q)
    return torch.where(a > b, 1 - minority, minority)
