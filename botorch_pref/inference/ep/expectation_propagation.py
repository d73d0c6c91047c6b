r"""Expectation propagation with one-dimensional sites and parallel updates.

Each factor :math:`p(y_i \mid z_i)` of ``z = A f(X)`` is replaced by a site
:math:`\exp(\nu_i z_i - \tau_i z_i^2 / 2)` whose tilted moments match those of the
posterior (Minka 2001; Rasmussen and Williams 2006, section 3.6; the parallel schedule
is that of van Gerven et al. 2010). For boxed rows with independent noise the fixed
point is that of EP on the truncated ``v = z + e`` (the note of Takeno et al. 2023,
whose mean and site mean have a sign wrong), because ``e`` integrates out of each site
exactly.

A factor that is not log-concave may ask for a site of negative precision. It gets one,
as long as the posterior and all cavities stay Gaussian; a step after which they do not
is taken back and shortened.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, cast

import torch
from torch import Tensor

from botorch_pref.errors import PrecisionError
from botorch_pref.inference.conditioning.choose_solver import choose_solver
from botorch_pref.inference.conditioning.lost_digits import lost_digits
from botorch_pref.inference.conditioning.site_solver import SiteSolver
from botorch_pref.inference.derivatives.evidence_surrogate import (
    covariance_form,
    with_gradient_of,
)
from botorch_pref.inference.engine import Engine
from botorch_pref.inference.ep.anderson import AndersonMemory
from botorch_pref.inference.ep.assumed_density import assumed_density_sites
from botorch_pref.inference.ep.damping import Damping
from botorch_pref.inference.ep.ep_state import EPState, ep_state
from botorch_pref.inference.ep.first_state import first_state
from botorch_pref.inference.ep.moment_matching import MomentMatching
from botorch_pref.inference.gaussian_result import GaussianResult
from botorch_pref.inference.gaussian_solution import GaussianSolution
from botorch_pref.inference.utility_prior import UtilityPrior
from botorch_pref.inference.warm_start import Sites, WarmStart
from botorch_pref.likelihoods.factors.factors import Factors, ScalarFactors
from botorch_pref.posteriors.moments import Moments

_MAX_SWEEPS = 200
_TOLERANCE = 1e-7
# Accelerated steps may well be a little longer than the one before.
_LONGER = 2.0


def _with_known_rows(
    solver: SiteSolver, prior: Tensor, factors: ScalarFactors, state: EPState
) -> EPState:
    """State with sites of rows that the prior knows exactly; no others depend on them.

    They say nothing as things are, but what would happen if a point moved away from the
    copy that it is compared with: derivatives need them.
    """
    if state.moving is None:
        return state
    sites = torch.where(state.moving, state.sites, state.target)
    return ep_state(solver, prior, factors, sites)


def _try_state(
    solver: SiteSolver, prior: Tensor, factors: ScalarFactors, sites: Tensor
) -> EPState | None:
    """The state of some sites; None where they are too precise for a posterior."""
    try:
        return ep_state(solver, prior, factors, sites)
    except PrecisionError:
        return None


def _iterate(
    solver: SiteSolver,
    prior: Tensor,
    factors: ScalarFactors,
    state: EPState,
    tolerance: float,
) -> tuple[EPState, int]:
    """Parallel sweeps until tilted and posterior moments agree.

    A step after which the next one is longer, or after which there is no posterior, is
    taken back and halved: answers about almost the same row overshoot together, each by
    little. Where the sweeps lead nowhere, the one with the least mismatch is what there
    is.
    """
    damping, memory, iterations = Damping(state), AndersonMemory(), 1
    best, least = state.sites, state.mismatch
    while iterations < _MAX_SWEEPS:
        reached = state.mismatch <= tolerance
        some_may_have = bool(reached.any())
        if some_may_have:
            reached = state.residual <= tolerance
        if damping.ends(reached):
            break
        sites = damping.next_sites(state, memory)
        if some_may_have:
            sites = torch.where(reached.unsqueeze(-1), state.sites, sites)
        new = _try_state(solver, prior, factors, sites)
        if new is None:
            # Nothing says which element of a batch it was.
            damping.judge(torch.zeros_like(state.proper), everywhere=False)
            memory, iterations = AndersonMemory(), iterations + 1
            continue
        calm = new.proper & (new.step_length <= _LONGER * state.step_length)
        everywhere = bool(calm.all())
        if not everywhere:
            sites = torch.where(calm.unsqueeze(-1), sites, state.sites)
            new = ep_state(solver, prior, factors, sites)
            memory = AndersonMemory()
            iterations += 1
        damping.judge(calm, everywhere)
        state = new
        better = state.mismatch < least
        if bool(better.all()):
            best, least = state.sites, state.mismatch
        else:
            best = torch.where(better.unsqueeze(-1), state.sites, best)
            least = torch.where(better, state.mismatch, least)
        iterations += 1
    # Of two that would do, the one that reached the tolerance in all respects stays.
    worse = (state.mismatch > least) & (state.residual > tolerance)
    if bool(worse.any()):
        sites = torch.where(worse.unsqueeze(-1), best, state.sites)
        state = ep_state(solver, prior, factors, sites)
    return state, iterations


def _log_evidence(state: EPState, tilted: Tensor) -> Tensor:
    r"""Rasmussen and Williams (2006), eq. 3.65, in natural parameters.

    The sum of log tilted normalisers, minus the log normalisers of site times cavity,
    plus the log integral of prior times sites, all relative to the prior mean of the
    rows. With the forces ``a``, the variances :math:`s_-` of the cavities and the
    ratios ``q`` of variances to those of cavities this is

    .. math::
        \sum_i \big( \log Z_i + \tfrac12 s_{-i} a_i^2 - \tfrac12 \log q_i \big)
        - \tfrac12 a' C a - \tfrac12 \log |B|,

    whose terms are not large where sites are precise, and in which an error of a force
    cancels to first order.

    Args:
        state: At the fixed point.
        tilted: Log partitions of the factors under the cavities, ``batch_shape x m``.
    """
    own = state.cavity_variance * state.force.square()
    each = tilted + 0.5 * (own - state.cavity_ratio.log())
    return each.sum(-1) - 0.5 * (state.balance.energy + state.posterior.log_det)


def _surrogate(
    covar: Tensor,
    mean: Tensor,
    factors: ScalarFactors,
    state: EPState,
    weights: Tensor,
    tilted: Tensor,
) -> Tensor:
    r"""A linear form with the gradient of the evidence at the fixed point.

    There the evidence is stationary in the sites, so that

    .. math::
        d \log Z = \tfrac12 \langle w w' - A' W A, dK \rangle + w' dm
        + \tfrac12 \langle a a' - W, dN \rangle
        + \sum_i \partial_\theta \log Z_i \, d\theta, \quad w = A' a

    (Rasmussen and Williams 2006, eq. 5.27; Seeger 2005).
    """
    with torch.no_grad():
        precision = state.posterior.precision()
    form = (
        covariance_form(weights, weights, precision, covar)
        + (weights * mean).sum(-1)
        + tilted.sum(-1)
    )
    if factors.noise is None:
        return form
    with torch.no_grad():
        own = factors.noise.take(state.force.unsqueeze(-1))
        noise_gradient = own @ own.mT - state.posterior.noise_precision(factors.noise)
    return form + 0.5 * (noise_gradient * factors.noise.covariance).sum((-3, -2, -1))


def expectation_propagation(
    covar: Tensor,
    mean: Tensor,
    factors: ScalarFactors,
    initial_sites: tuple[Tensor, Tensor] | None = None,
) -> GaussianResult:
    """The EP posterior and evidence of utilities given answers.

    Args:
        covar: Prior covariance ``K`` of the points, ``batch_shape x n x n``.
        mean: Prior mean, ``batch_shape x n``.
        factors: m factors on rows of the n points.
        initial_sites: Precisions and shifts to start from, each ``batch_shape x m``;
            none start at the sites that the prior alone suggests. The fixed point does
            not depend on them, its cost does.

    Returns:
        The result; ``converged`` says whether all tilted moments match those of the
        posterior to 1e-7 standard deviations (3e-4 in single precision). The error of
        the evidence is of second order in that.
    """
    tolerance = max(_TOLERANCE, math.sqrt(torch.finfo(covar.dtype).eps))
    with torch.no_grad():
        solver = choose_solver(covar, factors.rows, factors.noise)
        prior = factors.rows.apply(mean)
        first = first_state(solver, prior, factors, initial_sites)
        state, iterations = _iterate(solver, prior, factors, first, tolerance)
        state = _with_known_rows(solver, prior, factors, state)
        tau, nu = state.sites.chunk(2, dim=-1)
    weights = state.balance.weights
    # With the graph of the likelihood's parameters, where one is wanted.
    tilted = factors.log_partition(state.cavity_mean, state.cavity_variance).value
    value = _log_evidence(state, tilted.detach())
    return GaussianResult(
        weights=weights,
        log_evidence=with_gradient_of(
            value, lambda: _surrogate(covar, mean, factors, state, weights, tilted)
        ),
        site_precision=tau,
        site_shift=nu,
        factor=state.posterior,
        site_map=MomentMatching(factors, solver.resolved, state.variance),
        converged=bool((state.residual <= tolerance).all()),
        iterations=iterations,
        residual=float(state.residual.max()),
        rounding=lost_digits(solver, state.posterior, state.balance),
    )


class ExpectationPropagation(Engine):
    """The engine of :func:`expectation_propagation`."""

    takes: ClassVar[frozenset[type[Any]]] = frozenset({ScalarFactors})

    def solve(
        self, prior: UtilityPrior, factors: Factors, start: WarmStart | None = None
    ) -> GaussianSolution:
        """See base class."""
        result = expectation_propagation(
            prior.covar,
            prior.mean,
            cast("ScalarFactors", factors),
            None if start is None else start.sites,
        )
        return GaussianSolution(self, prior, result)

    @torch.no_grad()
    def initial_sites(self, factors: Factors, moments: Moments | None = None) -> Sites:
        """Initial sites of further answers: as each by itself would make them.

        From there instead of from empty sites the sweeps end one to ten earlier: an
        empty site's first step is the only one at first, and the reactions to it look
        as if it had been too long.

        Args:
            factors: Of the further answers, about their own points.
            moments: Of utilities at these points given the earlier answers; None for
                empty sites.
        """
        if moments is None:
            return super().initial_sites(factors)
        scalar = cast("ScalarFactors", factors)
        return Sites(
            *assumed_density_sites(scalar, moments.means[0], moments.covariance)
        )
