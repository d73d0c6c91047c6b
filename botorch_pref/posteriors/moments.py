"""Moments of utilities, and of linear combinations of them."""

from __future__ import annotations

import math
from collections.abc import Callable

from torch import Tensor

Linear = Callable[[Tensor], Tensor]
"""A linear map of points, from ``... x q x r`` to ``... x q' x r`` for any ``r``."""


class Moments:
    """Posterior means and the covariance around them at some points.

    Args:
        means: ``s x batch_shape x q``, one row a draw; ``s = 1`` for a Gaussian.
        covariance: ``batch_shape x q x q``, shared by the draws.
    """

    def __init__(self, means: Tensor, covariance: Tensor) -> None:
        self._means = means
        self.covariance = covariance

    @property
    def means(self) -> Tensor:
        """Means of each draw, ``s x batch_shape x q``."""
        return self._means

    @property
    def mean(self) -> Tensor:
        """Mean over draws, ``batch_shape x q``."""
        return self.means.mean(0)

    @property
    def spread(self) -> Tensor:
        """A root of the covariance of means over draws, ``batch_shape x q x r``."""
        deviation = (self.means - self.mean).movedim(0, -1)
        return deviation / math.sqrt(deviation.shape[-1])

    def means_of(self, linear: Linear) -> Tensor:
        """Means of linear combinations of the utilities.

        Args:
            linear: The combinations, ``q'`` of ``q``.

        Returns:
            ``s x batch_shape x q'``.
        """
        return linear(self.means.movedim(0, -1)).movedim(-1, 0)

    def combined(self, linear: Linear, offset: float | Tensor = 0.0) -> Moments:
        """Moments of linear combinations of the utilities: exact for each draw.

        Args:
            linear: The combinations, ``q'`` of ``q``.
            offset: Added to all of them.
        """
        covariance = congruence(linear, self.covariance)
        return Moments(self.means_of(linear) + offset, covariance)

    def with_more_covariance(self, covariance: Tensor) -> Moments:
        """Moments of the utilities plus independent noise of mean zero.

        Args:
            covariance: Of the noise, ``batch_shape x q x q``.
        """
        return Moments(self.means, self.covariance + covariance)


def contrast(moments: Moments, q: int) -> Moments:
    """Moments of the first ``q`` points minus the rest.

    Args:
        moments: Of ``q`` points followed by one reference for all or one each.
        q: How many points there are before the references.

    Returns:
        The moments of ``q`` differences.
    """
    return moments.combined(lambda points: points[..., :q, :] - points[..., q:, :])


def congruence(linear: Linear, matrix: Tensor) -> Tensor:
    """The covariance of linear combinations.

    Args:
        linear: The combinations, ``q'`` of ``q``.
        matrix: ``batch_shape x q x q``.

    Returns:
        ``batch_shape x q' x q'``.
    """
    return linear(linear(matrix).mT).mT
