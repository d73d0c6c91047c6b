r"""Likelihoods of stops on lines: Thurstone's and the continuous logit.

Thurstone's has noise that is correlated along the line. A person hears :math:`u(t) =
f(x(t)) + \epsilon(t)` at position ``t`` and stops at the largest. Two designs that are
nearly the same are heard nearly the same:

.. math:: Cov(\epsilon(t), \epsilon(s)) = \sigma^2 e^{-|t - s| / \ell}.

Far ends are heard as two options of a duel are. Near the stop the noise of a difference
shrinks with the distance, so that how exactly somebody stops follows from the noise and
from how flat the utility is, and a finer grid of positions changes little.

The continuous logit has a density of stops in closed form, for Laplace's approximation,
which takes no noise that positions share.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from botorch.utils.probability.mvnxpb import MVNXPB
from gpytorch.priors import Prior
from torch import Tensor
from torch.distributions import Categorical

from botorch_pref.errors import FeedbackError
from botorch_pref.feedback import LineChoices, line_positions
from botorch_pref.likelihoods.factors import CorrelatedBoxFactors
from botorch_pref.likelihoods.logit import GumbelNoise, SoftmaxFactors
from botorch_pref.likelihoods.probit import boxed_rows
from botorch_pref.likelihoods.protocol import (
    GaussianNoise,
    register_likelihood,
    register_positive,
)
from botorch_pref.numerics.argument_checks import number_tensor


@register_likelihood
class LineProbitLikelihood(GaussianNoise[LineChoices]):
    r"""The stop was heard as better than the other positions of its line.

    .. math:: P(\mathrm{stop\ at\ } t_0) = P\big(u(t_0) \ge u(t_j)
        \text{ for all } j\big), \quad u(t) = f(x(t)) + \epsilon(t),

    of the positions :math:`t_j` of :func:`~botorch_pref.feedback.line_positions`, and
    noise that is correlated along the line as above.

    Args:
        noise: :math:`\sigma^2`, the variance per heard design, positive. Fixed unless
            it has a prior.
        correlation_length: :math:`\ell`, in lengths of the line, positive.
        noise_prior: A prior on the noise, which is then learned.

    Raises:
        FeedbackError: The noise or the length is not positive.
    """

    explains: ClassVar = {LineChoices: CorrelatedBoxFactors}
    correlation_length: Tensor

    def __init__(
        self,
        noise: float | Tensor = 1.0,
        correlation_length: float = 0.25,
        *,
        noise_prior: Prior | None = None,
    ) -> None:
        """Registers the noise, and the length, which is not learned, as a buffer."""
        super().__init__()
        register_positive(self, "noise", noise, noise_prior)
        length = number_tensor("correlation_length", correlation_length, torch.double)
        if length.dim() or not bool(length > 0):
            raise FeedbackError(
                f"correlation_length is {correlation_length}; give a positive share of "
                "the line, over which its noise changes."
            )
        self.register_buffer("correlation_length", length)

    def factors(self, feedback: LineChoices, num_points: int) -> CorrelatedBoxFactors:
        """Makes factors of stops, heard as better than all other positions compared.

        Raises:
            FeedbackError: The answers have no datapoints at their positions yet.
        """
        points = _placed_points(feedback)
        noise = self.noise.unsqueeze(-1)
        positions = line_positions(feedback.chosen.to(noise))
        passed = points[..., 1:]
        independent, shared = difference_noise(
            positions, passed >= 0, self.correlation_length
        )
        stops = points[..., :1].expand_as(passed)
        return boxed_rows(stops, passed, independent, shared, num_points, noise)

    def log_stop_probability(self, utilities: Tensor, positions: Tensor) -> Tensor:
        """Computes the log probability that the first of positions is heard as best.

        Args:
            utilities: ``... x k``.
            positions: ``... x k``, in [0, 1].
        """
        return stop_log_probability(
            utilities, positions, self.noise, self.correlation_length
        )

    def forward(self, function_samples: Tensor) -> Categorical:
        """Returns the distribution of the stop among equidistant positions of a line.

        Args:
            function_samples: Utilities at ``k`` positions from end to end, ``... x k``.
        """
        k = function_samples.shape[-1]
        positions = torch.linspace(0, 1, k).to(function_samples)
        return Categorical(
            probs=stop_probabilities(
                function_samples, positions, self.noise, self.correlation_length
            )
        )


@register_likelihood
class LineLogitLikelihood(GumbelNoise[LineChoices]):
    r"""The continuous logit of stops: a softmax over all positions of a line.

    .. math:: p(t_0) = \frac{e^{f(x(t_0))}}{\int_0^1 e^{f(x(t))} dt}, \qquad
        P(\mathrm{stop\ at\ } t_0)
        = \frac{s_0 e^{f(x(t_0))}}{\sum_j s_j e^{f(x(t_j))}},

    the density (Ben-Akiva, Litinas and Tsunokawa 1985), and the probability of the stop
    among the positions :math:`t_j` of :func:`~botorch_pref.feedback.line_positions`, of
    which each stands for the share :math:`s_j` of the line that is nearest to it. More
    positions make the sum the integral, so that near ones do not count twice. Far ends
    are heard as two options of a logistic duel are.

    It has no noise parameter: the kernel's output scale is the only scale.
    """

    explains: ClassVar = {LineChoices: SoftmaxFactors}

    def factors(self, feedback: LineChoices, num_points: int) -> SoftmaxFactors:
        """Makes factors of stops: choices among a line's positions, by their shares.

        Raises:
            FeedbackError: The answers have no datapoints at their positions yet.
        """
        points = _placed_points(feedback)
        positions = line_positions(feedback.chosen.to(self._like))
        offsets = line_shares(positions, points >= 0).log()
        # Those that are not compared, -1, stand last, as padding of sets does.
        order = (points < 0).long().argsort(dim=-1, stable=True)
        order = order.expand(offsets.shape)
        return SoftmaxFactors(
            points.expand(offsets.shape).gather(-1, order),
            num_points,
            self._like,
            offsets=offsets.gather(-1, order),
        )

    def log_stop_probability(self, utilities: Tensor, positions: Tensor) -> Tensor:
        """Computes the log probability of a stop at the first of some positions.

        Args:
            utilities: ``... x k``.
            positions: ``... x k``, in [0, 1].
        """
        shares = line_shares(positions, torch.ones_like(positions, dtype=torch.bool))
        return (utilities + shares.log()).log_softmax(-1)[..., 0]

    def forward(self, function_samples: Tensor) -> Categorical:
        """Returns the distribution of the stop among equidistant positions of a line.

        Args:
            function_samples: Utilities at ``k`` positions from end to end, ``... x k``.
        """
        k, like = function_samples.shape[-1], function_samples
        positions = torch.linspace(0, 1, k, dtype=like.dtype, device=like.device)
        shares = line_shares(positions, torch.ones_like(positions, dtype=torch.bool))
        return Categorical(logits=function_samples + shares.log())


def _placed_points(feedback: LineChoices) -> Tensor:
    """Returns the datapoints at the positions of answers, which a model added."""
    if feedback.points is None:
        raise FeedbackError(
            "LineChoices has no datapoints at its positions; a model adds them, or "
            "LineChoices.placed(datapoints) does."
        )
    return feedback.points


def line_shares(positions: Tensor, present: Tensor) -> Tensor:
    """Computes the share of the line that is nearest to each position, ``... x k``.

    Args:
        positions: ``... x k``, in [0, 1], those that are present different.
        present: ``... x k`` booleans; the share of others is 0.
    """
    ordered, order = torch.where(present, positions, torch.inf).sort(-1)
    middles = (0.5 * (ordered[..., 1:] + ordered[..., :-1])).clamp_max(1.0)
    ends = torch.zeros_like(ordered[..., :1])
    limits = torch.cat([ends, middles, ends + 1], dim=-1)
    return torch.zeros_like(ordered).scatter(-1, order, limits.diff(dim=-1))


def line_correlation(positions: Tensor, length: Tensor) -> Tensor:
    """Computes noise correlations of positions, ``... x k`` to ``... x k x k``."""
    distance = (positions.unsqueeze(-1) - positions.unsqueeze(-2)).abs()
    return (-distance / length.to(positions)).exp()


def stop_covariance(positions: Tensor, length: Tensor) -> Tensor:
    """Computes covariances of the noise of the first position less that of each other.

    Positions are ``... x (1 + k)``, from 0 to 1, and covariances ``... x k x k``, over
    the variance of one position's noise. The ``length`` is that of the correlation.
    """
    correlation = line_correlation(positions, length)
    stop, passed = correlation[..., :1, 1:], correlation[..., 1:, 1:]
    return 1 - stop - stop.mT + passed


@torch.no_grad()
def difference_noise(
    positions: Tensor, present: Tensor, length: Tensor
) -> tuple[Tensor, Tensor]:
    r"""Splits noise of the stop less that of other positions, over :math:`\sigma^2`.

    The covariance of this noise is split into ``R = D + N`` with the diagonal ``D`` as
    large as the smallest eigenvalue of the correlations allows.

    Args:
        positions: ``... x (1 + k)``, the stop first.
        present: ``... x k`` booleans, which of the others are compared with it.
        length: Of the correlation.

    Returns:
        The diagonal of ``D``, ``... x k``, and ``N``, ``... x k x k``; positions that
        are not compared have ones in ``D`` and zeros in ``N``.
    """
    covariance = stop_covariance(positions, length)
    pair_present = present.unsqueeze(-1) & present.unsqueeze(-2)
    identity = torch.eye(covariance.shape[-1]).to(covariance)
    covariance = torch.where(pair_present, covariance, identity)
    variance = covariance.diagonal(dim1=-2, dim2=-1)
    scale = (variance.unsqueeze(-1) * variance.unsqueeze(-2)).sqrt()
    smallest = torch.linalg.eigvalsh(covariance / scale)[..., :1]
    # A little less than the eigenvalue keeps the rest positive semi-definite.
    independent = 0.999 * smallest * variance
    shared = covariance - torch.diag_embed(independent)
    independent = torch.where(present, independent, 1.0)
    return independent, torch.where(pair_present, shared, 0.0)


def stop_probabilities(
    utilities: Tensor, positions: Tensor, noise: Tensor, length: Tensor
) -> Tensor:
    """Computes probabilities that a person stops at each position, ``... x k``.

    Args:
        utilities: ``... x k``.
        positions: ``k``, in [0, 1].
        noise: The variance per heard design.
        length: Of the correlation.
    """
    logs = []
    for stop in range(len(positions)):
        order = [stop, *(place for place in range(len(positions)) if place != stop)]
        first = utilities[..., order], positions[order]
        logs.append(stop_log_probability(*first, noise, length))
    # Normalised, since each is right within a hundredth only.
    return torch.stack(logs, dim=-1).softmax(-1)


def stop_log_probability(
    utilities: Tensor, positions: Tensor, noise: Tensor, length: Tensor
) -> Tensor:
    """Computes the log probability that the first of positions is heard as best.

    Noise is correlated along the line, see `line_correlation`. The result is ``...``.
    Bivariate conditioning (Trinh and Genz 2015, BoTorch's `MVNXPB`) is right within a
    hundredth for up to seventeen positions, and to rounding for up to three.

    Args:
        utilities: ``... x k``.
        positions: ``... x k``, in [0, 1].
        noise: The variance per heard design, broadcast with ``...``.
        length: Of the correlation.
    """
    covariance = stop_covariance(positions, length)
    upper = (utilities[..., :1] - utilities[..., 1:]) / noise.sqrt().unsqueeze(-1)
    bounds = torch.stack([torch.full_like(upper, -torch.inf), upper], dim=-1)
    covariance = covariance.expand(*upper.shape, upper.shape[-1])
    return MVNXPB(covariance.contiguous(), bounds).solve()
