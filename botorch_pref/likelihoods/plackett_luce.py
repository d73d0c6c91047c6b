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
from botorch_pref.likelihoods.preference_likelihood import PreferenceLikelihood


class PlackettLuceLikelihood(PreferenceLikelihood[Choices | Rankings]):
    r"""An item is chosen out of a set with a probability softmax in the utilities.

    .. math:: P(c \mid S) = e^{f_c} / \sum_{j \in S} e^{f_j}.

    A ranking is a choice of its first item, then of the second out of the rest, and so
    on (Luce 1959; Plackett 1975; equations 3 and 4 of Guo et al. 2020). Pairs are
    Bradley and Terry's: see :class:`PairwiseLogitLikelihood`.

    It has no noise parameter: the kernel's output scale is the only scale.
    """

    explains: ClassVar = {Choices: PlackettLuceFactors, Rankings: PlackettLuceFactors}

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("_like", torch.zeros(()), persistent=False)

    def factors(
        self, feedback: Choices | Rankings, num_points: int
    ) -> PlackettLuceFactors:
        """See base class."""
        return PlackettLuceFactors(feedback.stages(), num_points, self._like)

    @property
    def observation_variance(self) -> Tensor:
        r"""That of the Gumbel noise of one item, :math:`\pi^2 / 6`."""
        return torch.full_like(self._like, math.pi**2 / 6)

    def log_choice_probability(self, utilities: Tensor) -> Tensor:
        """Log probabilities that each item of a set is chosen as its best.

        Args:
            utilities: ``... x k``.

        Returns:
            ``... x k``.
        """
        return utilities.log_softmax(-1)

    def forward(self, function_samples: Tensor) -> Categorical:
        """See base class: which item is chosen.

        Args:
            function_samples: Utilities of the items of a set, ``... x k``.
        """
        return Categorical(logits=function_samples)
