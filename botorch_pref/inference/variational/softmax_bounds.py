r"""Quadratic lower bounds of logistic and softmax probabilities.

With :math:`\lambda(\xi) = \tanh(\xi / 2) / (4 \xi)` and the intercept
:math:`c(\xi) = \log \sigma(\xi) - \xi / 2 + \lambda(\xi) \xi^2`, for every
:math:`\xi` (Jaakkola and Jordan 1997)

.. math:: \log \sigma(y) \ge c(\xi) + y / 2 - \lambda(\xi) y^2,

with equality where :math:`y = \pm \xi`. Bouchard (2007) bounds a softmax by logistic
functions, :math:`\log \sum_j e^{y_j} \le \alpha + \sum_j \log(1 + e^{y_j - \alpha})`,
for every :math:`\alpha`. Together, for the choice of c out of a set of k
(Guo et al. 2020, equation 13),

.. math::
    y_c - \log \sum_j e^{y_j} \ge y_c - \alpha + \sum_j \big[ c(\xi_j)
    - (y_j - \alpha) / 2 - \lambda(\xi_j) (y_j - \alpha)^2 \big] .
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid


def bound_curvature(xi: Tensor) -> Tensor:
    r""":math:`\lambda(\xi) = \tanh(\xi / 2) / (4 \xi)`, even, 1/8 at 0.

    Args:
        xi: Any shape.

    Returns:
        In (0, 1/8], same shape.
    """
    # The first term that 1/8 leaves out is -xi^2 / 96.
    flat = xi.abs() < math.sqrt(torch.finfo(xi.dtype).eps)
    safe = torch.where(flat, 1.0, xi)
    return torch.where(flat, 0.125, torch.tanh(0.5 * safe) / (4 * safe))


def bound_intercept(xi: Tensor) -> Tensor:
    r""":math:`c(\xi) = \log \sigma(\xi) - \xi / 2 + \lambda(\xi) \xi^2`, even.

    Args:
        xi: Any shape.

    Returns:
        At most ``-log 2``, same shape.
    """
    xi = xi.abs()
    return logsigmoid(xi) - 0.5 * xi + bound_curvature(xi) * xi.square()


def profile_curvature(distance: Tensor, variance: Tensor) -> Tensor:
    r"""Minus the second derivative of the best expected bound in the mean.

    With :math:`\xi^2 = s + x^2`, the best choice for ``y ~ N(x, s)``, what is not
    linear in the bound is :math:`-\log 2 \cosh(\xi / 2)`, concave in ``x``:

    .. math::
        \frac{s}{\xi^2} \, 2 \lambda(\xi)
        + \frac{x^2}{\xi^2} \, \tfrac14 \mathrm{sech}^2(\xi / 2).

    Args:
        distance: ``x``, any shape.
        variance: ``s``, nonnegative, broadcastable with ``distance``.

    Returns:
        In (0, 1/4], of the broadcast shape.
    """
    square = variance + distance.square()
    positive = square > 0
    share = torch.where(positive, variance / torch.where(positive, square, 1.0), 1.0)
    xi = square.sqrt()
    logistic = torch.sigmoid(xi) * torch.sigmoid(-xi)
    return share * 2 * bound_curvature(xi) + (1 - share) * logistic
