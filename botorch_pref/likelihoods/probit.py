"""Thurstone's likelihoods of utilities that are heard with Gaussian noise."""

from __future__ import annotations

from typing import ClassVar

import torch
from botorch.utils.probability.utils import ndtr
from gpytorch.priors import Prior
from torch import Tensor
from torch.distributions import Bernoulli

from botorch_pref.errors import FeedbackError
from botorch_pref.feedback import Choices, Comparisons, Feedback, Rankings, Validity
from botorch_pref.likelihoods.base import (
    PositiveParameter,
    PreferenceLikelihood,
    register_likelihood,
    register_positive,
    set_positive,
)
from botorch_pref.likelihoods.box_factors import (
    BoxFactors,
    CorrelatedBoxFactors,
    choice_factors,
    ranking_factors,
)
from botorch_pref.likelihoods.links import ProbitLink
from botorch_pref.linalg.sparse_design import SparseDesign, pair_rows, stack_rows
from botorch_pref.numerics.thurstone import (
    thurstone_choice_log_probability,
    thurstone_ranking_log_probability,
)

_THRESHOLD_IN_NOISE_DEVIATIONS = 0.5


@register_likelihood
class PairwiseProbitLikelihood(PreferenceLikelihood[Feedback]):
    r"""Each item's utility is heard with Gaussian noise; the larger one wins.

    .. math::
        P(w \succ l) = \Phi\Big(\frac{f_w - f_l - \delta}{\sqrt{2 \sigma^2}}\Big),
        \qquad
        P(a \sim b) = \Phi\Big(\frac{\delta - f_a + f_b}{\sqrt{2 \sigma^2}}\Big)
        - \Phi\Big(\frac{-\delta - f_a + f_b}{\sqrt{2 \sigma^2}}\Big)

    (Thurstone 1927; Chu and Ghahramani 2005; equation 3 of Jensen and Nielsen 2014; the
    threshold is that of Glenn and David 1960). A choice is of the item that is heard
    as the best of its set, a ranking is the order in which all items were heard, each
    item once (:mod:`botorch_pref.likelihoods.box_factors`).

    Args:
        noise: :math:`\sigma^2`, the variance *per presented item*, positive. Fixed
            unless it has a prior: only its ratio to the kernel's output scale is
            identified. ``raw_noise.requires_grad_(True)`` learns it without a prior.
        tie_threshold: :math:`\delta`, positive: a difference below it is a tie.
            Learned. None if there are no ties.
        noise_prior: A prior on the noise, which is then learned.
        tie_threshold_prior: A prior on the threshold.

    Raises:
        FeedbackError: A parameter that is not positive, or a prior on no threshold.
    """

    explains: ClassVar = {
        Comparisons: BoxFactors,
        Choices: CorrelatedBoxFactors,
        Rankings: CorrelatedBoxFactors,
    }
    noise = PositiveParameter()

    def __init__(
        self,
        noise: float | Tensor = 1.0,
        tie_threshold: float | Tensor | None = None,
        *,
        noise_prior: Prior | None = None,
        tie_threshold_prior: Prior | None = None,
    ) -> None:
        super().__init__()
        register_positive(
            self, "noise", noise, noise_prior, learned=noise_prior is not None
        )
        self._has_ties = tie_threshold is not None
        if tie_threshold is not None:
            register_positive(
                self, "tie_threshold", tie_threshold, tie_threshold_prior, learned=True
            )
        elif tie_threshold_prior is not None:
            raise FeedbackError(
                "tie_threshold_prior without a tie_threshold: pass its initial value."
            )

    @property
    def tie_threshold(self) -> Tensor:
        r""":math:`\delta`; zero where the likelihood has none."""
        if not self._has_ties:
            return torch.zeros_like(self.noise)
        return self.raw_tie_threshold_constraint.transform(self.raw_tie_threshold)

    @tie_threshold.setter
    def tie_threshold(self, value: float | Tensor) -> None:
        if not self._has_ties:
            raise FeedbackError(
                "This PairwiseProbitLikelihood has no tie threshold to set; construct "
                "it with tie_threshold=..."
            )
        set_positive(self, "tie_threshold", value)

    @classmethod
    def default_for(cls, feedback: Feedback | None) -> PairwiseProbitLikelihood:
        """See base class; with a tie threshold, to be learned, where there are ties."""
        if isinstance(feedback, Comparisons) and feedback.ties is not None:
            return cls(tie_threshold=_THRESHOLD_IN_NOISE_DEVIATIONS)
        return cls()

    def factors(self, feedback: Feedback, num_points: int) -> BoxFactors:
        """See base class.

        Raises:
            FeedbackError: There are ties but no tie threshold.
        """
        if isinstance(feedback, Choices):
            return choice_factors(
                feedback.stages(), num_points, self.noise.unsqueeze(-1)
            )
        if isinstance(feedback, Rankings):
            return ranking_factors(
                feedback.orders, num_points, self.noise.unsqueeze(-1)
            )
        assert isinstance(feedback, Comparisons), "of a type in explains"
        return self._duel_factors(feedback, num_points)

    def _duel_factors(self, feedback: Comparisons, num_points: int) -> BoxFactors:
        if feedback.ties is not None and not self._has_ties:
            raise FeedbackError(
                "Comparisons has ties, but the likelihood has no tie threshold; pass "
                "likelihood=PairwiseProbitLikelihood(tie_threshold=...), for example "
                "half the noise's deviation: it is learned from there."
            )
        threshold, noise = self.tie_threshold.unsqueeze(-1), self.noise.unsqueeze(-1)
        batch = torch.broadcast_shapes(
            threshold.shape[:-1], noise.shape[:-1], feedback.batch_shape
        )
        blocks, lower, upper = [], [], []
        if feedback.pairs is not None:
            blocks.append(pair_rows(feedback.pairs, num_points, threshold))
            lower.append(threshold.expand(*batch, feedback.pairs.shape[-2]))
            upper.append(torch.full_like(lower[-1], torch.inf))
        if feedback.ties is not None:
            blocks.append(pair_rows(feedback.ties, num_points, threshold))
            upper.append(threshold.expand(*batch, feedback.ties.shape[-2]))
            lower.append(-upper[-1])
        ends = torch.cat(lower, dim=-1), torch.cat(upper, dim=-1)
        return BoxFactors(stack_rows(blocks), (2 * noise).expand_as(ends[0]), *ends)

    @property
    def observation_variance(self) -> Tensor:
        """The noise of one presented item."""
        return self.noise

    @property
    def link(self) -> ProbitLink:
        """See base class; as if the tie threshold were 0."""
        return ProbitLink(self.noise)

    def win_probability(self, mean: Tensor, variance: Tensor) -> Tensor:
        """See base class; in closed form."""
        return self.link.win_probability(mean - self.tie_threshold, variance)

    def tie_probability(self, mean: Tensor, variance: Tensor) -> Tensor:
        """See base class; zero without a tie threshold."""
        scale = (2 * self.noise + variance).sqrt()
        # Between the tails that are small both, nothing cancels.
        upper, lower = self.tie_threshold - mean.abs(), -self.tie_threshold - mean.abs()
        return ndtr(upper / scale) - ndtr(lower / scale)

    def log_choice_probability(self, utilities: Tensor) -> Tensor:
        """See base class; right to rounding."""
        return thurstone_choice_log_probability(utilities, self.noise.unsqueeze(-1))

    def log_order_probability(self, utilities: Tensor) -> Tensor:
        """See base class; each item is heard once for the whole order."""
        return thurstone_ranking_log_probability(utilities, self.noise)

    def forward(self, function_samples: Tensor) -> Bernoulli:
        """See base class: the probability that the first item wins."""
        scale = (2 * self.noise).sqrt()
        return Bernoulli(probs=ndtr((function_samples - self.tie_threshold) / scale))


