"""Result of an engine in weight space."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from botorch_pref.errors import PrecisionError


@dataclass(frozen=True)
class WeightPosterior:
    """A Gaussian posterior of the weights of features.

    Attributes:
        mean: ``batch_shape x d``.
        covariance: ``batch_shape x d x d``.
        log_evidence: ``batch_shape``, or a lower bound of it; carries the exact
            gradient in the precision of the prior, of first order.
        converged: Whether the residual reached the tolerance in every batch element.
        iterations: Newton steps or steps of the bound.
        residual: The largest violation of the fixed point, in posterior standard
            deviations.
    """

    mean: Tensor
    covariance: Tensor
    log_evidence: Tensor
    converged: bool
    iterations: int
    residual: float


def precision_cholesky(precision: Tensor) -> Tensor:
    """The Cholesky factor of a posterior precision.

    Args:
        precision: ``batch_shape x d x d``.

    Raises:
        PrecisionError: It is not positive definite in this floating point type.
    """
    factor, info = torch.linalg.cholesky_ex(precision)
    if bool(info.any()):
        raise PrecisionError(
            f"The posterior precision of the weights is singular in {precision.dtype}: "
            "features depend on each other and eta is below their rounding. Use double "
            "precision, a larger eta, or features of similar size."
        )
    return factor
