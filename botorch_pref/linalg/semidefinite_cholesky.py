"""A differentiable Cholesky factor of a covariance matrix, singular or not."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

_ROUNDING_FACTOR = 4.0


def semidefinite_cholesky(matrix: Tensor) -> Tensor:
    r"""Lower triangular ``L``, nonnegative diagonal, with ``L L' = M``.

    The Cholesky factor where ``M`` is regular: where every pivot (the variance left in
    a point given the points before it) exceeds ``4 k eps M_jj``, with eps the rounding
    unit of the dtype. Elsewhere elimination would multiply rounding errors, and the
    rows of a root of ``M`` from its eigenvectors are orthogonalised in order instead; a
    point whose pivot does not exceed the threshold adds no column. Nothing is added to
    the diagonal, equal points have equal rows to rounding, and what is left out of a
    standardised sample has a standard deviation of at most ``sqrt(4 k eps)``.

    The derivative is that of the Cholesky factor, with the pivots that were left out
    held at 0: the middle of the kink that a standard deviation has at 0.

    Args:
        matrix: ``batch_shape x k x k``, symmetric positive semi-definite up to
            rounding.

    Returns:
        ``batch_shape x k x k``, differentiable once.
    """
    factor: Tensor = _SemidefiniteCholesky.apply(matrix)
    return factor


class _SemidefiniteCholesky(Function):
    @staticmethod
    def forward(ctx: Any, matrix: Tensor) -> Tensor:
        factor, info = torch.linalg.cholesky_ex(matrix)
        diagonal = matrix.diagonal(dim1=-2, dim2=-1)
        rounding = _ROUNDING_FACTOR * matrix.shape[-1] * torch.finfo(matrix.dtype).eps
        pivots = factor.diagonal(dim1=-2, dim2=-1).square()
        # Not a number, as after a failed elimination, is no pivot either.
        regular = (info == 0) & (pivots > rounding * diagonal).all(-1)
        if not bool(regular.all()):
            scale = diagonal.clamp(min=0.0).sqrt()
            safe = torch.where(scale > 0, scale, 1.0)
            correlation = matrix / (safe.unsqueeze(-1) * safe.unsqueeze(-2))
            singular = scale.unsqueeze(-1) * _ordered_root(correlation, rounding)
            factor = torch.where(regular[..., None, None], factor, singular)
        ctx.save_for_backward(factor)
        return factor

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        # With S = L^-T Phi(L' G) L^-1, Phi the lower triangle with half its diagonal,
        # the gradient is (S + S') / 2 (Murray 2016, "Differentiation of the Cholesky
        # decomposition", eq. 10). A unit pivot stands in for one that was left out.
        (factor,) = ctx.saved_tensors
        absent = factor.diagonal(dim1=-2, dim2=-1) == 0
        present = torch.where(absent.unsqueeze(-2), 0.0, gradient)
        regular = factor + torch.diag_embed(absent.to(factor.dtype))
        inner = (regular.mT @ present).tril()
        inner = inner - 0.5 * torch.diag_embed(inner.diagonal(dim1=-2, dim2=-1))
        left = torch.linalg.solve_triangular(regular.mT, inner, upper=True)
        full = torch.linalg.solve_triangular(regular, left, upper=False, left=False)
        return 0.5 * (full + full.mT)


def _ordered_root(correlation: Tensor, threshold: float) -> Tensor:
    """Triangular root of matrices with a unit (or zero) diagonal, of any rank.

    Gram-Schmidt on the rows of a root, each orthogonalised twice against the directions
    of the points before it; a remainder whose square is within the threshold gives no
    direction.
    """
    eigenvalues, vectors = torch.linalg.eigh(correlation)
    rows = vectors * eigenvalues.clamp(min=0.0).sqrt().unsqueeze(-2)
    # Only those that are one: far fewer than points where these crowd.
    directions = torch.zeros_like(rows)
    places: list[int] = []
    for j in range(rows.shape[-1]):
        rest = rows[..., j, :, None]
        earlier = directions[..., : len(places), :]
        for _ in range(2):
            rest = rest - earlier.mT @ (earlier @ rest)
        square = rest.square().sum((-2, -1))
        if bool((square > threshold).any()):
            length = torch.where(square > threshold, square.sqrt(), torch.inf)
            new = (rest / length[..., None, None]).squeeze(-1)
            directions[..., len(places), :] = new
            places.append(j)
    root = torch.zeros_like(rows)
    root[..., places] = rows @ directions[..., : len(places), :].mT
    return root.tril()
