"""Information that the answer of a duel gives about the utilities."""

from __future__ import annotations

from botorch.models.model import Model
from torch import Tensor

from botorch_pref.acquisition.dueling_acquisition import DifferenceAcquisition
from botorch_pref.acquisition.registration.registry import register_acquisition
from botorch_pref.likelihoods.links.duel_link import DuelLink
from botorch_pref.likelihoods.links.win_and_information import win_and_information


@register_acquisition("bald")
class DuelingBALD(DifferenceAcquisition):
    r"""Bayesian active learning by disagreement (Houlsby et al. 2011) for duels.

    .. math:: \alpha(x_1, x_2) = h\big(E[g(f(x_1) - f(x_2))]\big)
        - E[h(g(f(x_1) - f(x_2)))],

    the mutual information, in nats, of the answer and the utilities, with the link
    :math:`g` of the likelihood and the binary entropy :math:`h`. It is the information
    term of :class:`~botorch_pref.acquisition.DuelingEIIG`, for two free points too, and
    a closed form, ``win_and_information`` of the links. Under the
    probit link it is right within 8.1e-8 nats, so that it may fall below 0 by as much
    where nothing is to be learned.

    Args:
        model: Any BoTorch model whose posterior `shared_covariance_mixture` takes.
        X_ref: The reference point, ``1 x d``; None to choose all points. See
            :class:`.DuelingAcquisition`, also for batches and pending points.
        link: How the answer follows from the difference of utilities. By default that
            of ``model.likelihood``, with its present parameters.

    Raises:
        UnsupportedFeedbackError: If no link is given and the likelihood has none.
        FeedbackError: If ``X_ref`` is no such point.
    """

    def __init__(
        self,
        model: Model,
        X_ref: Tensor | None = None,
        link: DuelLink | None = None,
    ) -> None:
        super().__init__(model, X_ref)
        self._foresee_answers(link)

    def duel_value(self, means: Tensor, variance: Tensor) -> Tensor:
        """See base class."""
        return win_and_information(self.link, means, variance)[1]
