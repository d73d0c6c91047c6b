"""The probability that a trial is valid."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from botorch_pref.errors import UnsupportedFeedbackError
from botorch_pref.feedback import Validity
from botorch_pref.likelihoods.factors.factors import ScalarFactors
from botorch_pref.models.preference_gp import PreferenceGP
from botorch_pref.numerics.argument_ranges import checked_arguments


@checked_arguments
def log_validity_probability(model: PreferenceGP, X: Tensor) -> Tensor:
    r"""Log probability that a trial at each point is valid.

    .. math:: \log P(\mathrm{valid} \mid x)
        = \log \frac{1}{S} \sum_{s=1}^S \int p(\mathrm{valid} \mid f) \,
        N(f; m_s(x), c(x)) \, df
        = \log \frac{1}{S} \sum_{s=1}^S
        \Phi\!\left(\frac{m_s(x)}{\sqrt{\sigma_c^2 + c(x)}}\right),

    with the posterior's means :math:`m_s` and variance :math:`c`; a Gaussian posterior
    has one mean. The last form is that of `AffineProbitLikelihood`. Exact under the
    posterior, in log space, so that it has a gradient where the probability itself is 0
    in floating point.

    Args:
        model: One with a likelihood of `Validity`: of its own, or shared with other
            feedback.
        X: ``batch_shape x q x d``.

    Returns:
        ``batch_shape x q``, each point by itself.

    Raises:
        FeedbackError: ``X`` is no tensor of points.
        UnsupportedFeedbackError: The model has no likelihood of validity, or one whose
            factors have no partition.
    """
    X = model.check_points("X", X)
    likelihood = model.likelihood_of(Validity)
    valid = Validity(torch.tensor([0]), torch.tensor([True]))
    factors = likelihood.factors(valid.map_tensors(lambda t: t.to(X.device)), 1)
    if not isinstance(factors, ScalarFactors):
        raise UnsupportedFeedbackError(
            f"The factors of {type(likelihood).__name__} have no log_partition, hence "
            "no probability of a valid trial; use AffineProbitLikelihood."
        )
    # Each point is a batch element of its own: covariances of points are not needed.
    moments = model.moments(X.unsqueeze(-2).movedim(-3, 0))
    # Rounding alone can leave a variance below zero.
    variance = moments.covariance[..., 0].clamp_min(0.0)
    # A sign that the rows carry does not change the variance.
    sign = factors.rows.coefficients[0, 0]
    log_valid = factors.log_partition(sign * moments.means, variance).value.squeeze(-1)
    return (log_valid.logsumexp(0) - math.log(len(log_valid))).movedim(0, -1)
