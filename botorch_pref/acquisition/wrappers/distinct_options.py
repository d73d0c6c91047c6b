"""Any acquisition function, kept from options that nobody could tell apart."""

from __future__ import annotations

import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.utils.transforms import t_batch_mode_transform
from torch import Tensor

from botorch_pref.acquisition.dueling_acquisition import append_points, new_duels
from botorch_pref.acquisition.point_arguments import takes_points
from botorch_pref.acquisition.reference.observed_points import observed_points
from botorch_pref.acquisition.wrappers.nearness import nearness
from botorch_pref.acquisition.wrappers.wrapped_acquisition import WrappedAcquisition
from botorch_pref.errors import FeedbackError
from botorch_pref.numerics.argument_ranges import number_tensor

SMALLEST_DIFFERENCE = 0.01
"""A hundredth of the range of each input."""


class DistinctOptions(WrappedAcquisition):
    r"""An acquisition function with a penalty on options that are nearly the same.

    Two options are distinct where their distance in units of the smallest difference,

    .. math:: r^2 = \sum_i \Big(\frac{x_i - x'_i}{\delta_i}\Big)^2 ,

    is at least 1, as where any one input differs by :math:`\delta_i`. Each pair of a
    new point with another new point, a pending point or the reference costs

    .. math:: s \, \max(0, 1 - r^2)^2 ,

    with :math:`s` the spread of the acquisition function's values over the points that
    the model has observed: nothing where options are distinct, continuously
    differentiable, and as much as lies between the best and the worst question where
    they are the same. Over a distance as short as the smallest difference a question's
    worth hardly changes beside :math:`s`, so that where the best question is one of
    options too near each other, what is found has :math:`r` close to 1.

    There the penalty is a wall, for its slope is a hundred times that of what it is
    added to, and L-BFGS-B's line search may end before its 20 steps have led to the
    foot of it: `optimize_acqf` then warns of ``ABNORMAL`` and begins again from other
    points. ``options={"maxls": 60}`` gives it the steps that it needs.

    Args:
        acquisition: Any, with or without a reference point ``X_ref``.
        smallest_difference: :math:`\delta`, positive: one for all inputs, or ``d``.

    Raises:
        FeedbackError: If the model has observed fewer than two points.
        ValueError: If the smallest difference is not positive and finite.
    """

    smallest_difference: Tensor
    weight: Tensor

    def __init__(
        self,
        acquisition: AcquisitionFunction,
        smallest_difference: float | Tensor = SMALLEST_DIFFERENCE,
    ) -> None:
        super().__init__(acquisition)
        points = observed_points(acquisition.model)
        difference = number_tensor(
            "smallest_difference", smallest_difference, points.dtype, points.device
        )
        if not bool((difference.isfinite() & (difference > 0)).all()):
            raise ValueError(
                f"smallest_difference is {smallest_difference}; give a positive number "
                "for all inputs, or one for each."
            )
        self.register_buffer("smallest_difference", difference)
        self.register_buffer("weight", self._spread(points))

    @property
    def X_ref(self) -> Tensor | None:
        """The reference point of the acquisition function, if it has one."""
        return getattr(self.acquisition, "X_ref", None)

    def _spread(self, points: Tensor) -> Tensor:
        """Largest less smallest value over observed points, or over pairs of them."""
        if points.shape[-2] < 2:
            raise FeedbackError(
                "DistinctOptions measures the acquisition function at the points that "
                f"the model has observed, which are {points.shape[-2]}; ask a first "
                "duel of two points of your choice."
            )
        with torch.no_grad():
            if self.X_ref is None:
                paired = torch.stack([points, points.roll(1, -2)], dim=-2)
            else:
                paired = points.unsqueeze(-2)
            values = self.acquisition(paired.movedim(-3, 0))
        finite = values[values.isfinite()]
        return finite.amax() - finite.amin()

    @takes_points
    @t_batch_mode_transform()  # type: ignore[arg-type]
    def forward(self, X: Tensor) -> Tensor:
        """The acquisition function's value less the penalty.

        Args:
            X: ``batch_shape x q x d``.

        Returns:
            ``batch_shape``, broadcast with the batch of the model.
        """
        return self.acquisition(X) - self.weight * self._nearness(X)

    def _nearness(self, X: Tensor) -> Tensor:
        """Sum of ``max(0, 1 - r^2)^2`` over the pairs that count, ``batch_shape``."""
        points = X
        for others in (self.X_pending, self.X_ref):
            if others is not None:
                points = append_points(points, others)
        first, second = new_duels(X.shape[-2], points.shape[-2], X.device)
        scaled = points / self.smallest_difference
        square = (scaled[..., first, :] - scaled[..., second, :]).square().sum(-1)
        return nearness(square).sum(-1)
