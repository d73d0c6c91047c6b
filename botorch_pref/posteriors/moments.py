"""Moments of utilities, and of their differences."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class Moments(NamedTuple):
    """Posterior means and the covariance around them at some points.

    Attributes:
        means: ``s x batch_shape x q``, one row a draw; ``s = 1`` for a Gaussian.
        covariance: ``batch_shape x q x q``, shared by the draws.
    """

    means: Tensor
    covariance: Tensor


def contrast(moments: Moments, q: int) -> Moments:
    """Moments of the first ``q`` points minus the rest.

    Args:
        moments: Of ``q`` points followed by one reference for all or one each.
        q: How many points there are before the references.

    Returns:
        The moments of ``q`` differences.
    """
    means, c = moments
    cross = c[..., :q, q:]
    covariance = c[..., :q, :q] - cross - cross.mT + c[..., q:, q:]
    return Moments(means[..., :q] - means[..., q:], covariance)
