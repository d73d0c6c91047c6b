"""Base class of likelihoods of answers in (0, 1) with a Beta distribution."""

from __future__ import annotations

import math

import torch
from botorch.utils.probability.utils import ndtr
from gpytorch.priors import GammaPrior, Prior
from torch import Tensor
from torch.distributions import Beta

from botorch_pref.likelihoods.factors.beta_factors import beta_partition
from botorch_pref.likelihoods.positive_parameter import (
    PositiveParameter,
    register_positive,
)
from botorch_pref.likelihoods.preference_likelihood import (
    FeedbackT,
    PreferenceLikelihood,
)
from botorch_pref.numerics.beta_majority import beta_majority

_MIN_NODES, _MAX_NODES, _HALF_WIDTH = 65, 8193, 8.5
# An answer rounded to steps of 1/s has a deviation of 1/(s sqrt(12)) at least, that of
# this precision where the mean is a half: 3 s^2.
_FINEST_SCALE = 100
# Nodes across the rise of a majority that the largest precision makes steep.
_NODES_PER_RISE = 4.0


class BetaAnswers(PreferenceLikelihood[FeedbackT]):
    r"""Predictions of answers :math:`y \sim \mathrm{Beta}(\nu \mu, \nu (1 - \mu))`.

    The mean is :math:`\mu = \Phi(z / \sqrt{2 \sigma^2})`. All take the mean and the
    variance of a Gaussian ``z``; average over the components of a mixture.

    Args:
        precision: :math:`\nu`, positive. Learned.
        noise: :math:`\sigma^2`, positive. Fixed unless it has a prior.
        precision_prior: A prior on the precision; by default exponential, of the mean
            that rounding to a hundred steps would leave of exact answers.
        noise_prior: A prior on the noise, which is then learned.
    """

    precision = PositiveParameter()
    noise = PositiveParameter()

    def __init__(
        self,
        precision: float | Tensor = 10.0,
        noise: float | Tensor = 1.0,
        *,
        precision_prior: Prior | None = None,
        noise_prior: Prior | None = None,
    ) -> None:
        super().__init__()
        if precision_prior is None:
            precision_prior = GammaPrior(1.0, 1 / (3 * _FINEST_SCALE**2))
        register_positive(self, "precision", precision, precision_prior, learned=True)
        register_positive(
            self, "noise", noise, noise_prior, learned=noise_prior is not None
        )

    @property
    def observation_variance(self) -> Tensor:
        r"""The :math:`\sigma^2` by which the mean answer is blurred."""
        return self.noise

    def expected_answer(self, mean: Tensor, variance: Tensor) -> Tensor:
        r""":math:`E[y] = \Phi(m / \sqrt{2 \sigma^2 + s})`.

        Equation 53 of Jensen and Nielsen (2014), where :math:`(\sigma^*)^2` is the
        predictive variance ``s``.

        Args:
            mean: ``m``, any shape.
            variance: ``s``, broadcastable with ``mean``.
        """
        return ndtr(mean / (2 * self.noise + variance).sqrt())

    def answer_log_density(
        self, answer: Tensor, mean: Tensor, variance: Tensor
    ) -> Tensor:
        r""":math:`\log \int p(y \mid z) N(z; m, s) dz`, by quadrature.

        Equations 38 and 41 of Jensen and Nielsen (2014).

        Args:
            answer: ``y``, in (0, 1), any shape.
            mean: ``m``, broadcastable with ``answer``.
            variance: ``s``, positive, broadcastable with ``answer``.
        """
        scale = (2 * self.noise).sqrt()
        partition = beta_partition(answer, self.precision, scale, mean, variance)
        return partition.value

    def forward(self, function_samples: Tensor) -> Beta:
        """The distribution of the answer.

        Args:
            function_samples: ``z``, any shape.
        """
        standard = function_samples / (2 * self.noise).sqrt()
        # A shape of zero is none; the smallest number is as good as zero.
        tiny = torch.finfo(standard.dtype).tiny
        above = (self.precision * ndtr(standard)).clamp_min(tiny)
        below = (self.precision * ndtr(-standard)).clamp_min(tiny)
        return Beta(above, below)

    def majority_probability(self, mean: Tensor, variance: Tensor) -> Tensor:
        r""":math:`P(y > \tfrac12) = \int P(y > \tfrac12 \mid z) N(z; m, s) dz`.

        By the trapezoidal rule. Differentiable in ``mean`` and ``variance``, the nodes
        being constants, where the variance is positive.

        Args:
            mean: ``m``, any shape.
            variance: ``s``, broadcastable with ``mean``; zero for an item and itself.
        """
        mean, variance = torch.broadcast_tensors(mean, variance)
        variance = variance.clamp_min(torch.finfo(variance.dtype).tiny)
        with torch.no_grad():
            deviation = variance.sqrt()
            scale, precision = (2 * self.noise).sqrt(), self.precision
            rises = deviation / scale * (1 + precision).sqrt()
            wanted = 2 * _HALF_WIDTH * _NODES_PER_RISE * float(rises.max())
            num_nodes = min(max(math.ceil(wanted), _MIN_NODES), _MAX_NODES)
            unit = torch.linspace(
                -_HALF_WIDTH, _HALF_WIDTH, num_nodes, dtype=mean.dtype
            )
            unit = unit.to(mean.device).view(-1, *([1] * mean.dim()))
            offset = deviation * unit
            nodes = mean + offset
            shapes = self.forward(nodes)
            above = beta_majority(shapes.concentration1, shapes.concentration0)
            spacing = deviation * (2 * _HALF_WIDTH / (num_nodes - 1))
        # Zero in value: nodes stay where they are when the mean moves. They are not
        # subtracted from it, since a small offset would be lost in their rounding.
        moved = mean.detach() - mean
        squares = (offset + moved).square() / variance
        density = (-0.5 * squares).exp() / (2 * math.pi * variance).sqrt()
        return spacing * (above * density).sum(0)
