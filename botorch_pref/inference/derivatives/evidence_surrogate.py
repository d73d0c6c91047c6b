"""A number with the gradient of another expression."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def with_gradient_of(value: Tensor, surrogate: Callable[[], Tensor]) -> Tensor:
    """``value`` with the first derivatives of ``surrogate``.

    At an optimum or a fixed point the derivative of the evidence in the
    hyper-parameters is known in closed form (implicit differentiation), so that nothing
    that led there has to be recorded: it enters as the derivative of a linear form.

    Args:
        value: ``batch_shape``, detached.
        surrogate: Makes a tensor of ``batch_shape``; called where gradients are wanted.

    Returns:
        ``batch_shape``.
    """
    if not torch.is_grad_enabled():
        return value
    form = surrogate()
    return value + (form - form.detach())


def covariance_form(
    left: Tensor, right: Tensor, precision: Tensor, covar: Tensor
) -> Tensor:
    r"""The form :math:`\frac12 \langle l r' - W, dK \rangle` in ``K``.

    Args:
        left: ``l``, ``batch_shape x n``.
        right: ``r``, ``batch_shape x n``.
        precision: ``W``, ``batch_shape x n x n``.
        covar: ``K``, ``batch_shape x n x n``, with its graph.

    Returns:
        ``batch_shape``.
    """
    with torch.no_grad():
        outer = left.unsqueeze(-1), right.unsqueeze(-2)
        lacking = torch.addcmul(precision, *outer, value=-1.0)
    # Matrices of points are the largest that an evaluation makes: no product of two.
    return -0.5 * torch.linalg.vecdot(lacking.flatten(-2), covar.flatten(-2))
