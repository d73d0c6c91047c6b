"""Utilities and their differences under any model, and draws of duels."""

from __future__ import annotations

from typing import Any

import torch
from botorch.exceptions.errors import UnsupportedError
from botorch.posteriors.gpytorch import GPyTorchPosterior
from botorch.posteriors.posterior import Posterior
from botorch.sampling.normal import SobolQMCNormalSampler
from torch import Generator, Tensor

from botorch_pref.linalg.covariance import psd_root
from botorch_pref.numerics.argument_ranges import (
    check_probabilities,
    checked_arguments,
)
from botorch_pref.posteriors.gaussian import Moments
from botorch_pref.posteriors.skew_normal import SkewNormalPosterior

# A variance of a difference is off by up to 5 of them, measured on fitted models, in
# units of the summed prior variances.
_ROUNDINGS = 16


def shared_covariance_mixture(posterior: Posterior) -> tuple[Tensor, Tensor]:
    """Component means and shared covariance of any preference model's posterior.

    Of a `SkewNormalPosterior`, or of BoTorch's Gaussian ``GPyTorchPosterior``, a
    mixture of one component; of an ensemble's ``GaussianMixturePosterior`` each member
    is one. Means are ``num_components x batch_shape x q``, the covariance ``batch_shape
    x q x q``.
    """
    moments = moments_of(posterior)
    return moments.means, moments.covariance


def moments_of(posterior: Posterior) -> Moments:
    """The mixture of `shared_covariance_mixture`, with means made at first use.

    So their mean and their spread may cost less than all of them.
    """
    if isinstance(posterior, SkewNormalPosterior):
        return posterior.moments
    if isinstance(posterior, GPyTorchPosterior) and not posterior._is_mt:
        distribution = posterior.distribution
        mean = distribution.mean.unsqueeze(0)
        return Moments(mean, distribution.covariance_matrix)
    raise UnsupportedError(
        f"The difference of two points under a {type(posterior).__name__} is not a "
        "Gaussian mixture with one variance; give a single-output "
        "GPyTorchPosterior or a SkewNormalPosterior."
    )


def draw_utilities(
    posterior: Posterior, num_draws: int, generator: Generator | None = None
) -> Tensor:
    """Joint draws of the utilities, ``num_draws x batch_shape x q``.

    Of a posterior that `shared_covariance_mixture` takes, however near its points are
    to each other. Torch's default generator draws if none is given.
    """
    means, covariance = shared_covariance_mixture(posterior)
    component = torch.randint(len(means), (num_draws,), generator=generator)
    root = psd_root(covariance)
    shape = (num_draws, *root.shape[:-1], 1)
    normal = torch.randn(shape, generator=generator, dtype=torch.float64).to(root)
    return means[component.to(means.device)] + (root @ normal).squeeze(-1)


def difference_mixture(
    posterior: Posterior, first: int | Tensor = 0, second: int | Tensor = 1
) -> tuple[Tensor, Tensor]:
    """Distribution of ``f(x_first) - f(x_second)``: a mixture with one variance.

        m_s = m_s,first - m_s,second,    variance = C_ff + C_ss - 2 C_fs.

    A variance below 0 is rounding, set to 0 with derivative 0. The places of the two
    points may be long vectors, whose dimension comes last. Means are ``num_components x
    batch_shape``.
    """
    moments = moments_of(posterior)
    covariance = moments.covariance
    variance = (
        covariance[..., first, first]
        + covariance[..., second, second]
        - covariance[..., first, second]
        - covariance[..., second, first]
    )
    return _differences(moments, first, second), variance.clamp_min(0.0)


def duel_mixtures(
    posterior: Posterior, first: Tensor, second: Tensor
) -> tuple[Tensor, Tensor]:
    """Means and variances of several differences, with the duels before the batch.

    There, parameters of a link that differ in the batch broadcast as they should. Means
    are ``num_components x num_duels x batch_shape``.
    """
    means, variance = difference_mixture(posterior, first, second)
    return means.movedim(-1, 1), variance.movedim(-1, 0)


