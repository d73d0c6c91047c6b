"""Bradley and Terry's likelihood of duels."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor
from torch.distributions import Bernoulli

from botorch_pref.errors import UnsupportedFeedbackError
from botorch_pref.feedback.comparisons import Comparisons
from botorch_pref.likelihoods.factors.logit_factors import LogitFactors
from botorch_pref.likelihoods.links.logit_link import LogitLink
from botorch_pref.likelihoods.preference_likelihood import PreferenceLikelihood
from botorch_pref.likelihoods.registry import register_likelihood
from botorch_pref.linalg.sparse_design import pair_rows


@register_likelihood
class PairwiseLogitLikelihood(PreferenceLikelihood[Comparisons]):
    r"""Logistic likelihood of duels, in the difference of two utilities.

    .. math:: P(w \succ l) = 1 / (1 + e^{-(f_w - f_l)}).

    It has no noise parameter: the kernel's output scale is the only scale. (Bradley and
    Terry 1952.)
    """

    explains: ClassVar = {Comparisons: LogitFactors}

    def factors(self, feedback: Comparisons, num_points: int) -> LogitFactors:
        """See base class.

        Raises:
            UnsupportedFeedbackError: There are ties, which it has no probability for.
        """
        if feedback.ties is not None:
            raise UnsupportedFeedbackError(
                "PairwiseLogitLikelihood has no probability for ties; use "
                "PairwiseProbitLikelihood(tie_threshold=...), which EPPreferenceGP, "
                "LaplacePreferenceGP and SkewPreferenceGP take."
            )
        assert feedback.pairs is not None, "comparisons without ties have pairs"
        return LogitFactors(pair_rows(feedback.pairs, num_points, self._like))

    @property
    def observation_variance(self) -> Tensor:
        r"""Variance of the Gumbel noise of one item, :math:`\pi^2 / 6`."""
        return torch.full_like(self._like, math.pi**2 / 6)

    @property
    def link(self) -> LogitLink:
        """See base class."""
        return LogitLink()

    def win_probability(self, mean: Tensor, variance: Tensor) -> Tensor:
        """See base class; right to rounding."""
        return self.link.win_probability(mean, variance)

    def forward(self, function_samples: Tensor) -> Bernoulli:
        """See base class: the probability that the first item wins."""
        return Bernoulli(logits=function_samples)
