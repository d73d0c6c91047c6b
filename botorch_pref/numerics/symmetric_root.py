"""The differentiable symmetric root of a covariance matrix, singular or not."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable


def symmetric_root(matrix: Tensor) -> Tensor:
    r"""The symmetric positive semi-definite root ``S`` with ``S S = M``.

    Unlike a Cholesky factor it exists and is continuous at singular matrices (two
    points that become one), and unlike eigenvectors scaled by roots of eigenvalues it
    is unique and has a derivative where eigenvalues repeat: ``dS`` solves the
    Sylvester equation ``S dS + dS S = dM``, which in the eigenbasis of ``M`` divides
    entry ``ij`` by ``s_i + s_j``.

    Nothing is added to the diagonal. Eigenvalues at or below ``k eps`` times the
    largest cannot be told from 0 (eps is the rounding unit of the dtype) and count as
    0. Where ``s_i = s_j = 0`` a semi-definite ``M`` has no first-order change in
    entry ``ij`` (0 is its minimum along every path) and the derivative is 0.

    Args:
        matrix: ``batch_shape x k x k``, symmetric positive semi-definite up to
            rounding.

    Returns:
        ``batch_shape x k x k``, differentiable once.
    """
    root: Tensor = _SymmetricRoot.apply(matrix)
    return root


class _SymmetricRoot(Function):
    @staticmethod
    def forward(ctx: Any, matrix: Tensor) -> Tensor:
        eigenvalues, vectors = torch.linalg.eigh(matrix)
        rounding = matrix.shape[-1] * torch.finfo(matrix.dtype).eps
        noise = rounding * eigenvalues[..., -1:].clamp(min=0.0)
        scales = torch.where(eigenvalues > noise, eigenvalues, 0.0).sqrt()
        ctx.save_for_backward(scales, vectors)
        return (vectors * scales.unsqueeze(-2)) @ vectors.mT

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        scales, vectors = ctx.saved_tensors
        sums = scales.unsqueeze(-1) + scales.unsqueeze(-2)
        inverse = torch.where(sums > 0, sums, torch.inf).reciprocal()
        rotated = vectors.mT @ (0.5 * (gradient + gradient.mT)) @ vectors
        return vectors @ (rotated * inverse) @ vectors.mT
