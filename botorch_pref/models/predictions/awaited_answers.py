"""Utilities as they will be known once the answers of open duels have come."""

from __future__ import annotations

import torch
from botorch.posteriors.posterior import Posterior
from torch import Tensor

from botorch_pref.likelihoods.links.answer_correlation import answer_correlation
from botorch_pref.likelihoods.links.duel_link import DuelLink
from botorch_pref.posteriors.difference import (
    difference_mixture,
    resolved_variance,
    shared_covariance_mixture,
)
from botorch_pref.posteriors.gaussian_posterior import gaussian_posterior
from botorch_pref.posteriors.moments import Moments
from botorch_pref.posteriors.skew_normal_posterior import SkewNormalPosterior


def awaiting_answers(
    posterior: Posterior, link: DuelLink, first: Tensor, second: Tensor
) -> Posterior:
    r"""A posterior in which the answers of some duels of its points have come.

    Nobody knows yet what they will be, so they leave the mean and reduce the
    covariance, as the hallucinated observations of batch upper confidence bounds do
    (Desautels, Krause and Burdick 2014). With the difference
    :math:`u = f(x_1) - f(x_2)` of a duel and the correlation :math:`\rho` of its answer
    :math:`y` with :math:`u`, see `answer_correlation`, the answer counts as an
    observation of :math:`u`, equal to its mean, with Gaussian noise of variance
    :math:`\operatorname{var}(u) (\rho^{-2} - 1)`. Of one duel this is

    .. math:: E_y[\operatorname{cov}(f \mid y)] = \operatorname{cov}(f) - \rho^2
        \frac{\operatorname{cov}(f, u) \operatorname{cov}(u, f)}{\operatorname{var}(u)},

    the covariance that is expected after the answer, exactly so under a Gaussian. Of
    several it is

    .. math:: \operatorname{cov}(f) - C M^{-1} C^T, \qquad
        C_k = \rho_k \frac{\operatorname{cov}(f, u_k)}{\sqrt{\operatorname{var}(u_k)}},
        \quad M_{kl} = \rho_k \rho_l \operatorname{corr}(u_k, u_l) \; (k \ne l),
        \quad M_{kk} = 1 .

    The components of a mixture keep equal weights and one covariance: by Matheron's
    rule each moves towards the common mean as its own differences :math:`u` say.

    Args:
        posterior: Joint posterior that `shared_covariance_mixture` takes.
        link: How answers follow from differences.
        first: Positions of the first points of the duels, ``num_duels``.
        second: Positions of the second points.

    Returns:
        Of the same points: a `SkewNormalPosterior` where the posterior is one, else a
        Gaussian posterior.
    """
    moments = Moments(*shared_covariance_mixture(posterior))
    rho, deviation = _correlations(posterior, link, first, second)

    def scaled(points: Tensor) -> Tensor:
        difference = points[..., first, :] - points[..., second, :]
        return difference * (rho / deviation).unsqueeze(-1)

    spread = moments.spread
    covariance = scaled(moments.covariance) + scaled(spread) @ spread.mT
    one = torch.eye(len(first), dtype=torch.bool, device=rho.device)
    matrix = torch.where(one, 1.0, scaled(covariance.mT))
    gain = torch.cholesky_solve(covariance, torch.linalg.cholesky(matrix)).mT
    stays = gain @ scaled(moments.mean.unsqueeze(-1))
    after = moments.combined(lambda f: f - gain @ scaled(f), stays.squeeze(-1))
    noise = gain * (1 - rho.square()).unsqueeze(-2) @ gain.mT
    return _posterior_like(posterior, after.with_more_covariance(noise))


def _correlations(
    posterior: Posterior, link: DuelLink, first: Tensor, second: Tensor
) -> tuple[Tensor, Tensor]:
    """Correlations of answers with differences, and the deviations of these.

    Returns:
        Both ``batch_shape x num_duels``.
    """
    means, variance = difference_mixture(posterior, first, second)
    _, covariance = shared_covariance_mixture(posterior)
    variances = covariance.diagonal(dim1=-2, dim2=-1)
    # Positive: two options may coincide.
    scale = variances[..., first] + variances[..., second]
    variance = resolved_variance(variance, scale)
    # Parameters of the link may differ in the batch, which then comes last.
    rho = answer_correlation(link, means.movedim(-1, 1), variance.movedim(-1, 0))
    total = variance + (means - means.mean(0)).square().mean(0)
    return rho.movedim(0, -1), total.sqrt()


def _posterior_like(posterior: Posterior, moments: Moments) -> Posterior:
    if isinstance(posterior, SkewNormalPosterior):
        return SkewNormalPosterior.from_moments(moments)
    return gaussian_posterior(moments)
