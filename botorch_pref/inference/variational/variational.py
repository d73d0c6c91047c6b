r"""The variational posterior of utilities (Guo et al. 2020): a Gaussian under a bound.

Jaakkola and Jordan's bound (1997) for pairs, Bouchard's (2007) for larger sets; the
ascent is that of :mod:`botorch_pref.inference.variational.bound_ascent`.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from botorch_pref.feedback import Choices, Comparisons, Rankings
from botorch_pref.inference.conditioning.choose_solver import choose_solver
from botorch_pref.inference.conditioning.lost_digits import lost_digits
from botorch_pref.inference.conditioning.site_solver import SitePosterior
from botorch_pref.inference.derivatives.evidence_surrogate import (
    covariance_form,
    with_gradient_of,
)
from botorch_pref.inference.derivatives.site_tangent import (
    ImplicitSiteMap,
    SiteDerivatives,
)
from botorch_pref.inference.engine import Engine
from botorch_pref.inference.gaussian_result import GaussianResult
from botorch_pref.inference.gaussian_solution import GaussianSolution
from botorch_pref.inference.utility_prior import UtilityPrior
from botorch_pref.inference.variational.bound_ascent import first_parameters, last_step
from botorch_pref.inference.variational.gaussian_bound import Bound
from botorch_pref.inference.variational.variational_bounds import bound_of
from botorch_pref.inference.warm_start import WarmStart
from botorch_pref.likelihoods.factors.factors import Factors
from botorch_pref.likelihoods.factors.logit_factors import LogitFactors
from botorch_pref.likelihoods.factors.plackett_luce_factors import PlackettLuceFactors
from botorch_pref.likelihoods.pairwise_logit import PairwiseLogitLikelihood
from botorch_pref.likelihoods.plackett_luce import PlackettLuceLikelihood
from botorch_pref.likelihoods.resolve import DEFAULT_LIKELIHOODS
from botorch_pref.linalg.sparse_design import SparseDesign


class _PointConditioner:
    """Rows of utilities with prior covariance ``K``."""

    def __init__(self, covar: Tensor, rows: SparseDesign) -> None:
        self._covar, self._rows = covar, rows
        self.rows_solver = choose_solver(covar, rows)
        self.variance = self.rows_solver.variance.clamp_min(0.0)
        self.rounding = self.rows_solver.rounding

    def factor(self, tau: Tensor) -> SitePosterior:
        return self.rows_solver.factor(tau)

    def newton_step(
        self, curvature: Tensor, groups: SparseDesign | None, force: Tensor
    ) -> Tensor:
        if groups is None:
            return self.factor(curvature).mean(force)
        ones = torch.ones_like(groups.coefficients[..., 0])
        gram = self._rows.gram(curvature) - groups.gram(ones)
        system = self._covar @ gram
        system.diagonal(dim1=-2, dim2=-1).add_(1.0)
        pull = self._covar @ self._rows.adjoint(force).unsqueeze(-1)
        return self._rows.apply(torch.linalg.solve(system, pull).squeeze(-1))


def _surrogate(
    covar: Tensor, mean: Tensor, factor: SitePosterior, weights: Tensor
) -> Tensor:
    r"""A linear form with the gradient of the bound at its maximum.

    There it is stationary in its parameters, which leaves

    .. math::
        dL = \tfrac12 \langle w w' - A' W A, dK \rangle + w' dm .
    """
    with torch.no_grad():
        precision = factor.precision()
    form = covariance_form(weights, weights, precision, covar)
    return form + (weights * mean).sum(-1)


class BestBound(ImplicitSiteMap):
    """The sites of the bound with the best parameters for the moments.

    Args:
        bound: The lower bound of the likelihood.
    """

    def __init__(self, bound: Bound) -> None:
        self._bound, self.rows = bound, bound.rows

    def derivatives(
        self, mean: Tensor, variance: Tensor, sites: Tensor
    ) -> SiteDerivatives:
        """See base class: rows of one set depend on each other."""
        # Roots have no slope at the variance zero of rows that are known exactly.
        variance = variance.clamp_min(torch.finfo(variance.dtype).tiny)
        moments = torch.cat(torch.broadcast_tensors(mean, variance), dim=-1)
        with torch.enable_grad():
            moments = moments.detach().requires_grad_()
            best = self._bound.best(*moments.chunk(2, dim=-1))
            new = torch.cat(self._bound.sites(best), dim=-1)
        eye = torch.eye(new.shape[-1], dtype=new.dtype, device=new.device)
        each = eye.view(-1, *([1] * (new.dim() - 1)), new.shape[-1])
        (slopes,) = torch.autograd.grad(
            new, moments, each.expand(-1, *new.shape), is_grads_batched=True
        )
        return SiteDerivatives(slopes.movedim(0, -2))


def variational(
    covar: Tensor,
    mean: Tensor,
    factors: Factors,
    initial_sites: tuple[Tensor, Tensor] | None = None,
) -> GaussianResult:
    """The variational posterior of utilities given answers, and its lower bound.

    The sites of the result are on the rows of the bound: one for each pair, one for
    each item of each larger set.

    Args:
        covar: Prior covariance ``K`` of the points, ``batch_shape x n x n``.
        mean: Prior mean, ``batch_shape x n``.
        factors: Logistic and softmax factors of the n points.
        initial_sites: Precisions and shifts of an earlier solution to start from, each
            ``batch_shape x m``; none start at the prior.

    Returns:
        The result, with the lower bound as its evidence; ``converged`` says whether one
        more turn would move the Gaussian by at most 1e-7 standard deviations (3e-4 in
        single precision).

    Raises:
        UnsupportedFeedbackError: Factors of another kind.
    """
    with torch.no_grad():
        bound = bound_of(factors)
        rows = bound.rows
        solver = _PointConditioner(covar, rows)
        prior = rows.apply(mean)
        if initial_sites is None:
            parameters = first_parameters(bound, prior, solver.variance)
        else:
            tau, nu = initial_sites
            before = solver.factor(tau)
            z = prior + before.mean(nu - tau * prior)
            parameters = bound.best(z, before.variance().clamp_min(0.0))
        step, iterations, converged = last_step(solver, prior, bound, parameters)
        shift = torch.addcmul(step.nu, step.tau, prior, value=-1.0).unsqueeze(-1)
        balance = step.factor.solve(shift).of_column()
        weights = balance.weights
    return GaussianResult(
        weights=weights,
        log_evidence=with_gradient_of(
            step.value, lambda: _surrogate(covar, mean, step.factor, weights)
        ),
        site_precision=step.tau,
        site_shift=step.nu,
        factor=step.factor,
        site_map=BestBound(bound),
        converged=converged,
        iterations=iterations,
        residual=float(step.residual.max()),
        rounding=lost_digits(solver.rows_solver, step.factor, balance),
    )


class VariationalBound(Engine):
    """The engine of :func:`variational`."""

    takes: ClassVar = frozenset({LogitFactors, PlackettLuceFactors})
    default_likelihoods: ClassVar = DEFAULT_LIKELIHOODS | {
        Comparisons: PairwiseLogitLikelihood,
        Choices: PlackettLuceLikelihood,
        Rankings: PlackettLuceLikelihood,
    }

    def solve(
        self, prior: UtilityPrior, factors: Factors, start: WarmStart | None = None
    ) -> GaussianSolution:
        """See base class."""
        sites = None if start is None else start.sites
        return GaussianSolution(
            self, prior, variational(prior.covar, prior.mean, factors, sites)
        )

    def site_rows(self, factors: Factors) -> SparseDesign:
        """The rows of the bound: pairs, and the items of larger sets."""
        return bound_of(factors).rows
