"""Value of a question, less a price where nobody could tell its options apart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from torch import Tensor

from botorch_pref.acquisition.wrappers.nearness import nearness
from botorch_pref.acquisition.wrappers.wrapped_acquisition import WrappedAcquisition
from botorch_pref.ax.generation.search.told_apart import ToldApart

_MARGIN = 1.25
"""The price begins here, in smallest differences, so that the best options above it
differ by one."""


class QuestionValue(WrappedAcquisition):
    r"""Value of the options of a question, found by their coordinates.

    .. math:: \alpha(x) - 2 c \, \Big( \frac{(1.25^2 - r^2)_+}{1.25^2 - 1} \Big)^2

    with the acquisition function :math:`\alpha`, the squared difference :math:`r^2` of
    options that differ least or from the question that was asked (see `ToldApart`), and
    the spread :math:`c` of the values of ``draws``: a question whose options nobody
    could tell apart (:math:`r < 1`) is worth less than one drawn at random, and a
    smooth slope leads out of there.

    Args:
        acquisition: What values options, ``batch_shape x q x d``.
        features: From coordinates to such options.
        apart: What the options must differ from, besides the points that are pending.
        draws: Some questions, ``b x q x d``, features.
    """

    def __init__(
        self,
        acquisition: AcquisitionFunction,
        features: Callable[[Tensor], Tensor],
        apart: ToldApart | None,
        draws: Tensor,
    ) -> None:
        super().__init__(acquisition)
        self._features = features
        self._apart = apart
        self._price = 0.0 if apart is None else 2 * self._spread(draws, apart)

    def forward(self, X: Tensor) -> Tensor:
        """The value, less the price.

        Args:
            X: Coordinates, ``b x q x c`` or as ``features`` takes them.

        Returns:
            ``b``.
        """
        options = self._features(X)
        value: Tensor = self.acquisition(options)
        if self._apart is None:
            return value
        apart = replace(self._apart, others=self.X_pending)
        gap = torch.minimum(apart.smallest_gap(options), apart.novelty(options))
        return value - self._price * nearness(gap, free=_MARGIN**2, full=1.0)

    def _spread(self, draws: Tensor, apart: ToldApart) -> float:
        """Distance of the largest value from that of a middling question."""
        alike = draws.clone()
        alike[..., -1:, :] = (
            draws[..., :1, :] if apart.reference is None else apart.reference[:1]
        )
        with torch.no_grad():
            values = self.acquisition(draws)
            largest = torch.cat([values, self.acquisition(alike)]).nan_to_num().max()
            spread = largest - values.nan_to_num().median()
        return max(float(spread), 1e-6)
