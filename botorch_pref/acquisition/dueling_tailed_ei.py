"""Expected improvement on the reference point by a model that may be wrong."""

from __future__ import annotations

from botorch.models.model import Model
from torch import Tensor

from botorch_pref.acquisition.dueling_acquisition import DifferenceAcquisition
from botorch_pref.acquisition.reference.incumbent import incumbent
from botorch_pref.acquisition.registration.registry import register_acquisition
from botorch_pref.numerics.mixtures.student_mixture import tailed_positive_part


@register_acquisition("tailed-ei", reference=incumbent)
class DuelingTailedEI(DifferenceAcquisition):
    r"""Expected improvement under heavy tails.

    .. math:: \alpha(x) = E[\max(t, 0)] = \max(\mu, 0)
        + \frac{1}{\pi} \Big(a - |\mu| \arctan \frac{a}{|\mu|}\Big), \qquad
        a = \sqrt3 \, \tau,

    where :math:`t` has Student's distribution with three degrees of freedom and the
    location :math:`\mu` and the scale :math:`\tau` of :math:`f(x) - f(x_r)`; under a
    `SkewNormalPosterior`, the average over its components. It is the improvement that a
    Gaussian promises whose variance is a guess from three degrees of freedom, as the
    scales of a kernel are that were learned from a few answers. Far below the reference
    it falls with the square of :math:`\mu / \tau` and not with its exponential: a hump
    that the model thinks unlikely is looked at as soon as little is to be gained
    elsewhere.

    Args:
        model: Any BoTorch model whose posterior `shared_covariance_mixture` takes.
        X_ref: The reference point, ``1 x d``; see :class:`.DuelingAcquisition`, also
            for batches and pending points.

    Raises:
        FeedbackError: If ``X_ref`` is no such point.
    """

    parts_differ = True

    def __init__(self, model: Model, X_ref: Tensor) -> None:
        super().__init__(model, X_ref)

    def duel_value(self, means: Tensor, variance: Tensor) -> Tensor:
        """See base class."""
        return tailed_positive_part(means, variance)
