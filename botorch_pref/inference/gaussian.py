r"""Solutions of engines with Gaussian sites, and how they move with their prior.

Tangents of sites: how those of an engine move with the prior, to first order.

At its solution an engine's sites :math:`s = (\tau, \nu)` are a fixed point
:math:`s = G(\mu, v, s)` of the posterior means :math:`\mu` and variances ``v`` of the
rows ``z``, which depend on the prior and on the sites,

.. math::
    d\mu = \Sigma (d\nu - \mu \circ d\tau) + \partial\mu, \qquad
    dv = -(\Sigma \circ \Sigma) \, d\tau + \partial v,

where :math:`\partial` is the change that the prior makes while the sites stay. Solving
for the change of the sites is implicit differentiation: nothing of the way to the
solution is recorded.

The tangent of a Gaussian posterior: how it moves with its prior, to first order.

Utilities anywhere have the mean :math:`m(x) + k w` and the covariance
:math:`K_{**} - k M k'` with ``M = A' W A``. With :math:`S = (I - \Sigma T) A`, the
influence of the prior on the posterior means of the rows, a change of the prior moves
the moments of the rows, while sites stay, by

.. math::
    \partial \mu = S (dm + dK w), \qquad \partial v = \mathrm{diag}(S \, dK S'),

which moves the sites as :mod:`botorch_pref.inference.gaussian` says,
and together

.. math::
    dw = -M (dm + dK w) + S' (d\nu - \mu \circ d\tau), \qquad
    dM = -M \, dK M + S' \mathrm{diag}(d\tau) S .

All coefficients are constants: what is recorded is linear in the prior, at the cost of
points squared times the answers, and the solution may be cached. That gives first
derivatives, no higher ones.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from botorch_pref.inference.conditioning import SitePosterior, plus_identity
from botorch_pref.inference.engine import Engine
from botorch_pref.inference.solution import (
    FurtherAnswers,
    PosteriorTerms,
    Sites,
    Solution,
    TermsChange,
    UtilityPrior,
    WarmStart,
)
from botorch_pref.linalg.sparse_design import SparseDesign


def with_gradient_of(value: Tensor, surrogate: Callable[[], Tensor]) -> Tensor:
    """``value`` with the first derivatives of ``surrogate``.

    At an optimum or a fixed point the derivative of the evidence in the
    hyper-parameters is known in closed form (implicit differentiation), so that nothing
    that led there has to be recorded: it enters as the derivative of a linear form.

    Args:
        value: ``batch_shape``, detached.
        surrogate: Makes a tensor of ``batch_shape``; called where gradients are wanted.

    Returns:
        ``batch_shape``.
    """
    if not torch.is_grad_enabled():
        return value
    form = surrogate()
    return value + (form - form.detach())


def covariance_form(
    left: Tensor, right: Tensor, precision: Tensor, covar: Tensor
) -> Tensor:
    r"""The form :math:`\frac12 \langle l r' - W, dK \rangle` in ``K``.

    Args:
        left: ``l``, ``batch_shape x n``.
        right: ``r``, ``batch_shape x n``.
        precision: ``W``, ``batch_shape x n x n``.
        covar: ``K``, ``batch_shape x n x n``, with its graph.

    Returns:
        ``batch_shape``.
    """
    with torch.no_grad():
        outer = left.unsqueeze(-1), right.unsqueeze(-2)
        lacking = torch.addcmul(precision, *outer, value=-1.0)
    # Matrices of points are the largest that an evaluation makes: no product of two.
    return -0.5 * torch.linalg.vecdot(lacking.flatten(-2), covar.flatten(-2))


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
        factor, rows, mean = result.factor, result.site_map.rows, mean.double()
        self.weights, self.precision = result.weights, factor.precision()
        self.tau, self.nu = factor.tau, result.site_shift
        self.influence = factor.influence()
        prior = rows.apply(mean)
        self.rows_mean = prior + factor.mean(self.nu - self.tau * prior)
        self._site_tangent = result.site_map.tangent(factor, self.rows_mean, self.nu)

    def __call__(self, covar: Tensor, mean: Tensor) -> TermsChange:
        """See :class:`.PosteriorTangent`."""
        change, _ = self.with_sites(covar.double(), mean.double())
        return TermsChange(*(part.to(covar) for part in change))

    def with_sites(self, covar: Tensor, mean: Tensor) -> tuple[TermsChange, SiteChange]:
        """The change of the posterior and that of its sites.

        Args:
            covar: ``K``, ``batch_shape x n x n``, with its graph, in double precision.
            mean: ``m``, ``batch_shape x n``, likewise.
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


# In posterior standard deviations, of which a hundredth is never missed.
_MOST_ROUNDING = 1e-2


@dataclass(frozen=True, eq=False)
class GaussianSolution(Solution[PosteriorTerms]):
    """A Gaussian posterior, in terms of sites on rows of utilities.

    Attributes:
        engine: What found it.
        prior: What it was found from.
        result: The numbers.
    """

    engine: Engine
    prior: UtilityPrior
    result: GaussianResult

    @property
    def log_evidence(self) -> Tensor:
        """See base class."""
        return self.result.log_evidence.to(self.prior.covar)

    @cached_property
    def terms(self) -> PosteriorTerms:
        """See base class."""
        result, like = self.result, self.prior.covar
        widening = result.factor.widening()
        return PosteriorTerms(
            self.prior.points,
            result.weights.unsqueeze(-1).to(like),
            result.factor.root().to(like),
            None if widening is None else widening.to(like),
        )

    @property
    def sites(self) -> Sites:
        """The sites, where the engine may start again."""
        return Sites(self.result.site_precision, self.result.site_shift)

    def diagnostics(self) -> dict[str, Any]:
        """See base class."""
        return {
            "converged": not self.failures,
            "iterations": self.result.iterations,
            "residual": self.result.residual,
            "rounding": self.result.rounding,
            "log_evidence": self.log_evidence.detach(),
        }

    @property
    def failures(self) -> tuple[str, ...]:
        """See base class."""
        known = self.result
        text = (
            f"did not converge: after {known.iterations} iterations the residual is "
            f"{known.residual:.1e} posterior standard deviations. Check for extreme "
            "noise or output scale."
        )
        stopped = () if known.converged else (text,)
        lost = (
            "did not converge: its digits are gone. Answers are so precise beside the "
            f"prior that rounding in {self.prior.covar.dtype} may move the posterior "
            f"by {known.rounding:.1e} posterior standard deviations. Use double "
            "precision, a larger noise or a smaller output scale."
        )
        rounded = () if known.rounding <= _MOST_ROUNDING else (lost,)
        finite = self.evidence_failures(self.log_evidence)
        finite = finite or self.weight_failures(known.weights)
        return stopped + rounded + finite

    def tangent(self, mean: Tensor) -> GaussianTangent:
        """See base class."""
        return GaussianTangent(mean, self.result)

    def warm_start(self, further: FurtherAnswers | None = None) -> WarmStart:
        """See base class."""
        start = WarmStart(self.sites)
        if further is None:
            return start
        first = self.engine.initial_sites(further.factors, further.moments)
        return start.followed_by(further.sources, first)
