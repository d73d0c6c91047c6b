"""Kernel matrices as tensors."""

from __future__ import annotations

from gpytorch import settings
from gpytorch.kernels import Kernel
from torch import Tensor


def dense_covariance(kernel: Kernel, x1: Tensor, x2: Tensor | None = None) -> Tensor:
    """The covariance of two sets of points, at once.

    GPyTorch's lazy tensors, which are evaluated in this same way, cost as much again as
    a kernel of some hundred points.

    Args:
        kernel: The covariance function.
        x1: ``batch_shape x q x d``.
        x2: ``batch_shape x n x d``; None for ``x1``.

    Returns:
        ``batch_shape x q x n``.
    """
    with settings.lazily_evaluate_kernels(False):
        return kernel(x1, x2).to_dense()
