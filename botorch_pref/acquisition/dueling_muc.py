"""Maximally uncertain challenge."""

from __future__ import annotations

from botorch.models.model import Model
from torch import Tensor

from botorch_pref.acquisition.dueling_acquisition import DifferenceAcquisition
from botorch_pref.acquisition.reference.observed_points import champion
from botorch_pref.acquisition.registration.registry import register_acquisition
from botorch_pref.likelihoods.links.duel_link import DuelLink


@register_acquisition("muc", reference=champion)
class DuelingMUC(DifferenceAcquisition):
    r"""Maximally uncertain challenge (Fauvel and Chalk 2021).

    .. math:: \alpha(x) = Var\big[g(f(x) - f(x_r))\big],

    the variance under the posterior of the probability that the challenger wins, with
    the link :math:`g` of the likelihood: the part of not knowing the answer that asking
    can cure, without the judge's noise. The reference :math:`x_r` is meant to be the
    champion, the maximiser of the posterior mean
    (:func:`~botorch_pref.acquisition.champion` among observed points). Over components
    the law of total variance adds what they disagree on,

    .. math:: \alpha(x) = \frac1S \sum_s Var_s[g(u)]
        + \frac1S \sum_s \Big(E_s[g(u)] - \frac1S \sum_t E_t[g(u)]\Big)^2,

    and within one it is a closed form but for a fixed smooth quadrature, right for the
    smallest and largest deviations: :meth:`DuelLink.win_variance`.

    Args:
        model: Any BoTorch model whose posterior `shared_covariance_mixture` takes.
        X_ref: The reference point, ``1 x d``; see :class:`.DuelingAcquisition`, also
            for batches and pending points.
        link: How the answer follows from the difference of utilities. By default that
            of ``model.likelihood``, with its present parameters.

    Raises:
        UnsupportedFeedbackError: If no link is given and the likelihood has none.
        FeedbackError: If ``X_ref`` is no such point.
    """

    def __init__(
        self, model: Model, X_ref: Tensor, link: DuelLink | None = None
    ) -> None:
        super().__init__(model, X_ref)
        self._foresee_answers(link)

    def duel_value(self, means: Tensor, variance: Tensor) -> Tensor:
        """See base class."""
        within = self.link.win_variance(means, variance).mean(0)
        wins = self.link.win_probability(means, variance)
        return within + (wins - wins.mean(0)).square().mean(0)
