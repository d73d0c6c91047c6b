"""The prior of utilities at the points of the answers."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from botorch_pref.errors import PrecisionError


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

    def check_finite(self) -> None:
        """Checks that the prior is one, where an engine has failed.

        Raises:
            PrecisionError: A mean or a covariance is not finite.
        """
        for name, part in (("mean", self.mean), ("covariance", self.covar)):
            if not bool(part.isfinite().all()):
                raise PrecisionError(
                    f"The prior {name} of utilities is not finite: look for NaN among "
                    "the hyper-parameters, or what the mean and the kernel return."
                )
