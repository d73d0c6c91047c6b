"""Linear systems of which nothing is known but products with vectors."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import pad


def krylov_solution(
    operator: Callable[[Tensor], Tensor],
    right: Tensor,
    tolerance: float,
    most_steps: int,
) -> tuple[Tensor, Tensor]:
    """Solves ``M x = b`` for each element of a batch by products with ``M`` alone.

    It is for thousands of equations, whose matrix would not fit.

    This is GMRES without restarts (Saad and Schultz 1986), whose vectors are made
    orthogonal twice. It takes about as many steps as ``M`` has clusters of eigenvalues.

    Args:
        operator: ``x -> M x``, linear, ``batch_shape x k`` each.
        right: ``b``, ``batch_shape x k``.
        tolerance: The norm of ``b - M x`` relative to that of ``b`` at which it ends.
        most_steps: The number of products after which it ends whatever the residual.

    Returns:
        ``x``, and the relative norm of the residual, ``batch_shape``.
    """
    limits = torch.finfo(right.dtype)
    length = right.norm(dim=-1, keepdim=True)
    basis, columns = [right / length.clamp_min(limits.tiny)], list[Tensor]()
    for step in range(1, min(most_steps, right.shape[-1]) + 1):
        image, vectors = operator(basis[-1]), torch.stack(basis, dim=-1)
        column = torch.zeros_like(vectors[..., 0, :])
        for _ in range(2):
            along = vectors.mT @ image.unsqueeze(-1)
            image = image - (vectors @ along).squeeze(-1)
            column = column + along.squeeze(-1)
        remainder_norm = image.norm(dim=-1, keepdim=True)
        # A remainder within rounding is no direction: that element is solved.
        remainder_norm = remainder_norm * (
            remainder_norm > limits.eps * column.norm(dim=-1, keepdim=True)
        )
        # Solved elements go on with vectors of zeros; a one on the diagonal of r keeps
        # it regular.
        ended = (basis[-1] == 0).all(-1, keepdim=True)
        column = column + pad(ended.to(column), (step - 1, 0))
        columns.append(torch.cat([column, remainder_norm], dim=-1))
        basis.append(
            image * (remainder_norm > 0) / remainder_norm.clamp_min(limits.tiny)
        )
        hessenberg = torch.stack(
            [pad(part, (0, step + 1 - part.shape[-1])) for part in columns], dim=-1
        )
        q, r = torch.linalg.qr(hessenberg)
        # The first unit vector stands for b.
        weights = torch.linalg.solve_triangular(r, q[..., :1, :].mT, upper=True)
        missed = -(hessenberg @ weights).squeeze(-1)
        missed[..., 0] += 1
        residual = missed.norm(dim=-1) * (length.squeeze(-1) > 0)
        if bool((residual <= tolerance).all()):
            break
    return length * (vectors @ weights).squeeze(-1), residual
