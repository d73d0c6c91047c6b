r"""Solutions of engines with Gaussian sites, and how they move with their prior.

At its solution an engine's sites :math:`s = (\tau, \nu)` are a fixed point
:math:`s = G(\mu, v, s)` of the posterior means :math:`\mu` and variances ``v`` of the
rows ``z``, which depend on the prior and on the sites,

.. math::
    d\mu = \Sigma (d\nu - \mu \circ d\tau) + \partial\mu, \qquad
    dv = -(\Sigma \circ \Sigma) \, d\tau + \partial v,

where :math:`\partial` is the change that the prior makes while the sites stay. Solving
for the change of the sites is implicit differentiation: nothing of the way to the
solution is recorded.

Utilities anywhere have the mean :math:`m(x) + k w` and the covariance
:math:`K_{**} - k M k'` with ``M = A' W A``. With :math:`S = (I - \Sigma T) A`, the
influence of the prior on the posterior means of the rows, a change of the prior moves
the moments of the rows, while sites stay, by

.. math::
    \partial \mu = S (dm + dK w), \qquad \partial v = \mathrm{diag}(S \, dK S'),

and together

.. math::
    dw = -M (dm + dK w) + S' (d\nu - \mu \circ d\tau), \qquad
    dM = -M \, dK M + S' \mathrm{diag}(d\tau) S .

All coefficients are constants: what is recorded is linear in the prior, at the cost of
points squared times the answers, and the solution may be cached. That gives first
derivatives, no higher ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function

from botorch_pref.errors import InferenceWarning, warn_caller
from botorch_pref.inference.conditioning import SitePosterior, plus_identity
from botorch_pref.inference.engine import (
    Engine,
    FurtherAnswers,
    OfScales,
    PosteriorTangent,
    PosteriorTerms,
    Sites,
    Solution,
    TermsChange,
    UtilityPrior,
    WarmStart,
    not_finite,
)
from botorch_pref.likelihoods.factors import ScalarFactors
from botorch_pref.linalg.covariance import RowKernel, differentiated_once
from botorch_pref.linalg.krylov import krylov_solution
from botorch_pref.numerics.quadrature import TiltedMoments


def with_gradient_of(value: Tensor, surrogate: Callable[[], Tensor]) -> Tensor:
    """Returns ``value`` with the first derivatives of ``surrogate``, ``batch_shape``.

    At an optimum or a fixed point the derivative of the evidence in the
    hyper-parameters is known in closed form (implicit differentiation), so that nothing
    that led there has to be recorded: it enters as the derivative of a linear form,
    which is made only where gradients are wanted. The form's own value does not count,
    and its second derivative, which is not the evidence's, is an error.
    """
    if not torch.is_grad_enabled():
        return value
    form = surrogate()
    linear: Tensor = _Linear.apply(form) if form.requires_grad else form
    return value + (linear - form.detach())


class _Linear(Function):
    """A form whose second derivatives, not those of the evidence, are refused."""

    @staticmethod
    def forward(ctx: Any, form: Tensor) -> Tensor:
        """See base class."""
        ctx.save_for_backward(form)
        return form.view_as(form)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        """Passes the gradient on, which has no derivative itself."""
        return differentiated_once(gradient, *ctx.saved_tensors)


def prior_form(
    covar: Tensor,
    mean: Tensor,
    posterior: SitePosterior,
    weights: Tensor,
    pull: Tensor | float = 0.0,
) -> Tensor:
    r"""Returns zero, with the gradient of an evidence in its prior, ``batch_shape``.

    That is the gradient of :math:`\frac12 \langle (w + 2q) w' - A' W A, dK \rangle + (w
    + q)' dm` in the covariance ``K`` and the mean ``m`` of the points. ``w`` are the
    ``weights`` of the points, ``batch_shape x n``, and :math:`A' W A` is
    ``posterior.precision()``. The ``pull`` ``q`` is there for engines whose evidence is
    not stationary at their solution, as Laplace's; others have 0.
    """
    with torch.no_grad():
        outer = (weights + 2 * pull).unsqueeze(-1), weights.unsqueeze(-2)
        lacking = torch.addcmul(posterior.precision(), *outer, value=-1.0)
    form: Tensor = _PriorForm.apply(covar, mean, lacking, weights + pull)
    return form


class _PriorForm(Function):
    """`prior_form`: matrices of points take so long that their product is left out."""

    @staticmethod
    def forward(
        ctx: Any, covar: Tensor, mean: Tensor, lacking: Tensor, pull: Tensor
    ) -> Tensor:
        """Returns zeros of the batch, and stores what the gradient is made of.

        ``lacking`` is ``A' W A - (w + 2 q) w'``, minus twice the gradient in ``covar``,
        and ``pull`` is ``w + q``, that in ``mean``.
        """
        ctx.save_for_backward(lacking, pull)
        ctx.shapes = covar.shape, mean.shape
        return pull.new_zeros(pull.shape[:-1])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Multiplies the gradients in prior covariance and mean by that of the form."""
        lacking, pull = ctx.saved_tensors
        of_covar, of_mean = ctx.shapes
        in_covar = (-0.5 * gradient)[..., None, None] * lacking
        in_mean = gradient.unsqueeze(-1) * pull
        return in_covar.sum_to_size(of_covar), in_mean.sum_to_size(of_mean), None, None


