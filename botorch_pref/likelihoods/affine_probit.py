"""The likelihood of valid and failed trials on the shared utility."""

from __future__ import annotations

from typing import ClassVar

import torch
from botorch.utils.probability.utils import ndtr
from gpytorch.priors import Prior
from torch import Tensor
from torch.distributions import Bernoulli

from botorch_pref.feedback.validity import Validity
from botorch_pref.likelihoods.factors.box_factors import BoxFactors
from botorch_pref.likelihoods.positive_parameter import (
    PositiveParameter,
    register_positive,
)
from botorch_pref.likelihoods.preference_likelihood import PreferenceLikelihood
from botorch_pref.likelihoods.registry import register_likelihood
from botorch_pref.linalg.sparse_design import SparseDesign


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
