"""The likelihood of ratings on a continuous scale."""

from __future__ import annotations

from typing import ClassVar

from botorch_pref.feedback.ratings import Ratings
from botorch_pref.likelihoods.beta_answers import BetaAnswers
from botorch_pref.likelihoods.factors.beta_factors import BetaFactors
from botorch_pref.likelihoods.registry import register_likelihood
from botorch_pref.linalg.sparse_design import point_rows


@register_likelihood
class BetaRatingLikelihood(BetaAnswers[Ratings]):
    r"""Beta likelihood of ratings of items on a scale from 0 to 1.

    .. math::
        p(y \mid f_i) = \mathrm{Beta}(y;\, \nu \mu,\, \nu (1 - \mu)), \qquad
        \mu = \Phi\Big(\frac{f_i}{\sqrt{2 \sigma^2}}\Big)

    (Jensen and Nielsen 2014, section 3.2.1 and equation 11, factor 2 included.) It is
    not log-concave: see :class:`PairwiseBetaLikelihood`.

    Args:
        precision: :math:`\nu`, positive: how consistently the scale is used. Learned.
        noise: :math:`\sigma^2`, positive: :math:`\sqrt{2 \sigma^2}` is the unit of
            utility on the scale. Fixed unless it has a prior.
        precision_prior: A prior on the precision; by default exponential, of the mean
            that rounding to a hundred steps would leave of exact answers.
        noise_prior: A prior on the noise, which is then learned.

    Raises:
        FeedbackError: A parameter that is not positive.
    """

    explains: ClassVar = {Ratings: BetaFactors}

    def factors(self, feedback: Ratings, num_points: int) -> BetaFactors:
        """See base class."""
        precision = self.precision.unsqueeze(-1)
        answers = feedback.ratings.to(precision)
        rows = point_rows(feedback.indices, num_points, precision)
        return BetaFactors(rows, answers, precision, self.noise.unsqueeze(-1))
