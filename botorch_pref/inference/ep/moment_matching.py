"""Sites that give cavities the moments of their tilted distributions."""

from __future__ import annotations

import torch
from torch import Tensor

from botorch_pref.inference.derivatives.site_tangent import (
    ImplicitSiteMap,
    SiteDerivatives,
)
from botorch_pref.likelihoods.factors.factors import ScalarFactors, TiltedSlopes


def matching_sites(
    cavity_mean: Tensor, variance: Tensor, slopes: TiltedSlopes
) -> Tensor:
    """Sites, precisions before shifts, that give cavities the tilted moments.

    Args:
        cavity_mean: ``batch_shape x m``.
        variance: Of the cavities, ``batch_shape x m``.
        slopes: Of the factors' log partitions in the cavity means.

    Returns:
        ``batch_shape x 2 m``.
    """
    first, second, shrink = slopes
    shift = torch.addcmul(first, second, cavity_mean, value=-1.0)
    return torch.cat([-second / shrink, shift / shrink], dim=-1)


class MomentMatching(ImplicitSiteMap):
    """The sites of expectation propagation.

    Args:
        factors: One for each row.
        resolved: ``batch_shape x m``, False for rows whose sites stay.
        variance: Of the rows, ``batch_shape x m``, no less than its rounding error.
    """

    def __init__(
        self, factors: ScalarFactors, resolved: Tensor, variance: Tensor
    ) -> None:
        self._factors, self._resolved, self._variance = factors, resolved, variance
        self.rows = factors.rows

    def derivatives(
        self, mean: Tensor, variance: Tensor, sites: Tensor
    ) -> SiteDerivatives:
        """See base class: each site depends on its own row alone."""
        resolved = self._resolved
        given = torch.broadcast_tensors(mean, self._variance, *sites.chunk(2, dim=-1))
        with torch.enable_grad():
            mean, variance, tau, nu = (t.detach().requires_grad_() for t in given)
            left = 1 - tau * variance
            cavity_variance = variance / left
            cavity_mean = (mean - variance * nu) / left
            slopes = self._factors.tilted_slopes(cavity_mean, cavity_variance)
            new = matching_sites(cavity_mean, cavity_variance, slopes)
            changes = [
                torch.autograd.grad(
                    part.sum(), (mean, variance, tau, nu), retain_graph=True
                )
                for part in new.chunk(2, dim=-1)
            ]
        rows = [
            [torch.diag_embed(torch.where(resolved, change, 0.0)) for change in of_part]
            for of_part in changes
        ]
        blocks = [torch.cat(of_part, dim=-1) for of_part in rows]
        return SiteDerivatives(*torch.cat(blocks, dim=-2).chunk(2, dim=-1))