def _differences(moments: Moments, first: int | Tensor, second: int | Tensor) -> Tensor:
    i, j = (torch.atleast_1d(torch.as_tensor(p)) for p in (first, second))
    if len(i) >= moments.covariance.shape[-1]:
        # The means of the points are fewer than those of the differences.
        return moments.means[..., first] - moments.means[..., second]
    means = moments.means_of(lambda points: points[..., i, :] - points[..., j, :])
    return means.squeeze(-1) if isinstance(first, int) else means


def central_interval(posterior: Any, level: float) -> tuple[Tensor, Tensor, Tensor]:
    """Mean and ends of central intervals of a posterior, ``batch_shape x q``."""
    check_probabilities("level", torch.tensor(level, dtype=torch.float64))
    tails = torch.tensor([(1 - level) / 2, (1 + level) / 2], dtype=torch.float64)
    mean = getattr(posterior, "mixture_mean", posterior.mean).detach().squeeze(-1)
    lower, upper = posterior.quantile(tails.to(mean)).detach().squeeze(-1)
    return mean, lower, upper


def resolved_variance(variance: Tensor, scale: Tensor) -> Tensor:
    r"""The variance of a difference, plus the part of it that rounding hides.

    .. math:: \max(v, 0) + \rho, \qquad \rho = 16 \, \epsilon \, (k_{aa} + k_{bb})

    The variance v of :math:`f(a) - f(b)` is a difference of larger prior variances k
    (``scale`` is their sum). As a and b approach each other, v falls with the square of
    their distance and the mean with the distance: below its rounding :math:`\rho`, at
    about :math:`\sqrt{16 \epsilon}` lengthscales (6e-8 in double, 1e-3 in single
    precision), the mean is small beside :math:`\sqrt\rho`, and P(one beats the other)
    goes to a half.
    """
    limits = torch.finfo(variance.dtype)
    hidden = _ROUNDINGS * limits.eps * scale
    return (variance.clamp_min(0.0) + hidden).clamp_min(limits.tiny)


def duels_between(utilities: Tensor) -> Tensor:
    """Every duel of items of utilities ``batch_shape x q x 1``, winner first.

    The indices are ``batch_shape x q (q - 1) / 2 x 2``.
    """
    values = utilities.squeeze(-1)
    pairs = torch.combinations(torch.arange(values.shape[-1], device=values.device))
    first, second = pairs.unbind(-1)
    lost = values[..., first] < values[..., second]
    return torch.where(lost.unsqueeze(-1), pairs.flip(-1), pairs)


class DuelSampler(SobolQMCNormalSampler):
    """Answers to the duels of ``q`` points, drawn from their posterior.

    What BoTorch's ``PairwiseSobolQMCNormalSampler`` is for, but with the winner first,
    as ``PairwiseGP`` takes pairs too (BoTorch's, in 0.18.1, have the loser first), and
    without global seeds: Sobol points come from a generator of their own, so that equal
    seeds give equal answers and no random state but this one is read or changed.

    Base samples are shared by t-batches, and the answers about all ``q`` points are
    those of one draw of utilities. Any posterior that takes normal base samples will
    do: Gaussian ones, also of BoTorch's ``PairwiseGP``, and
    :class:`~botorch_pref.posteriors.skew_normal.SkewNormalPosterior`.

    Args:
        sample_shape: Shape of the set of draws.
        seed: Of the Sobol points.
    """

    @checked_arguments
    def __init__(self, sample_shape: torch.Size, seed: int = 0) -> None:
        super().__init__(sample_shape=sample_shape, seed=seed)

    def forward(self, posterior: Posterior) -> Tensor:
        """Answers to all duels of the points, winner first, indices of points.

        Of a posterior over ``batch_shape x q x 1``, with the noise of the answers, or
        the better utility always wins, they are ``sample_shape x batch_shape x q (q -
        1) / 2 x 2`` long: the ``Y`` of ``condition_on_observations``.
        """
        return duels_between(super().forward(posterior))
