"""Anderson acceleration of a fixed-point iteration, batched."""

from __future__ import annotations

import torch
from torch import Tensor

_MEMORY = 4


class AndersonMemory:
    r"""Extrapolates a fixed point of ``g`` from the last few residuals ``g(x) - x``.

    With the differences :math:`\Delta X, \Delta F` of the last iterates and residuals,
    the next iterate is :math:`x + f - (\Delta X + \Delta F) \gamma`, where
    :math:`\gamma` minimises :math:`\|D (f - \Delta F \gamma)\|` (Walker and Ni 2011,
    type II).
    """

    def __init__(self) -> None:
        self._points: list[Tensor] = []
        self._residuals: list[Tensor] = []

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
        self._points = [*self._points[-_MEMORY + 1 :], x]
        self._residuals = [*self._residuals[-_MEMORY + 1 :], residual]
        if len(self._points) == 1:
            return x + residual
        dx = torch.stack(self._points, dim=-1).diff(dim=-1)
        df = torch.stack(self._residuals, dim=-1).diff(dim=-1)
        weighted = scale.unsqueeze(-1) * df
        normal = weighted.mT @ weighted
        target = weighted.mT @ (scale * residual).unsqueeze(-1)
        gamma = torch.linalg.pinv(normal, hermitian=True) @ target
        return x + residual - ((dx + df) @ gamma).squeeze(-1)