class SiteChange(NamedTuple):
    r"""A change of sites: of their precisions, and how it pulls at the row means.

    Attributes:
        precision: :math:`d\tau`, ``batch_shape x m``.
        force: :math:`d\nu - \mu \circ d\tau`, ``batch_shape x m``.
    """

    precision: Tensor
    force: Tensor


SiteTangent = Callable[[Tensor, Tensor], SiteChange]
"""Function from the changes of the means and variances of rows that the prior makes
while sites stay, each ``batch_shape x m``, to the change of the sites."""


Slopes = tuple[Tensor, ...]
"""Derivatives of the new precision of each row and of its new shift, each in one
quantity of the same row, ``batch_shape x m``."""


Derivatives = tuple[Tensor, Tensor | None]
"""Derivatives of sites in the moments of their rows and in the former sites.

Both are ``batch_shape x 2 m x 2 m``, precisions before shifts and means before
variances; None stands for zero."""


def site_equations(
    derivatives: Callable[[Tensor, Tensor, Tensor], Derivatives],
    posterior: SitePosterior,
    mean: Tensor,
    nu: Tensor,
) -> tuple[Tensor, Tensor]:
    """Linearises sites that depend on moments, which the sites move in turn.

    Changes ``ds`` of the sites, precisions before shifts, solve ``M ds = D b``, where
    ``b`` are the changes of means and variances of the rows, ``2 m`` long, that the
    prior makes while sites stay. With ``D`` and ``E`` the derivatives of new sites in
    moments and in former sites, ``M`` is the identity less ``E`` and less ``D`` times
    what sites do to the moments.

    Args:
        derivatives: From means, variances and sites to ``D`` and ``E``, None for zero.
        posterior: That of the sites.
        mean: The posterior means of the rows, ``batch_shape x m``.
        nu: The shifts of the sites, ``batch_shape x m``.

    Returns:
        ``M`` and ``D``, each ``batch_shape x 2 m x 2 m``.
    """
    eye = torch.eye(mean.shape[-1], dtype=mean.dtype, device=mean.device)
    covariance = posterior.covariance_times(eye)
    sites = torch.cat(torch.broadcast_tensors(posterior.tau, nu), dim=-1)
    of_moments, of_sites = derivatives(mean, posterior.variance(), sites)
    # By way of the moments: sites move means by covariance (dnu - mean dtau), and
    # variances by minus the squared covariances times dtau.
    in_mean, in_variance = of_moments.chunk(2, dim=-1)
    by_shift = in_mean @ covariance
    by_precision = -by_shift * mean.unsqueeze(-2) - in_variance @ covariance.square()
    feedback = torch.cat([by_precision, by_shift], dim=-1)
    if of_sites is not None:
        feedback = feedback + of_sites
    return plus_identity(-feedback), of_moments


def implicit_tangent(
    derivatives: Callable[[Tensor, Tensor, Tensor], Derivatives],
    posterior: SitePosterior,
    mean: Tensor,
    nu: Tensor,
) -> SiteTangent:
    """Makes the tangent of sites by their :func:`site_equations`, solved once.

    It takes changes of means and variances of rows that the prior makes while sites
    stay, and gives the change of the sites. Arguments are those of the equations.
    """
    equations, of_moments = site_equations(derivatives, posterior, mean, nu)
    change = torch.linalg.solve(equations, of_moments)

    def moved(of_mean: Tensor, of_variance: Tensor) -> SiteChange:
        of_moments = torch.cat([of_mean, of_variance], dim=-1).unsqueeze(-1)
        tau, shift = (change @ of_moments).squeeze(-1).chunk(2, dim=-1)
        return SiteChange(tau, shift - mean * tau)

    return moved


