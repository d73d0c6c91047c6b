"""Expected utility of the best option of a duel."""

from __future__ import annotations

from botorch.posteriors.posterior import Posterior
from torch import Tensor

from botorch_pref.acquisition.dueling_acquisition import DifferenceAcquisition
from botorch_pref.acquisition.registration.registry import register_acquisition
from botorch_pref.numerics.mixtures.gaussian_mixture import expected_positive_part


@register_acquisition("eubo")
class DuelingEUBO(DifferenceAcquisition):
    r"""Expected utility of the best option (Lin et al. 2022; Astudillo et al. 2023).

    .. math:: \alpha(x_1, x_2) = E[\max(f(x_1), f(x_2))]
        = \mu_1 \Phi(a) + \mu_2 \Phi(-a) + \theta \, \phi(a), \qquad
        a = \frac{\mu_1 - \mu_2}{\theta},

    where :math:`\theta^2` is the variance of :math:`f(x_1) - f(x_2)`; under a
    `SkewNormalPosterior`, the average over its components. With a reference point, such
    as the previous winner, :math:`E[f(x_r)]` is subtracted: a challenger is worth its
    expected improvement on it,

    .. math:: \alpha(x) = E[\max(f(x), f(x_r))] - E[f(x_r)]
        = E[\max(f(x) - f(x_r), 0)],

    which does not depend on the level of the utilities. If answers are free of noise,
    the best pair is one after whose answer the expected utility of the point that is
    then best is largest (Astudillo et al. 2023). A single option without any opponent
    is worth its expected utility.

    Where the difference is certain (:math:`\theta = 0`), as of a point with itself, the
    value is that of the better point. The deviation :math:`\theta` has a kink there;
    its gradient is taken as 0.

    Args:
        model: Any BoTorch model whose posterior `shared_covariance_mixture` takes.
        X_ref: The reference point, ``1 x d``; None to choose all points of the duels.
            See :class:`.DuelingAcquisition`, also for batches and pending points.

    Raises:
        FeedbackError: If ``X_ref`` is no such point.
    """

    def duel_value(self, means: Tensor, variance: Tensor) -> Tensor:
        """See base class."""
        return expected_positive_part(means, variance)

    def duel_values(
        self, posterior: Posterior, first: Tensor, second: Tensor
    ) -> Tensor:
        """See base class."""
        mean = posterior.mean.squeeze(-1)  # type: ignore[attr-defined]
        level = mean[..., second]
        if self.X_ref is not None:
            # 0 exactly for the reference itself: its duels keep their digits.
            level = level - mean[..., -1:]
        gain = super().duel_values(posterior, first, second)
        return gain + level.movedim(-1, 0)

    def value_alone(self, posterior: Posterior) -> Tensor:
        """See base class."""
        mean: Tensor = posterior.mean  # type: ignore[attr-defined]
        return mean[..., 0, 0]
