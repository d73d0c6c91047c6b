"""A differentiable Cholesky factor of a covariance matrix, singular or not."""

from __future__ import annotations

import torch
from torch import Tensor

_ROUNDING_FACTOR = 4.0


def semidefinite_cholesky(matrix: Tensor) -> Tensor:
    r"""Lower triangular ``L``, nonnegative diagonal, with ``L L' = M`` to rounding.

    The Cholesky factor where ``M`` is regular. Column ``j`` is 0 where pivot ``j`` (the
    variance left in point ``j`` given the points before it) cannot be told from 0:
    where it is at most ``4 k eps M_jj``, with eps the rounding unit of the dtype. With
    ``P`` the other points, the rows of a point ``n`` that depends on them are

        L_PP = chol(M_PP),    L_nP = M_nP L_PP^(-T),

    so that nothing is added to the diagonal, equal points have equal rows, and the
    derivative is finite everywhere (that of the vanished pivot is 0, the middle of the
    kink that a standard deviation has at 0).

    Args:
        matrix: ``batch_shape x k x k``, symmetric positive semi-definite up to
            rounding.

    Returns:
        ``batch_shape x k x k``, differentiable.
    """
    scale = matrix.detach().diagonal(dim1=-2, dim2=-1)
    rounding = _ROUNDING_FACTOR * matrix.shape[-1] * torch.finfo(matrix.dtype).eps
    factor, info = torch.linalg.cholesky_ex(matrix)
    pivots = factor.detach().diagonal(dim1=-2, dim2=-1).square()
    if not bool(((info > 0).unsqueeze(-1) | (pivots <= rounding * scale)).any()):
        return factor
    kept = _regular_pivots(matrix.detach(), rounding * scale)
    both = kept.unsqueeze(-1) & kept.unsqueeze(-2)
    identity = torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
    factor = torch.linalg.cholesky(torch.where(both, matrix, identity))
    columns = torch.where(kept.unsqueeze(-1), matrix, 0.0)
    dependent = torch.linalg.solve_triangular(factor, columns, upper=False).mT
    rows = torch.where(kept.unsqueeze(-1), factor, dependent.tril())
    return torch.where(kept.unsqueeze(-2), rows, 0.0)


def _regular_pivots(matrix: Tensor, threshold: Tensor) -> Tensor:
    """Whether each pivot of the elimination exceeds its threshold.

    Args:
        matrix: ``batch_shape x k x k``, without a graph.
        threshold: ``batch_shape x k``.

    Returns:
        ``batch_shape x k``, Boolean.
    """
    remaining = matrix.clone()
    kept = torch.zeros_like(threshold, dtype=torch.bool)
    for j in range(matrix.shape[-1]):
        pivot = remaining[..., j, j]
        kept[..., j] = pivot > threshold[..., j]
        # 1 / infinity leaves the rest as it is where the point adds nothing.
        divisor = torch.where(kept[..., j], pivot, torch.inf)
        column = remaining[..., j:, j]
        remaining[..., j:, j:] -= column.unsqueeze(-1) * (
            column / divisor.unsqueeze(-1)
        ).unsqueeze(-2)
    return kept
