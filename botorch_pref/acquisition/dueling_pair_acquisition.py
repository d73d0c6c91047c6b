"""Acquisition functions that choose both points of a duel, or one for a reference."""

from __future__ import annotations

from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.exceptions.errors import UnsupportedError
from botorch.models.model import Model
from botorch.posteriors.posterior import Posterior
from botorch.utils.transforms import (
    average_over_ensemble_models,
    t_batch_mode_transform,
)
from torch import Tensor

from botorch_pref.acquisition.dueling_acquisition import DuelingAcquisition
from botorch_pref.posteriors.difference import difference_mixture


class DuelingPairAcquisition(DuelingAcquisition):
    r"""Worth of the duel of two points.

    Without a reference point both are chosen: ``X`` is ``batch_shape x 2 x d``, to be
    optimised jointly (``optimize_acqf(..., q=2)``). With one, ``X`` is
    ``batch_shape x 1 x d`` and everything is as in :class:`DuelingAcquisition`.

    Pending points are opponents of a challenger. A pair has its opponent already, and
    how much a pair is worth beside another one has no closed form: like BoTorch's
    analytic functions, it takes no pending points.

    Args:
        model: Any BoTorch model whose posterior `difference_mixture` takes.
        X_ref: The reference point, ``1 x d`` (or ``d``), or ``batch_shape x 1 x d``;
            None to choose both points.

    Raises:
        ValueError: If ``X_ref`` holds several points.
    """

    def __init__(self, model: Model, X_ref: Tensor | None = None) -> None:
        if X_ref is None:
            AcquisitionFunction.__init__(self, model=model)
            self.register_buffer("X_ref", None)
            self.set_X_pending()
        else:
            super().__init__(model, X_ref)

    @property
    def _chooses_both(self) -> bool:
        return self.X_ref is None

    def set_X_pending(self, X_pending: Tensor | None = None) -> None:
        """Sets the opponents besides the reference point.

        Args:
            X_pending: ``n x d``, or None.

        Raises:
            UnsupportedError: If there is no reference point and there are some.
        """
        if self._chooses_both and X_pending is not None:
            raise UnsupportedError(
                f"{type(self).__name__} without X_ref does not account for X_pending; "
                "give X_ref, and choose challengers one by one."
            )
        super().set_X_pending(X_pending)

    def forward(self, X: Tensor) -> Tensor:
        """Value of each pair, or of each challenger against the reference point.

        Args:
            X: ``batch_shape x 2 x d``, or ``batch_shape x 1 x d`` with a reference.

        Returns:
            ``batch_shape``, broadcast with the batch of the model.
        """
        forward = self._pair_forward if self._chooses_both else super().forward
        value: Tensor = forward(X)
        return value

    @t_batch_mode_transform(expected_q=2)
    @average_over_ensemble_models  # type: ignore[arg-type]
    def _pair_forward(self, X: Tensor) -> Tensor:
        return self._pair_value(self.model.posterior(X))

    def _pair_value(self, posterior: Posterior) -> Tensor:
        """Value of the duel of the two points of a joint posterior, ``batch_shape``."""
        return self._duel_value(*difference_mixture(posterior))
