"""Rules that value a duel by what its answer says of the maximum over the space."""

from __future__ import annotations

import torch
from botorch.models.model import Model
from botorch.posteriors.posterior import Posterior
from torch import Tensor

from benchmarks.suite.runs.search import Search
from botorch_pref.acquisition import DuelingKG
from botorch_pref.acquisition.duels import DuelingAcquisition, with_others
from botorch_pref.likelihoods.protocol import binary_entropy, log_mean
from botorch_pref.numerics.normal import hazard
from botorch_pref.posteriors.gaussian import (
    duel_mixtures,
    shared_covariance_mixture,
)

CANDIDATES, DRAWS, CHOICES = 256, 16, 48
"""Points at which maxima are looked for; drawn maxima; and how many of the points with
the highest upper bounds a knowledge gradient can choose in the end."""


def candidates(X_ref: Tensor, search: Search) -> Tensor:
    """Points of the cube, half of them near the reference: `num_runs x n x d`."""
    half, dim = CANDIDATES // 2, X_ref.shape[-1]
    spread = torch.tensor([0.1, 0.02]).double().repeat(half // 2).unsqueeze(-1)
    found = []
    for reference, source in zip(X_ref, search.sources, strict=True):
        anywhere = torch.rand(half, dim, generator=source, dtype=torch.double)
        moved = torch.randn(half, dim, generator=source, dtype=torch.double)
        near = (reference + spread * moved).clamp(0.0, 1.0)
        found.append(torch.cat([anywhere, near, reference]))
    return search.designs(torch.stack(found))


def promising(model: Model, X_ref: Tensor, search: Search) -> Tensor:
    """Points anywhere that may be the maximum, `num_runs x n x d`."""
    points = candidates(X_ref, search)
    with torch.no_grad():
        posterior = model.posterior(points)
        upper = (posterior.mean + posterior.variance.sqrt()).squeeze(-1)
    chosen = upper.topk(CHOICES, -1).indices.unsqueeze(-1)
    return points.take_along_dim(chosen, -2)


def kg_of_space(model: Model, X_ref: Tensor, search: Search) -> DuelingKG:
    """Knowledge gradient whose choice is anywhere that may be the maximum."""
    return DuelingKG(model, X_ref, choices=promising(model, X_ref, search))


class MaximumInformation(DuelingAcquisition):
    r"""Information of a duel's answer about the maximum and where it is.

    .. math:: h\big(P(y)\big) - \frac1S \sum_s h\big(P(y \mid f(x^*_s) = f^*_s)\big),

    with maxima :math:`(x^*_s, f^*_s)` of draws of the utility: joint entropy search
    (Hvarfner et al. 2022) for duels, whose options are below the maximum too.

    Args:
        model: Of all runs, with a Gaussian posterior.
        X_ref: `num_runs x 1 x d`.
        maxima: Where draws have their maxima, `num_runs x S x d`.
        heights: The utilities drawn there, `num_runs x S`.
    """

    def __init__(
        self, model: Model, X_ref: Tensor, maxima: Tensor, heights: Tensor
    ) -> None:
        super().__init__(model, X_ref)
        self.maxima, self.heights = maxima, heights
        self._foresee_answers(None)

    def _posterior(self, points: Tensor) -> Posterior:
        return self.model.posterior(with_others(points, self.maxima))

    def duel_values(
        self, posterior: Posterior, first: Tensor, second: Tensor
    ) -> Tensor:
        """See base class."""
        difference, variance = duel_mixtures(posterior, first, second)
        known = self._entropy(*self._below_maxima(posterior, first, second)).mean(0)
        return self._entropy(difference, variance) - known

    def _below_maxima(
        self, posterior: Posterior, first: Tensor, second: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Moments of differences given each maximum, `1 x S x num_duels x batch`."""
        (mean,), covariance = shared_covariance_mixture(posterior)
        options = torch.stack([first, second], -1)
        mean = mean.unsqueeze(-2)
        toward = covariance[..., -self.heights.shape[-1] :, :]
        spread = toward.diagonal(
            offset=toward.shape[-1] - toward.shape[-2], dim1=-2, dim2=-1
        )
        gain = toward / spread.clamp_min(1e-12).unsqueeze(-1)
        heights = self.heights.unsqueeze(-1)
        surprise = heights - mean[..., -self.heights.shape[-1] :].mT
        mean = (mean + gain * surprise)[..., options]
        own, met = gain[..., options].unsqueeze(-1), toward[..., options].unsqueeze(-2)
        joint = covariance[..., options.unsqueeze(-1), options.unsqueeze(-2)]
        joint = joint.unsqueeze(-4) - own * met
        for place in (0, 1):
            mean, joint = _truncated(mean, joint, place, heights)
        difference = mean[..., 0] - mean[..., 1]
        variance = joint[..., 0, 0] + joint[..., 1, 1] - 2 * joint[..., 0, 1]
        places = (-2, -1), (0, 1)
        return (
            difference.movedim(*places).unsqueeze(0),
            variance.clamp_min(1e-12).movedim(*places),
        )

    def _entropy(self, means: Tensor, variance: Tensor) -> Tensor:
        win, loss = (
            log_mean(self.link.log_win_probability(sign * means, variance))
            for sign in (1, -1)
        )
        return binary_entropy(win, loss)


def _truncated(
    mean: Tensor, joint: Tensor, place: int, bound: Tensor
) -> tuple[Tensor, Tensor]:
    """Moments of two utilities once one of them is known to be below a bound."""
    deviation = joint[..., place, place].clamp_min(1e-12).sqrt()
    z = (bound - mean[..., place]) / deviation
    ratio = hazard(z)
    slope = joint[..., place] / deviation.unsqueeze(-1)
    shrunk = (ratio * (ratio + z)).clamp(0.0, 1.0)
    return (
        mean - slope * ratio.unsqueeze(-1),
        joint - shrunk[..., None, None] * slope.unsqueeze(-1) * slope.unsqueeze(-2),
    )


def information_about_maximum(
    model: Model, X_ref: Tensor, search: Search
) -> MaximumInformation:
    """Of maxima among points of each run, drawn anew for each question."""
    points = candidates(X_ref, search)
    with torch.no_grad():
        posterior = model.posterior(points)
        mean, covariance = posterior.mean.squeeze(-1), posterior.covariance_matrix
        values, vectors = torch.linalg.eigh(covariance)
        root = vectors * values.clamp_min(0.0).sqrt().unsqueeze(-2)
        noise = torch.stack(
            [
                torch.randn(DRAWS, points.shape[-2], generator=g, dtype=torch.double)
                for g in search.sources
            ]
        )
        drawn = mean.unsqueeze(-2) + noise @ root.mT
    heights, places = drawn.max(-1)
    maxima = points.take_along_dim(places.unsqueeze(-1), -2)
    return MaximumInformation(model, X_ref, maxima, heights)
