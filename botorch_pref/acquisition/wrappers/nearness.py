"""The price of options that are nearly the same."""

from __future__ import annotations

from torch import Tensor


def nearness(squared: Tensor, free: float = 1.0, full: float = 0.0) -> Tensor:
    r"""Price of a pair of options, from 0 for distinct ones upwards.

    .. math:: \Big( \frac{\max(0, b - r^2)}{b - a} \Big)^2

    for the squared difference :math:`r^2` in units of the smallest difference: nothing
    from :math:`b` on, one at :math:`a`, and continuously differentiable, so that
    gradient-based optimisers are led out of there.

    Args:
        squared: :math:`r^2`, nonnegative, any shape.
        free: :math:`b`, from which nothing is to be paid.
        full: :math:`a`, below ``free``, at which the price is 1.
    """
    return ((free - squared).clamp_min(0.0) / (free - full)).square()
