"""Acquisition function around another one, to which pending points are handed."""

from __future__ import annotations

from botorch.acquisition.acquisition import AcquisitionFunction
from torch import Tensor

from botorch_pref.numerics.argument_ranges import checked_arguments


class WrappedAcquisition(AcquisitionFunction):
    """Acquisition function that values points by another one, and changes the value.

    Args:
        acquisition: What is wrapped; its pending points are those of the wrapper, which
            is in log space where it is.
    """

    @checked_arguments
    def __init__(self, acquisition: AcquisitionFunction) -> None:
        super().__init__(model=acquisition.model)
        self.acquisition = acquisition
        self._log = acquisition._log
        super().set_X_pending(getattr(acquisition, "X_pending", None))

    def set_X_pending(self, X_pending: Tensor | None = None) -> None:
        """Hands pending points to the wrapped acquisition function.

        Args:
            X_pending: ``n x d``, or None.
        """
        self.acquisition.set_X_pending(X_pending)
        super().set_X_pending(X_pending)
