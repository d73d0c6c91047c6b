r"""Tangents of sites: how those of an engine move with the prior, to first order.

At its solution an engine's sites :math:`s = (\tau, \nu)` are a fixed point
:math:`s = G(\mu, v, s)` of the posterior means :math:`\mu` and variances ``v`` of the
rows ``z``, which depend on the prior and on the sites,

.. math::
    d\mu = \Sigma (d\nu - \mu \circ d\tau) + \partial\mu, \qquad
    dv = -(\Sigma \circ \Sigma) \, d\tau + \partial v,

where :math:`\partial` is the change that the prior makes while the sites stay. Solving
for the change of the sites is implicit differentiation: nothing of the way to the
solution is recorded.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from botorch_pref.inference.conditioning.site_solver import SitePosterior, plus_identity
from botorch_pref.linalg.sparse_design import SparseDesign


class SiteChange(NamedTuple):
    r"""A change of sites.

    Attributes:
        precision: :math:`d\tau`, ``batch_shape x m``.
        force: :math:`d\nu - \mu \circ d\tau`, ``batch_shape x m``: how it pulls at the
            posterior means of the rows.
    """

    precision: Tensor
    force: Tensor


class SiteTangent(Protocol):
    """The protocol of tangents of sites."""

    def __call__(self, of_mean: Tensor, of_variance: Tensor) -> SiteChange:
        """Change of the sites, differentiable in the arguments.

        Args:
            of_mean: The change of row means that the prior makes while sites stay,
                ``batch_shape x m``.
            of_variance: That of row variances, ``batch_shape x m``.
        """


@dataclass(frozen=True)
class _LinearTangent:
    """Sites that move by a matrix, ``batch_shape x 2 m x 2 m``."""

    change: Tensor
    mean: Tensor

    def __call__(self, of_mean: Tensor, of_variance: Tensor) -> SiteChange:
        moved = torch.cat([of_mean, of_variance], dim=-1).unsqueeze(-1)
        tau, nu = (self.change @ moved).squeeze(-1).chunk(2, dim=-1)
        return SiteChange(tau, nu - self.mean * tau)


class SiteMap(ABC):
    """The map from the moments of the rows to an engine's sites.

    Attributes:
        rows: ``A``, whose rows have the sites.
    """

    rows: SparseDesign

    @abstractmethod
    def tangent(self, factor: SitePosterior, mean: Tensor, nu: Tensor) -> SiteTangent:
        """Tangent of the sites where they are a fixed point.

        Args:
            factor: Conditioned on the sites' precisions.
            mean: Posterior means of the rows ``z``, ``batch_shape x m``.
            nu: The sites' shifts, ``batch_shape x m``.
        """


class SiteDerivatives(NamedTuple):
    """Derivatives of sites in what they are made of, ``batch_shape x 2 m x 2 m``.

    Rows are precisions before shifts.

    Attributes:
        moments: In means before variances.
        sites: In the sites that were there before; None for zero.
    """

    moments: Tensor
    sites: Tensor | None = None


class ImplicitSiteMap(SiteMap):
    """Map from moments to sites where the moments depend on the sites in turn."""

    @abstractmethod
    def derivatives(
        self, mean: Tensor, variance: Tensor, sites: Tensor
    ) -> SiteDerivatives:
        """Derivatives of the sites in the moments and in the former sites.

        Args:
            mean: Posterior means of the rows, ``batch_shape x m``.
            variance: Their variances, ``batch_shape x m``.
            sites: Precisions before shifts, ``batch_shape x 2 m``.
        """

    def tangent(self, factor: SitePosterior, mean: Tensor, nu: Tensor) -> SiteTangent:
        """See base class: solves ``2 m`` equations, once."""
        m = mean.shape[-1]
        eye = torch.eye(m, dtype=mean.dtype, device=mean.device)
        covariance = factor.covariance_times(eye)
        sites = torch.cat(torch.broadcast_tensors(factor.tau, nu), dim=-1)
        d = self.derivatives(mean, factor.variance(), sites)
        feedback = _to_moments(d.moments, covariance, mean)
        if d.sites is not None:
            feedback = feedback + d.sites
        change = torch.linalg.solve(plus_identity(-feedback), d.moments)
        return _LinearTangent(change, mean)


def _to_moments(derivatives: Tensor, covariance: Tensor, mean: Tensor) -> Tensor:
    """Derivatives in sites by way of the moments, ``batch_shape x 2 m x 2 m``."""
    in_mean, in_variance = derivatives.chunk(2, dim=-1)
    by_shift = in_mean @ covariance
    by_precision = -by_shift * mean.unsqueeze(-2) - in_variance @ covariance.square()
    return torch.cat([by_precision, by_shift], dim=-1)
