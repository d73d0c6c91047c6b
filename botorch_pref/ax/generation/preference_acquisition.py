"""Ax's acquisition for dueling acquisition functions."""

from __future__ import annotations

from typing import Any

from ax.generators.torch.botorch_modular.acquisition import Acquisition
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.acquisition.analytic import AnalyticAcquisitionFunction
from botorch.models.model import Model
from torch import Tensor


class PreferenceAcquisition(Acquisition):
    """Ax's acquisition, that tells duels of the points that nobody has judged yet.

    Ax hands pending points to input constructors, which then must take them; ours do
    not, because every acquisition function of duels takes them in one way.
    """

    @property
    def reference(self) -> Tensor | None:
        """The point that challengers meet, ``1 x d``; None where pairs are chosen."""
        return getattr(self.acqf, "X_ref", None)

    def _construct_botorch_acquisition(
        self,
        botorch_acqf_class: type[AcquisitionFunction],
        botorch_acqf_options: dict[str, Any],
        model: Model,
    ) -> AcquisitionFunction:
        pending, self.X_pending = self.X_pending, None
        acqf = super()._construct_botorch_acquisition(
            botorch_acqf_class, botorch_acqf_options, model
        )
        self.X_pending = pending
        # BoTorch's analytic functions take none.
        if pending is not None and not isinstance(acqf, AnalyticAcquisitionFunction):
            acqf.set_X_pending(pending)
        return acqf
