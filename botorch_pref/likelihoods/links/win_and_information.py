"""The information that the answer of a duel gives about the utilities."""

from __future__ import annotations

import math

from torch import Tensor

from botorch_pref.likelihoods.links.duel_link import DuelLink


def binary_entropy(log_p: Tensor, log_q: Tensor) -> Tensor:
    r"""Entropy :math:`-p \log p - q \log q` in nats.

    Args:
        log_p: Log probability of one answer, any shape.
        log_q: Log probability of the other, :math:`q = 1 - p`, same shape: given apart
            so that neither tail loses its digits.

    Returns:
        The entropy, same shape, in [0, log 2].
    """
    return -(log_p.exp() * log_p + log_q.exp() * log_q)


def win_and_information(
    link: DuelLink, means: Tensor, variance: Tensor
) -> tuple[Tensor, Tensor]:
    r"""Log probability of a win, and what the answer tells about the utilities.

    The mutual information of the answer and the difference of utilities,

    .. math:: IG = h\big(E[g(u)]\big) - E[h(g(u))],

    in nats: the entropy of the answer less the part that is the judge's noise (Houlsby
    et al. 2011, eq. 2, "Bayesian active learning by disagreement").

    Args:
        link: How the answer follows from the difference :math:`u`.
        means: ``num_components x batch_shape``, components of equal weight.
        variance: ``batch_shape``, of each component, nonnegative.

    Returns:
        :math:`\log E[g(u)]` and :math:`IG`, each ``batch_shape``. The latter is in
        [0, log 2] up to the link's stated error.
    """
    log_win = log_mean(link.log_win_probability(means, variance))
    log_loss = log_mean(link.log_win_probability(-means, variance))
    remaining = link.expected_entropy(means, variance).mean(0)
    return log_win, binary_entropy(log_win, log_loss) - remaining


def log_mean(log_values: Tensor) -> Tensor:
    """Logarithm of the mean over the first dimension.

    Args:
        log_values: ``num_components x batch_shape``, logarithms of what is averaged.

    Returns:
        ``batch_shape``.
    """
    if log_values.shape[0] == 1:
        return log_values[0]
    return log_values.logsumexp(0) - math.log(log_values.shape[0])
