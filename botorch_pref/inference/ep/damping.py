"""The length of steps of expectation propagation."""

from __future__ import annotations

import torch
from torch import Tensor

from botorch_pref.inference.ep.anderson import AndersonMemory
from botorch_pref.inference.ep.ep_state import EPState

# Steps this short, for want of a posterior after longer ones, lead nowhere.
_MIN_DAMPING = 2.0**-20


class Damping:
    """Share of a step that each element of a batch takes.

    Args:
        state: The first.
    """

    def __init__(self, state: EPState) -> None:
        self._factor = torch.ones_like(state.mismatch)
        self._calm = state.proper
        self._is_needed = not state.is_proper

    def next_sites(self, state: EPState, memory: AndersonMemory) -> Tensor:
        """The next sites: accelerated where that pays and keeps precisions positive.

        Else damped.

        Args:
            state: The present one.
            memory: Of earlier ones; takes in this one.

        Returns:
            ``batch_shape x 2 m``.
        """
        accelerated = memory.extrapolate(state.sites, state.step, state.scale)
        tau = accelerated.chunk(2, dim=-1)[0]
        if not self._is_needed and bool((tau >= 0).all()):
            return accelerated
        damped = state.sites + self._factor.unsqueeze(-1) * state.step
        asked = damped.chunk(2, dim=-1)[0]
        proper = ((tau >= 0) | (asked < 0)).all(-1)
        return torch.where((self._calm & proper).unsqueeze(-1), accelerated, damped)

    def judge(self, calm: Tensor, everywhere: bool) -> None:
        """Halves the steps of elements that were not calm, doubles those that were.

        Args:
            calm: ``batch_shape``.
            everywhere: Whether all are.
        """
        if everywhere and not self._is_needed:
            return
        grown, halved = (2 * self._factor).clamp_max(1.0), 0.5 * self._factor
        self._calm, self._factor = calm, torch.where(calm, grown, halved)
        self._is_needed = not everywhere or bool((self._factor < 1).any())

    def ends(self, reached: Tensor) -> bool:
        """Whether all have reached the tolerance, or steps too short to lead there.

        Args:
            reached: ``batch_shape``.
        """
        if self._is_needed:
            reached = reached | (self._factor < _MIN_DAMPING)
        return bool(reached.all())
