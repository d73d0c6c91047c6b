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
