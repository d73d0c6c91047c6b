"""Information about good points, and now and then a look where few would expect one."""

from __future__ import annotations

from collections.abc import Callable

import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.models.model import Model
from torch import Generator, Tensor

from botorch_pref.acquisition.dueling_eiig import DuelingEIIG
from botorch_pref.acquisition.dueling_tailed_ei import DuelingTailedEI
from botorch_pref.acquisition.point_arguments import takes_points
from botorch_pref.acquisition.reference.incumbent import incumbent
from botorch_pref.acquisition.registration.registry import register_acquisition
from botorch_pref.likelihoods.links.duel_link import DuelLink
from botorch_pref.numerics.argument_ranges import checked_arguments


@register_acquisition("exploring-eiig", reference=incumbent)
class DuelingExploringEIIG(AcquisitionFunction):
    r"""`DuelingEIIG`, and with probability :math:`\epsilon` `DuelingTailedEI`.

    Which of the two is drawn once, when the instance is made:

    .. math:: \alpha(x) = \begin{cases}
        E[\max(t, 0)] & \text{with probability } \epsilon, \\
        k \log P(x \succ x_r) + IG(x, x_r) & \text{otherwise.} \end{cases}

    The second refines: it is local, and learns the most from each answer. The first
    leaves a hill that is known, and is by no answer kept from where the model is too
    sure that nothing is to be found. By chance and not in turn, so that no plan of how
    many questions there will be is needed and none has to be remembered.

    Args:
        model: Any BoTorch model whose posterior `shared_covariance_mixture` takes.
        X_ref: The reference point, ``1 x d``; see :class:`.DuelingAcquisition`, also
            for batches and pending points.
        epsilon: Probability of exploring, in [0, 1].
        k: As of `DuelingEIIG`.
        link: As of `DuelingEIIG`.
        generator: Source of the draw, on the CPU; torch's default one if None.

    Raises:
        UnsupportedFeedbackError: If no link is given and the likelihood has none.
        ValueError: If ``epsilon`` is no probability, ``k`` is negative or ``X_ref`` is
            no such point.
    """

    @checked_arguments
    def __init__(
        self,
        model: Model,
        X_ref: Tensor,
        epsilon: float = 1 / 3,
        k: float = 0.2,
        link: DuelLink | None = None,
        generator: Generator | None = None,
    ) -> None:
        if not 0 <= epsilon <= 1:
            raise ValueError(f"epsilon is {epsilon}; give a probability.")
        super().__init__(model=model)
        explores = float(torch.rand((), generator=generator)) < epsilon
        # Made in any case, for its checks.
        refining = DuelingEIIG(model, X_ref, k, link)
        self.chosen = DuelingTailedEI(model, X_ref) if explores else refining

    @property
    def X_ref(self) -> Tensor | None:
        """The reference point."""
        return self.chosen.X_ref

    @property
    def feasible_value(self) -> Callable[[Tensor, Tensor], Tensor] | None:
        """`feasible_value` of the function that was drawn; None where it has none."""
        return getattr(self.chosen, "feasible_value", None)

    def set_X_pending(self, X_pending: Tensor | None = None) -> None:
        """Hands pending points to the function that was drawn.

        Args:
            X_pending: ``n x d``, or None.
        """
        self.chosen.set_X_pending(X_pending)
        super().set_X_pending(X_pending)

    @takes_points
    def forward(self, X: Tensor) -> Tensor:
        """Mean value of the duels of the new points, by the function that was drawn.

        Args:
            X: New points, ``batch_shape x q x d``.

        Returns:
            ``batch_shape``, broadcast with the batch of the model.
        """
        value: Tensor = self.chosen(X)
        return value
