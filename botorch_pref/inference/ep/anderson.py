"""Anderson acceleration of a fixed-point iteration, batched."""

from __future__ import annotations

import torch
from torch import Tensor

_MEMORY = 4
_ROUNDING = 16.0


class AndersonMemory:
    r"""Memory of the last residuals ``g(x) - x``, from which a fixed point follows.

    With the differences :math:`\Delta X, \Delta F` of the last iterates and residuals,
    the next iterate is :math:`x + f - (\Delta X + \Delta F) \gamma`, where
    :math:`\gamma` minimises :math:`\|D (f - \Delta F \gamma)\|` (Walker and Ni 2011,
    type II).
    """

    def __init__(self) -> None:
        self._last: tuple[Tensor, Tensor] | None = None
        self._dg: list[Tensor] = []
        self._df: list[Tensor] = []

    def extrapolate(self, x: Tensor, residual: Tensor, scale: Tensor) -> Tensor:
        """Remembers one more evaluation and proposes the next iterate.

        Args:
            x: The iterate, ``batch_shape x k``.
            residual: ``g(x) - x``, ``batch_shape x k``.
            scale: The diagonal of ``D``, which makes residuals comparable,
                ``batch_shape x k``.

        Returns:
            ``batch_shape x k``; ``g(x)`` while nothing is known.
        """
        image, last = x + residual, self._last
        self._last = image, residual
        if last is None:
            return image
        self._dg = [*self._dg[-_MEMORY + 2 :], image - last[0]]
        self._df = [*self._df[-_MEMORY + 2 :], residual - last[1]]
        dg = torch.stack(self._dg, dim=-1)
        weighted = scale.unsqueeze(-1) * torch.stack(self._df, dim=-1)
        target = weighted.mT @ (scale * residual).unsqueeze(-1)
        gamma = _solve_normal(weighted.mT @ weighted, target)
        return image - (dg @ gamma).squeeze(-1)


def _solve_normal(normal: Tensor, target: Tensor) -> Tensor:
    """The least-squares solution; zero where there is none in these digits.

    Differences are scaled to the same length first, for those of earlier iterates are
    orders of magnitude longer. What is then added to the diagonal is a few roundings,
    so that differences that repeat others count little. Where all sites but two or
    three are equal the differences span fewer directions than there are, and rounding
    may leave no factor all the same.

    Args:
        normal: ``batch_shape x k x k``, positive semi-definite.
        target: ``batch_shape x k x 1``.
    """
    known = torch.finfo(normal.dtype)
    diagonal = normal.diagonal(dim1=-2, dim2=-1)
    scale = diagonal.clamp_min(known.tiny).rsqrt().unsqueeze(-1)
    normal = scale * normal * scale.mT
    ridge = _ROUNDING * normal.shape[-1] * known.eps
    normal.diagonal(dim1=-2, dim2=-1).add_(ridge)
    cholesky, info = torch.linalg.cholesky_ex(normal)
    solution = scale * torch.cholesky_solve(scale * target, cholesky)
    solved = (info == 0)[..., None, None] & solution.isfinite().all(-2, keepdim=True)
    return torch.where(solved, solution, 0.0)
