"""What the dueling acquisition functions share: a reference point and opponents."""

from __future__ import annotations

from abc import abstractmethod

import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.models.model import Model
from botorch.utils.transforms import (
    average_over_ensemble_models,
    concatenate_pending_points,
    t_batch_mode_transform,
)
from torch import Tensor

from botorch_pref.posteriors.difference import difference_mixture


class DuelingAcquisition(AcquisitionFunction):
    r"""Worth of the duel of a challenger ``x`` with an opponent.

    The opponent is the reference point. Pending points, picked for duels that nobody
    has answered yet, are opponents too, and a challenger may meet any of them,

    .. math:: \alpha(x) = \frac{1}{1 + |X_{pending}|}
        \sum_{r \in \{x_r\} \cup X_{pending}} \alpha(x, r),

    so that a batch chosen one by one (``sequential=True``) spreads: a point dueling
    with itself teaches nothing and improves on nothing. (The hardest opponent instead
    of the mean would put kinks where gradient-based optimisers stop.)

    Args:
        model: Any BoTorch model whose posterior `difference_mixture` takes.
        X_ref: The reference point, ``1 x d`` (or ``d``), or ``batch_shape x 1 x d`` for
            one reference per t-batch or per batch of the model.

    Raises:
        ValueError: If ``X_ref`` holds several points.
    """

    X_ref: Tensor

    def __init__(self, model: Model, X_ref: Tensor) -> None:
        super().__init__(model=model)
        self.register_buffer("X_ref", reference_point(X_ref))
        self.set_X_pending()

    @abstractmethod
    def _duel_value(self, means: Tensor, variance: Tensor) -> Tensor:
        """Value of a duel from the distribution of ``f(x) - f(opponent)``.

        Args:
            means: ``num_components x batch_shape``, components of equal weight.
            variance: ``batch_shape``, of each component.

        Returns:
            ``batch_shape``.
        """

    @t_batch_mode_transform(expected_q=1)
    @average_over_ensemble_models
    @concatenate_pending_points
    def forward(self, X: Tensor) -> Tensor:
        """Mean value of each challenger's duels with its opponents.

        Args:
            X: Challengers, ``batch_shape x 1 x d``.

        Returns:
            ``batch_shape``, broadcast with the batch of the model.
        """
        posterior = self.model.posterior(append_reference(X, self.X_ref))
        num_opponents = X.shape[-2]
        values = [
            self._duel_value(*difference_mixture(posterior, 0, 1 + opponent))
            for opponent in range(num_opponents)
        ]
        return torch.stack(values).mean(0)


def reference_point(X_ref: Tensor) -> Tensor:
    """A detached copy of the reference point with its ``q`` dimension.

    Args:
        X_ref: ``d`` or ``batch_shape x 1 x d``.

    Returns:
        ``batch_shape x 1 x d``.

    Raises:
        ValueError: If ``X_ref`` holds several points.
    """
    points = X_ref.unsqueeze(0) if X_ref.dim() == 1 else X_ref
    if points.dim() < 2 or points.shape[-2] != 1:
        raise ValueError(
            f"X_ref has shape {tuple(X_ref.shape)}; give one reference point, 1 x d, "
            "or batch_shape x 1 x d."
        )
    return points.detach().clone()


def append_reference(X: Tensor, X_ref: Tensor) -> Tensor:
    """Points and the reference as the points of one joint posterior.

    Args:
        X: ``batch_shape x q x d``.
        X_ref: ``ref_batch_shape x 1 x d``, broadcastable with ``X``.

    Returns:
        ``batch_shape x (q + 1) x d`` with the reference last, batches broadcast.
    """
    batch_shape = torch.broadcast_shapes(X.shape[:-2], X_ref.shape[:-2])
    parts = [points.expand(*batch_shape, *points.shape[-2:]) for points in (X, X_ref)]
    return torch.cat(parts, dim=-2)
