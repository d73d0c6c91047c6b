"""The likelihood of strengths of preference."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from botorch_pref.feedback.strengths import Strengths
from botorch_pref.likelihoods.beta_answers import BetaAnswers
from botorch_pref.likelihoods.factors.beta_factors import BetaFactors
from botorch_pref.likelihoods.registry import register_likelihood
from botorch_pref.linalg.sparse_design import pair_rows


@register_likelihood
class PairwiseBetaLikelihood(BetaAnswers[Strengths]):
    r"""Beta likelihood of strengths of preference on a scale from 0 to 1.

    .. math::
        p(y \mid f) = \mathrm{Beta}(y;\, \nu \mu,\, \nu (1 - \mu)), \qquad
        \mu = \Phi\Big(\frac{f_a - f_b}{\sqrt{2 \sigma^2}}\Big)

    (Jensen and Nielsen 2014, section 3.1.2, whose v is the first item here.) It is not
    log-concave: an answer that the model holds for impossible says little. EP and
    Laplace take it; EP may find no posterior where answers contradict each other at a
    high precision, and then says that it did not converge.

    Args:
        precision: :math:`\nu`, positive: how consistently the scale is used. Learned.
        noise: :math:`\sigma^2`, the variance *per presented item*, positive. Fixed
            unless it has a prior: only its ratio to the kernel's output scale counts.
        precision_prior: A prior on the precision; by default exponential, of the mean
            that rounding to a hundred steps would leave of exact answers.
        noise_prior: A prior on the noise, which is then learned.

    Raises:
        FeedbackError: A parameter that is not positive.
    """

    explains: ClassVar = {Strengths: BetaFactors}

    def factors(self, feedback: Strengths, num_points: int) -> BetaFactors:
        """See base class."""
        precision = self.precision.unsqueeze(-1)
        rows = pair_rows(feedback.pairs, num_points, precision)
        answers = feedback.strengths.to(precision)
        return BetaFactors(rows, answers, precision, self.noise.unsqueeze(-1))

    def preference_probability(self, mean: Tensor, variance: Tensor) -> Tensor:
        """Probability that a strength is above a half: the first item is preferred.

        Equation 45 of Jensen and Nielsen (2014).

        Args:
            mean: Of the difference of utilities, any shape.
            variance: Of the difference, broadcastable with ``mean``; zero for an item
                and itself, where the probability is a half.
        """
        return self.majority_probability(mean, variance)