def matching_sites(cavity_mean: Tensor, tilted: TiltedMoments) -> Tensor:
    """Computes sites that give cavities the tilted moments, ``batch_shape x 2 m``.

    With derivatives ``d`` and ``e`` of the log partition in the cavity mean and the
    ratio ``q = 1 + e s`` of tilted to cavity variance, the precision is ``-e / q`` and
    the shift ``(d - e cavity_mean) / q``. Here and below, sites of ``m`` rows are their
    precisions before their shifts.
    """
    _, first, second, shrink = tilted
    shift = torch.addcmul(first, second, cavity_mean, value=-1.0)
    return torch.cat([-second / shrink, shift / shrink], dim=-1)


def site_slopes(
    tilted: Callable[..., TiltedMoments], resolved: Tensor, *arguments: Tensor
) -> list[Slopes]:
    """Differentiates matching sites, each of which depends on its own row alone.

    Sites of rows that are not ``resolved`` stay. The ``arguments`` are the posterior
    means of the rows, the variances, no less than their rounding error, the former
    precisions and shifts, and what ``tilted`` takes behind a cavity's mean and
    variance. For each argument there are the derivative of the new precision and that
    of the new shift.
    """
    with torch.enable_grad():
        leaves = [
            t.detach().requires_grad_() for t in torch.broadcast_tensors(*arguments)
        ]
        mean, variance, tau, nu, *extras = leaves
        cavity_ratio = 1 - tau * variance
        cavity = (mean - variance * nu) / cavity_ratio
        new = matching_sites(cavity, tilted(cavity, variance / cavity_ratio, *extras))
        # Rows depend on nothing of others: the gradient of a sum has that of each.
        of_both = [
            torch.autograd.grad(part.sum(), leaves, retain_graph=True)
            for part in new.chunk(2, dim=-1)
        ]
    slopes_by_leaf = zip(*of_both, strict=True)
    return [
        tuple(torch.where(resolved, slope, 0.0) for slope in leaf_slopes)
        for leaf_slopes in slopes_by_leaf
    ]


def matching_derivatives(
    factors: ScalarFactors,
    resolved: Tensor,
    variance: Tensor,
    mean: Tensor,
    _: Tensor,
    sites: Tensor,
) -> Derivatives:
    """Differentiates matching sites of EP as matrices, for :func:`site_equations`.

    The first has the derivatives in means and variances of rows, the second those in
    the former sites, each ``batch_shape x 2 m x 2 m`` of four diagonal blocks. The
    ``variance``, no less than its rounding error, replaces that which the equations
    pass as the fifth argument.
    """
    arguments = mean, variance, *sites.chunk(2, dim=-1)
    slopes = site_slopes(factors.tilted, resolved, *arguments)
    columns = [torch.cat([*map(torch.diag_embed, slope)], dim=-2) for slope in slopes]
    of_moments, of_sites = torch.cat(columns, dim=-1).chunk(2, dim=-1)
    return of_moments, of_sites


# Of the norm of what is solved for, in posterior deviations.
_TOLERANCE, _DISAGREEMENT, _MOST_PRODUCTS = 1e-11, 1e-6, 1000


def pulled_back(slopes: Sequence[Slopes], pull: Tensor) -> list[Tensor]:
    """Turns a gradient in sites, ``batch_shape x 2 m``, to those in their arguments.

    It is the chain rule by the :func:`site_slopes`: a gradient, ``batch_shape x m``,
    for each quantity of ``slopes``, of which the sites are functions row by row.
    """
    at_precision, at_shift = pull.chunk(2, dim=-1)
    return [a * at_precision + b * at_shift for a, b in slopes]


@torch.no_grad()
def site_adjoint(
    slopes: Sequence[Slopes],
    posterior: SitePosterior,
    mean: Tensor,
    scale: Tensor,
    gradient: Tensor,
) -> Tensor:
    """Solves the transpose of the :func:`site_equations` by products with it alone.

    So a function of the sites is differentiated, without a matrix of rows by rows.

    Args:
        slopes: The :func:`site_slopes`, of which the first four count.
        posterior: That of the sites.
        mean: The posterior means of the rows, ``batch_shape x m``.
        scale: Units in which changes of sites compare, ``batch_shape x 2 m``.
        gradient: ``b``, that of a function in the sites, ``batch_shape x 2 m``.

    Returns:
        :math:`p = F' p + b` with the derivatives ``F`` of new sites in former ones,
        also by way of the moments that these move. It warns where rounding leaves no
        such ``p``.
    """
    squared = posterior.squared_covariance()

    def lacking(scaled: Tensor) -> Tensor:
        """Computes ``(p - F' p) / scale`` of ``p = scale * scaled``."""
        at_mean, at_variance, *at_sites = pulled_back(slopes[:4], scale * scaled)
        moved = posterior.mean(at_mean)
        by_precision = -mean * moved - squared(at_variance) + at_sites[0]
        back = torch.cat([by_precision, moved + at_sites[1]], dim=-1)
        return scaled - back / scale

    solution, residual = krylov_solution(
        lacking, gradient / scale, _TOLERANCE, _MOST_PRODUCTS
    )
    if bool((residual > _DISAGREEMENT).any()):
        warn_caller(
            f"Derivatives are known within {float(residual.max()):.1e} of themselves "
            "only: answers contradict each other so that two posteriors are nearly as "
            "good. Check for extreme noise or output scale.",
            InferenceWarning,
        )
    return scale * solution


