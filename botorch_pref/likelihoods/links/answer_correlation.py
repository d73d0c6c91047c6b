"""The correlation of a duel's answer with the difference of the two utilities."""

from __future__ import annotations

import torch
from torch import Tensor

from botorch_pref.likelihoods.links.duel_link import DuelLink
from botorch_pref.likelihoods.links.win_and_information import log_mean


def answer_correlation(link: DuelLink, means: Tensor, variance: Tensor) -> Tensor:
    r"""Correlation of a win with the difference of utilities.

    With the answer :math:`y`, 1 for a win and 0 for a loss, and
    :math:`G = E[y] = E[g(u)]`, Stein's identity gives for a mixture of :math:`S`
    Gaussians :math:`N(\mu_s, \tau^2)` with the mean :math:`\mu`

    .. math:: \rho = \frac{\operatorname{cov}(u, y)}
        {\sqrt{\operatorname{var}(u) \, G (1 - G)}}, \qquad
        \operatorname{cov}(u, y) = \frac1S \sum_s \Big( (\mu_s - \mu) E_s[g(u)]
        + \tau^2 E_s[g'(u)] \Big).

    A mean given :math:`y` is linear in :math:`y`, which has two values, so that
    :math:`\rho^2` is the share of the variance of :math:`u` that the answer is expected
    to take away: at most :math:`2 / \pi` under a Gaussian, without noise and for even
    chances, and 0 for an answer that is known already.

    Args:
        link: How the answer follows from the difference :math:`u`.
        means: ``num_components x batch_shape``, components of equal weight.
        variance: ``batch_shape``, of each component, positive.

    Returns:
        ``batch_shape``, in [0, 1].
    """
    log_wins = link.log_win_probability(means, variance)
    log_losses = link.log_win_probability(-means, variance)
    deviation = means - means.mean(0)
    total = variance + deviation.square().mean(0)
    slope = link.win_slope(means, variance).mean(0)
    covariance = (deviation * log_wins.exp()).mean(0) + variance * slope
    # In logarithms, so that a certain answer has a deviation with a derivative.
    deviations = (0.5 * (log_mean(log_wins) + log_mean(log_losses))).exp()
    tiny = torch.finfo(deviations.dtype).tiny
    return covariance / (deviations * total.sqrt()).clamp_min(tiny)
