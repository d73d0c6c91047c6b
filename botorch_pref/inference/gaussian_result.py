"""Result of an engine with a Gaussian posterior."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from botorch_pref.inference.conditioning.site_solver import SitePosterior
from botorch_pref.inference.derivatives.site_tangent import SiteMap


@dataclass(frozen=True)
class GaussianResult:
    r"""A Gaussian posterior, its evidence, and what the engine knows of itself.

    The posterior of utilities anywhere is :math:`m(x) + K(x, X) w` with covariance
    :math:`K_{**} - (K(x, X) Q)(K(x, X) Q)^T`, and :math:`(K(x, X) P)(K(x, X) P)^T` more
    where sites have negative precisions.

    Attributes:
        weights: ``w``, ``batch_shape x n``.
        log_evidence: ``batch_shape``; carries the exact gradient in everything that the
            engine was given (kernel, mean and likelihood parameters), of first order.
        site_precision: ``tau``, ``batch_shape x m``, of sites on ``z = A f(X)``.
        site_shift: ``nu``, ``batch_shape x m``.
        factor: The conditioned rows; ``factor.root()`` is ``Q``, ``factor.widening()``
            is ``P``.
        site_map: What makes the sites of the moments of the rows.
        converged: Whether the residual reached the tolerance in every batch element.
        iterations: Newton steps or EP sweeps taken.
        residual: The largest violation of the fixed point, in posterior standard
            deviations.
        rounding: How far rounding of the prior covariance may move the posterior, in
            the same unit: see :func:`.lost_digits`.
    """

    weights: Tensor
    log_evidence: Tensor
    site_precision: Tensor
    site_shift: Tensor
    factor: SitePosterior
    site_map: SiteMap
    converged: bool
    iterations: int
    residual: float
    rounding: float
