"""The prior of utilities at the points of the answers."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class UtilityPrior(NamedTuple):
    """The Gaussian prior of utilities at some points.

    Attributes:
        points: ``X``, ``batch_shape x n x d``, transformed.
        mean: ``m``, ``batch_shape x n``.
        covar: ``K``, ``batch_shape x n x n``.
    """

    points: Tensor
    mean: Tensor
    covar: Tensor
