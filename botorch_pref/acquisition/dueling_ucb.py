"""Upper end of the credible interval of the improvement on the reference point."""

from __future__ import annotations

from botorch.models.model import Model
from torch import Tensor

from botorch_pref.acquisition.dueling_acquisition import DifferenceAcquisition
from botorch_pref.acquisition.reference.incumbent import incumbent
from botorch_pref.acquisition.registration.registry import register_acquisition
from botorch_pref.numerics.argument_ranges import checked_arguments
from botorch_pref.numerics.mixtures.narrowest_interval import narrowest_interval


@register_acquisition("ucb", reference=incumbent)
class DuelingUCB(DifferenceAcquisition):
    r"""Dueling upper credible bound (Benavoli, Azzimonti and Piga 2021, section 5).

    The upper end of the narrowest interval that holds :math:`f(x) - f(x_r)` with
    probability ``level``. Under a Gaussian posterior of the difference,

    .. math:: \alpha(x) = \mu + \Phi^{-1}\big(\tfrac{1 + level}{2}\big) \, \tau .

    At ``x = x_r`` its value is 0. The deviation :math:`\tau` has a kink there; its
    gradient is taken as 0.

    Args:
        model: Any BoTorch model whose posterior `shared_covariance_mixture` takes.
        X_ref: The reference point, ``1 x d``; see :class:`.DuelingAcquisition`, also
            for batches and pending points.
        level: Probability of the interval, in (0, 1).

    Raises:
        ValueError: If ``level`` is not in (0, 1) or ``X_ref`` is no such point.
    """

    parts_differ = True

    @checked_arguments
    def __init__(self, model: Model, X_ref: Tensor, level: float = 0.95) -> None:
        if not 0 < level < 1:
            raise ValueError(f"level is {level}; give a probability between 0 and 1.")
        super().__init__(model, X_ref)
        self.level = level

    def duel_value(self, means: Tensor, variance: Tensor) -> Tensor:
        """See base class."""
        return narrowest_interval(means, variance, self.level)[1]