# In posterior standard deviations, of which a hundredth is never missed.
_MOST_ROUNDING = 1e-2


@dataclass(frozen=True, eq=False)
class GaussianSolution(Solution[PosteriorTerms]):
    r"""A Gaussian posterior, in terms of sites on rows of utilities.

    All numbers are in double precision; evidence and terms are given in that of the
    prior.

    Attributes:
        engine: What found it.
        prior: What it was found from.
        evidence: Its log evidence, ``batch_shape``; carries the exact gradient in
            everything that the engine was given (kernel, mean and likelihood
            parameters), of first order.
        weights: ``w``, ``batch_shape x n``: see :class:`.PosteriorTerms`.
        sites: On ``z = A f(X)``, where the engine may start again.
        factor: The conditioned rows; ``factor.root()`` is ``Q``, ``factor.widening()``
            is ``P``.
        site_tangent: From the factor, the posterior means of the rows and the shifts of
            the sites, ``batch_shape x m``, to their tangent.
        converged: Whether the residual reached the tolerance in every batch element.
        iterations: Newton steps or EP sweeps taken.
        residual: The largest violation of the fixed point, in posterior standard
            deviations.
        rounding: How far rounding of the prior covariance may move the posterior, in
            the same unit: see :func:`.lost_digits`.
        evidence_pull: From the factor and the means to ``q`` of :func:`prior_form`;
            None where the evidence is stationary in the sites.
        evidence_error: How far the evidence is from the exact one, about, in nats,
            ``batch_shape``; None where the engine does not know.
        of_scales: Gives :meth:`evidence_derivatives`, see :mod:`.evidence_curvature`;
            None where the engine does not know them.
    """

    engine: Engine
    prior: UtilityPrior
    evidence: Tensor
    weights: Tensor
    sites: Sites
    factor: SitePosterior
    site_tangent: Callable[[SitePosterior, Tensor, Tensor], SiteTangent]
    converged: bool
    iterations: int
    residual: float
    rounding: float
    evidence_pull: Callable[[SitePosterior, Tensor], Tensor] | None = None
    evidence_error: Callable[[], Tensor] | None = None
    of_scales: Callable[[RowKernel], OfScales | None] | None = None

    @property
    def log_evidence(self) -> Tensor:
        """See base class."""
        return self.evidence.to(self.prior.covar)

    def evidence_derivatives(self, kernel: RowKernel) -> OfScales | None:
        """See base class."""
        return None if self.of_scales is None else self.of_scales(kernel)

    @cached_property
    def terms(self) -> PosteriorTerms:
        """The weights ``w`` and roots ``Q`` and ``P`` that prediction needs.

        They are in the dtype of the prior; other tensors of this solution are double.
        """
        like, widening = self.prior.covar, self.factor.widening()
        return PosteriorTerms(
            self.prior.points,
            self.weights.unsqueeze(-1).to(like),
            self.factor.root().to(like),
            None if widening is None else widening.to(like),
        )

    def row_means(self, mean: Tensor) -> Tensor:
        """Computes posterior means of rows, ``batch_shape x m``, at these sites.

        ``mean`` is the prior mean of the points, ``batch_shape x n``.
        """
        prior = self.factor.rows.apply(mean)
        return prior + self.factor.mean(self.sites.shift - self.factor.tau * prior)

    @torch.no_grad()
    def evidence_rounding(self) -> Tensor:
        r"""Estimates how far the prior's rounding may move the evidence, in nats.

        It is :math:`\frac{\epsilon}{2} \sum_{ij} |(w + 2q) w' - A' W A|_{ij} |K|_{ij}`,
        ``batch_shape``: the sum of what rounding of each entry of ``K`` does to first
        order, by the derivatives of :func:`prior_form`.
        """
        eps = torch.finfo(self.prior.covar.dtype).eps
        _, mean, covar = self.prior.in_double()
        pulled_weights = self.weights
        if self.evidence_pull is not None:
            pulled_weights = pulled_weights + 2 * self.evidence_pull(
                self.factor, self.row_means(mean)
            )
        slope = pulled_weights.unsqueeze(-1) * self.weights.unsqueeze(-2)
        slope = slope - self.factor.precision()
        return 0.5 * eps * (slope * covar).abs().sum((-2, -1))

    def diagnostics(self) -> dict[str, Any]:
        """See base class; with ``rounding`` and ``evidence_rounding``.

        And ``evidence_error`` where the engine knows it.
        """
        error = self.evidence_error
        error_entry = {} if error is None else {"evidence_error": error()}
        return {
            "converged": not self.failures,
            "iterations": self.iterations,
            "residual": self.residual,
            "rounding": self.rounding,
            "log_evidence": self.log_evidence.detach(),
            "evidence_rounding": self.evidence_rounding(),
            **error_entry,
        }

    @property
    def mean_error(self) -> float:
        """See base class."""
        # A residual is a tenth or more of the way that is left: sweeps are that fast.
        return 10 * self.residual + self.rounding

    @property
    def failures(self) -> tuple[str, ...]:
        """Sentences on unfinished iterations, lost digits and infinite numbers."""
        text = (
            f"did not converge: after {self.iterations} iterations the residual is "
            f"{self.residual:.1e} posterior standard deviations. Check for extreme "
            "noise or output scale, and for answers that contradict each other."
        )
        stopped = () if self.converged else (text,)
        lost = (
            "did not converge: its digits are gone. Answers are so precise beside the "
            f"prior that rounding in {self.prior.covar.dtype} may move the posterior "
            f"by {self.rounding:.1e} posterior standard deviations. Use double "
            "precision, a larger noise or a smaller output scale."
        )
        rounded = () if self.rounding <= _MOST_ROUNDING else (lost,)
        return stopped + rounded + not_finite(self.log_evidence, self.weights)

    def tangent(self, mean: Tensor) -> PosteriorTangent:
        """See base class."""
        return GaussianTangent(mean, self)

    def warm_start(self, further: FurtherAnswers | None = None) -> WarmStart:
        """Makes the start of a later solve: these sites and further answers' first."""
        start = WarmStart(self.sites)
        if further is None:
            return start
        first = self.engine.initial_sites(further.factors, further.moments)
        return start.followed_by(further.sources, first)


