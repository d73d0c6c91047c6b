r"""Equal-weight mixtures of Student's t with three degrees of freedom and one scale.

A Gaussian whose variance is known from three degrees of freedom only,
:math:`\tau^2 / V` with :math:`3 V \sim \chi^2_3`, is such a t: what is left of a
prediction when its scale may be wrong. Its tails fall with the fourth power.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from botorch_pref.numerics.mixtures.gaussian_mixture import standard_deviation

# Below it the series is right within 3e-13, above it the difference within 7e-12.
_SERIES = 0.01


def tailed_positive_part(means: Tensor, variance: Tensor) -> Tensor:
    r"""Mean of ``max(u, 0)`` where components are t with three degrees of freedom.

    A component of location m and scale :math:`\tau` has, with :math:`a = \sqrt3 \tau`,

    .. math:: E[\max(u, 0)] = \max(m, 0)
        + \frac{1}{\pi} \Big(a - |m| \arctan \frac{a}{|m|}\Big) .

    Args:
        means: Locations, ``num_components x batch_shape``.
        variance: :math:`\tau^2`, ``batch_shape``, nonnegative.

    Returns:
        ``batch_shape``, nonnegative; its own digits are right also where it is small.
        The slope with respect to a mean of 0 is a half, also at a variance of 0.
    """
    distance, width = means.abs(), math.sqrt(3.0) * standard_deviation(variance)
    distance, width = torch.broadcast_tensors(distance, width)
    far = width <= _SERIES * distance
    # Where both are 0, the angle has no derivative; there is no spread either.
    open_ = (width > 0) & ~far
    a, d = torch.where(open_, width, 1.0), torch.where(open_, distance, 1.0)
    near_spread = a - d * torch.atan2(a, d)
    ratio = torch.where(far & (distance > 0), width, 0.0) / torch.where(
        far & (distance > 0), distance, 1.0
    )
    square = ratio.square()
    far_spread = width * square * (1 / 3 - square * (1 / 5 - square / 7))
    spread = torch.where(open_, near_spread, torch.where(far, far_spread, 0.0))
    # Not the mean of m and |m|, whose slopes would cancel to no digits in the tail.
    part = means * torch.heaviside(means.detach(), means.new_tensor(0.5))
    return (part + spread / math.pi).mean(0)
