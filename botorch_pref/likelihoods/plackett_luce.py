"""Plackett and Luce's likelihood of choices and rankings."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor
from torch.distributions import Categorical

from botorch_pref.feedback.choices import Choices
from botorch_pref.feedback.rankings import Rankings
from botorch_pref.likelihoods.factors.plackett_luce_factors import PlackettLuceFactors
from botorch_pref.likelihoods.links.logit_link import LogitLink
from botorch_pref.likelihoods.preference_likelihood import PreferenceLikelihood
from botorch_pref.likelihoods.registry import register_likelihood


@register_likelihood
class PlackettLuceLikelihood(PreferenceLikelihood[Choices | Rankings]):
    r"""Softmax likelihood of choices and rankings (Plackett and Luce).

    .. math:: P(c \mid S) = e^{f_c} / \sum_{j \in S} e^{f_j}.

    A ranking is a choice of its first item, then of the second out of the rest, and so
    on (Luce 1959; Plackett 1975; equations 3 and 4 of Guo et al. 2020). Pairs are
    Bradley and Terry's: see :class:`PairwiseLogitLikelihood`.

    It has no noise parameter: the kernel's output scale is the only scale.
    """

    explains: ClassVar = {Choices: PlackettLuceFactors, Rankings: PlackettLuceFactors}

    def factors(
        self, feedback: Choices | Rankings, num_points: int
    ) -> PlackettLuceFactors:
        """See base class."""
        return PlackettLuceFactors(
            feedback.stages(), num_points, self._like, feedback.answers_of_stages()
        )

    @property
    def observation_variance(self) -> Tensor:
        r"""Variance of the Gumbel noise of one item, :math:`\pi^2 / 6`."""
        return torch.full_like(self._like, math.pi**2 / 6)

    @property
    def link(self) -> LogitLink:
        """See base class: a choice out of two is Bradley and Terry's duel."""
        return LogitLink()

    def log_choice_probability(self, utilities: Tensor) -> Tensor:
        """See base class."""
        return utilities.log_softmax(-1)

    def log_order_probability(self, utilities: Tensor) -> Tensor:
        """See base class: the softmax of each item among those behind it."""
        behind = utilities.flip(-1).logcumsumexp(-1).flip(-1)
        return (utilities - behind).sum(-1)

    def forward(self, function_samples: Tensor) -> Categorical:
        """See base class: which item is chosen.

        Args:
            function_samples: Utilities of the items of a set, ``... x k``.
        """
        return Categorical(logits=function_samples)