class GaussianTangent:
    """The tangent of a Gaussian posterior, in the symbols of this module.

    ``mean`` is the prior mean of the points; ``influence`` is ``S`` and ``precision``
    is ``M``.
    """

    def __init__(self, mean: Tensor, solution: GaussianSolution) -> None:
        """Computes the coefficients of the tangent, which are constants.

        ``influence`` is ``S = (I - Sigma T) A``, from prior means of points to
        posterior means of rows, of covariance ``Sigma`` and with site precisions ``T``;
        ``precision`` is ``M = A' W A``: answers reduce the prior covariance ``K`` of
        points by ``K M K``. ``mean`` is their prior mean, ``batch_shape x n``.
        """
        factor = solution.factor
        self.weights, self.precision = solution.weights, factor.precision()
        self.tau, self.nu = factor.tau, solution.sites.shift
        self.influence = factor.influence()
        self.rows_mean = solution.row_means(mean.double())
        self.site_change = solution.site_tangent(factor, self.rows_mean, self.nu)

    def __call__(self, prior: UtilityPrior) -> TermsChange:
        """See :class:`.PosteriorTangent`."""
        change, _ = self.with_sites(prior.covar.double(), prior.mean.double())
        return TermsChange(*(part.to(prior.covar) for part in change))

    def with_sites(self, covar: Tensor, mean: Tensor) -> tuple[TermsChange, SiteChange]:
        """Computes the change of the posterior and that of its sites, in double.

        They are zero in value, and linear in the prior covariance and mean of the
        points, of which they carry the derivatives.
        """
        # dK and dm; then dm + dK w, and diag(S dK S') of the rows.
        covar, mean = covar - covar.detach(), mean - mean.detach()
        s, precision = self.influence, self.precision
        moved = mean.unsqueeze(-1) + covar @ self.weights.unsqueeze(-1)
        of_variance = ((s @ covar) * s).sum(-1)
        sites = self.site_change((s @ moved).squeeze(-1), of_variance)
        # dw = S' force - M (dm + dK w), and dM = S' diag(dtau) S - M dK M.
        weights = s.mT @ sites.force.unsqueeze(-1) - precision @ moved
        spread = s.mT @ (sites.precision.unsqueeze(-1) * s)
        change = TermsChange(weights, spread - precision @ covar @ precision)
        return change, sites