@register_likelihood
class AffineProbitLikelihood(PreferenceLikelihood[Validity]):
    r"""Probit likelihood of valid and failed trials: noisy utility above or below zero.

    .. math::
        P(\mathrm{valid} \mid f_i) = \Phi(f_i / \sigma_c), \qquad
        P(\mathrm{failed} \mid f_i) = \Phi(-f_i / \sigma_c)

    (Benavoli et al. 2021, section 3.2.)

    Args:
        noise: :math:`\sigma_c^2`, positive. Fixed unless it has a prior.
        noise_prior: A prior on the noise, which is then learned.

    Raises:
        FeedbackError: The noise is not positive.
    """

    explains: ClassVar = {Validity: BoxFactors}
    noise = PositiveParameter()

    def __init__(
        self, noise: float | Tensor = 1.0, *, noise_prior: Prior | None = None
    ) -> None:
        super().__init__()
        register_positive(
            self, "noise", noise, noise_prior, learned=noise_prior is not None
        )

    def factors(self, feedback: Validity, num_points: int) -> BoxFactors:
        """See base class."""
        noise = self.noise.unsqueeze(-1)
        sign = torch.where(feedback.valid, 1.0, -1.0).to(noise)
        rows = SparseDesign(
            feedback.indices.unsqueeze(-1), sign.unsqueeze(-1), num_points
        )
        batch = torch.broadcast_shapes(noise.shape[:-1], sign.shape[:-1])
        variance = noise.expand(*batch, sign.shape[-1])
        lower = torch.zeros_like(variance)
        return BoxFactors(rows, variance, lower, torch.full_like(lower, torch.inf))

    @property
    def observation_variance(self) -> Tensor:
        """The noise of one point."""
        return self.noise

    def forward(self, function_samples: Tensor) -> Bernoulli:
        """See base class: the probability that a trial is valid."""
        return Bernoulli(probs=ndtr(function_samples / self.noise.sqrt()))
