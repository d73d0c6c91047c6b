"""A number with the gradient of another expression."""

from __future__ import annotations

from torch import Tensor


def with_gradient_of(value: Tensor, surrogate: Tensor) -> Tensor:
    """``value`` with the first derivatives of ``surrogate``.

    At an optimum or a fixed point the derivative of the evidence in the
    hyper-parameters is known in closed form (implicit differentiation), so that nothing
    that led there has to be recorded: it enters as the derivative of a linear form.

    Args:
        value: ``batch_shape``, detached.
        surrogate: ``batch_shape``.

    Returns:
        ``batch_shape``.
    """
    return value + (surrogate - surrogate.detach())
