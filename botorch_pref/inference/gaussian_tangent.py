r"""The tangent of a Gaussian posterior: how it moves with its prior, to first order.

Utilities anywhere have the mean :math:`m(x) + k w` and the covariance
:math:`K_{**} - k M k'` with ``M = A' W A``. With :math:`S = (I - \Sigma T) A`, the
influence of the prior on the posterior means of the rows, a change of the prior moves
the moments of the rows, while sites stay, by

.. math::
    \partial \mu = S (dm + dK w), \qquad \partial v = \mathrm{diag}(S \, dK S'),

which moves the sites as :mod:`botorch_pref.inference.derivatives.site_tangent` says,
and together

.. math::
    dw = -M (dm + dK w) + S' (d\nu - \mu \circ d\tau), \qquad
    dM = -M \, dK M + S' \mathrm{diag}(d\tau) S .

All coefficients are constants: what is recorded is linear in the prior, at the cost of
points squared times the answers, and the solution may be cached. That gives first
derivatives, no higher ones.
"""

from __future__ import annotations

from torch import Tensor

from botorch_pref.inference.derivatives.posterior_tangent import TermsChange
from botorch_pref.inference.derivatives.site_tangent import SiteChange
from botorch_pref.inference.gaussian_result import GaussianResult


class GaussianTangent:
    r"""The tangent of a Gaussian posterior.

    Args:
        mean: Prior mean of the points, ``batch_shape x n``.
        result: The solution.

    Attributes:
        weights: ``w``, ``batch_shape x n``.
        precision: ``M``, ``batch_shape x n x n``.
        tau: Site precisions, ``batch_shape x m``.
        nu: Site shifts, ``batch_shape x m``.
        influence: ``S``, ``batch_shape x m x n``.
        rows_mean: :math:`\mu`, ``batch_shape x m``.
    """

    def __init__(self, mean: Tensor, result: GaussianResult) -> None:
        factor, rows = result.factor, result.site_map.rows
        self.weights, self.precision = result.weights, factor.precision()
        self.tau, self.nu = factor.tau, result.site_shift
        self.influence = factor.influence()
        prior = rows.apply(mean)
        self.rows_mean = prior + factor.mean(self.nu - self.tau * prior)
        self._site_tangent = result.site_map.tangent(factor, self.rows_mean, self.nu)

    def __call__(self, covar: Tensor, mean: Tensor) -> TermsChange:
        """See :class:`.PosteriorTangent`."""
        return self.with_sites(covar, mean)[0]

    def with_sites(self, covar: Tensor, mean: Tensor) -> tuple[TermsChange, SiteChange]:
        """The change of the posterior and that of its sites.

        Args:
            covar: ``K``, ``batch_shape x n x n``, with its graph.
            mean: ``m``, ``batch_shape x n``, with its graph.
        """
        covar, mean = covar - covar.detach(), mean - mean.detach()
        s, precision = self.influence, self.precision
        moved = mean.unsqueeze(-1) + covar @ self.weights.unsqueeze(-1)
        of_variance = ((s @ covar) * s).sum(-1)
        sites = self._site_tangent((s @ moved).squeeze(-1), of_variance)
        weights = s.mT @ sites.force.unsqueeze(-1) - precision @ moved
        spread = s.mT @ (sites.precision.unsqueeze(-1) * s)
        change = TermsChange(weights, spread - precision @ covar @ precision)
        return change, sites
