"""The probability that a trial is valid."""

from __future__ import annotations

import math

from torch import Tensor

from botorch_pref.errors import UnsupportedFeedbackError
from botorch_pref.feedback import Validity
from botorch_pref.likelihoods.affine_probit import AffineProbitLikelihood
from botorch_pref.likelihoods.links.duel_link import ProbitLink
from botorch_pref.models.preference_gp import PreferenceGP


def log_validity_probability(model: PreferenceGP, X: Tensor) -> Tensor:
    r"""Log probability that a trial at each point is valid.

    .. math:: \log P(\mathrm{valid} \mid x)
        = \log \frac{1}{S} \sum_{s=1}^S
        \Phi\!\left(\frac{m_s(x)}{\sqrt{\sigma_c^2 + c(x)}}\right),

    with the posterior's means :math:`m_s` and variance :math:`c`; a Gaussian posterior
    has one mean. Exact under the posterior, in log space, so that it has a gradient
    where the probability itself is 0 in floating point.

    Args:
        model: One with a likelihood of `Validity`: of its own, or shared with other
            feedback.
        X: ``batch_shape x q x d``.

    Returns:
        ``batch_shape x q``, each point by itself.

    Raises:
        UnsupportedFeedbackError: The model has no likelihood of validity, or one with
            another link.
    """
    likelihood = model._likelihood_of(Validity)
    if not isinstance(likelihood, AffineProbitLikelihood):
        raise UnsupportedFeedbackError(
            f"The probability of a valid trial under {type(likelihood).__name__} is "
            "not known; use AffineProbitLikelihood."
        )
    # Each point is a batch element of its own: covariances of points are not needed.
    moments = model._moments(X.unsqueeze(-2).movedim(-3, 0))
    means, variance = moments.means.squeeze(-1), moments.covariance[..., 0, 0]
    # A duel is heard with two noises, a trial with one.
    link = ProbitLink(likelihood.noise / 2)
    # Rounding alone can leave a variance below zero.
    log_valid = link.log_win_probability(means, variance.clamp_min(0.0))
    return (log_valid.logsumexp(0) - math.log(len(means))).movedim(0, -1)
