r"""Expectation propagation with one-dimensional sites and parallel updates.

Each factor :math:`p(y_i \mid z_i)` of ``z = A f(X)`` is replaced by a site
:math:`\exp(\nu_i z_i - \tau_i z_i^2 / 2)` whose tilted moments match those of the
posterior (Minka 2001; Rasmussen and Williams 2006, section 3.6; the parallel schedule
is that of van Gerven et al. 2010). For boxed rows with independent noise the fixed
point is that of EP on the truncated ``v = z + e`` (the note of Takeno et al. 2023),
because ``e`` integrates out of each site exactly.

A factor that is not log-concave may ask for a site of negative precision. It gets one,
as long as the posterior and all cavities stay Gaussian; a step after which they do not
is taken back and shortened.
"""

from __future__ import annotations

import math
from contextlib import suppress

import torch
from torch import Tensor

from botorch_pref.errors import PrecisionError
from botorch_pref.inference.conditioning.choose_solver import site_solver
from botorch_pref.inference.conditioning.site_solver import SiteSolver
from botorch_pref.inference.derivatives.evidence_surrogate import with_gradient_of
from botorch_pref.inference.ep.anderson import AndersonMemory
from botorch_pref.inference.ep.ep_state import Sweep, sweep_sites
from botorch_pref.inference.ep.moment_matching import MomentMatching, matching_sites
from botorch_pref.inference.gaussian_result import GaussianResult
from botorch_pref.likelihoods.factors.factors import ScalarFactors

_MAX_SWEEPS = 200
_TOLERANCE = 1e-7
# Accelerated steps may well be a little longer than the one before.
_LONGER = 2.0
# Steps this short, for want of a posterior after longer ones, lead nowhere.
_MIN_DAMPING = 2.0**-20


def _prior_sites(solver: SiteSolver, prior: Tensor, factors: ScalarFactors) -> Tensor:
    """The first sweep from empty sites, which needs no factorisation.

    A row that the prior knows exactly (a point compared with its duplicate) has no
    moments to match: its site is empty at first.
    """
    rounding, variance = solver.rounding, solver.variance
    resolved = variance > rounding
    variance = torch.where(resolved, variance, rounding)
    mean = prior.expand_as(variance)
    sites = matching_sites(mean, variance, factors.log_partition(mean, variance))
    return torch.where(torch.cat([resolved, resolved], dim=-1), sites, 0.0)


def _with_known_rows(
    solver: SiteSolver, prior: Tensor, factors: ScalarFactors, sweep: Sweep
) -> Sweep:
    """With sites of rows that the prior knows exactly, on which no others depend.

    They say nothing as things are, but what would happen if a point moved away from the
    copy that it is compared with: derivatives need them.
    """
    if bool(sweep.resolved.all()):
        return sweep
    known = torch.cat([~sweep.resolved, ~sweep.resolved], dim=-1)
    sites = torch.where(known, sweep.target, sweep.sites)
    return sweep_sites(solver, prior, factors, sites)


def _non_negative(sweep: Sweep) -> Tensor:
    """The sites, without negative precisions where these leave no posterior."""
    tau, nu = sweep.sites.chunk(2, dim=-1)
    positive = torch.where(sweep.proper.unsqueeze(-1), tau, tau.clamp_min(0.0))
    return torch.cat([positive, nu], dim=-1)


def _next_sites(
    sweep: Sweep, memory: AndersonMemory, damping: Tensor, calm: Tensor
) -> Tensor:
    """Accelerated where that pays and turns no precision negative, else damped."""
    accelerated = memory.extrapolate(sweep.sites, sweep.step, sweep.scale)
    damped = sweep.sites + damping.unsqueeze(-1) * sweep.step
    tau, asked = accelerated.chunk(2, dim=-1)[0], damped.chunk(2, dim=-1)[0]
    proper = ((tau >= 0) | (asked < 0)).all(-1)
    return torch.where((calm & proper).unsqueeze(-1), accelerated, damped)


def _start(
    solver: SiteSolver, prior: Tensor, factors: ScalarFactors, sites: Tensor
) -> Sweep:
    sweep = sweep_sites(solver, prior, factors, sites)
    if bool(sweep.proper.all()):
        return sweep
    # Sites of other hyper-parameters, or all at once, may widen too much to start.
    return sweep_sites(solver, prior, factors, _non_negative(sweep))


def _first_sweep(
    solver: SiteSolver,
    prior: Tensor,
    factors: ScalarFactors,
    initial_sites: tuple[Tensor, Tensor] | None,
) -> Sweep:
    """Of the sites to start from, if they leave a posterior; else of the prior's."""
    if initial_sites is not None:
        # They may be so precise, beside a prior that is so wide, that they do not.
        with suppress(PrecisionError):
            sweep = _start(solver, prior, factors, torch.cat(initial_sites, dim=-1))
            if bool(sweep.proper.all()):
                return sweep
    return _start(solver, prior, factors, _prior_sites(solver, prior, factors))


def _iterate(
    solver: SiteSolver,
    prior: Tensor,
    factors: ScalarFactors,
    sweep: Sweep,
    tolerance: float,
) -> tuple[Sweep, int]:
    """Parallel sweeps until tilted and posterior moments agree.

    A step after which the next one is longer is taken back and halved: many equal
    answers overshoot together, each by little. Where the sweeps lead nowhere, the one
    with the least mismatch is what there is.
    """
    damping, calm = torch.ones_like(sweep.residual), sweep.residual < torch.inf
    memory, iterations = AndersonMemory(), 1
    best, least = sweep.sites, sweep.residual
    while iterations < _MAX_SWEEPS:
        reached = sweep.residual <= tolerance
        if bool((reached | (damping < _MIN_DAMPING)).all()):
            break
        done = reached.unsqueeze(-1)
        proposed = _next_sites(sweep, memory, damping, calm)
        new_sites = torch.where(done, sweep.sites, proposed)
        new = sweep_sites(solver, prior, factors, new_sites)
        calm = new.proper & (new.step_length <= _LONGER * sweep.step_length)
        if not bool(calm.all()):
            new_sites = torch.where(calm.unsqueeze(-1), new_sites, sweep.sites)
            new = sweep_sites(solver, prior, factors, new_sites)
            memory = AndersonMemory()
            iterations += 1
        damping = torch.where(calm, (2 * damping).clamp_max(1.0), 0.5 * damping)
        sweep = new
        better = sweep.residual < least
        best = torch.where(better.unsqueeze(-1), sweep.sites, best)
        least = torch.where(better, sweep.residual, least)
        iterations += 1
    if not bool((sweep.residual <= least).all()):
        sweep = sweep_sites(solver, prior, factors, best)
    return sweep, iterations


def _log_evidence(sweep: Sweep, prior: Tensor, tau: Tensor, nu: Tensor) -> Tensor:
    r"""Rasmussen and Williams (2006), eq. 3.65, in natural parameters.

    With everything relative to the prior mean of the rows: the sum of log tilted
    normalisers, minus the log normalisers of site times cavity, plus the log integral
    of prior times sites.
    """
    shift = nu - tau * prior
    mean, variance = sweep.mean - prior, sweep.variance
    cavity_mean, cavity_variance = sweep.cavity_mean - prior, sweep.cavity_variance
    site_times_cavity = 0.5 * (
        mean.square() / variance
        - cavity_mean.square() / cavity_variance
        - torch.log1p(tau * cavity_variance)
    )
    joint = 0.5 * (shift * mean).sum(-1) - 0.5 * sweep.factor.log_det
    return (sweep.tilted.value - site_times_cavity).sum(-1) + joint


def _surrogate(
    covar: Tensor, mean: Tensor, factors: ScalarFactors, sweep: Sweep, weights: Tensor
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
        outer = weights.unsqueeze(-1) * weights.unsqueeze(-2)
        covar_gradient = 0.5 * (outer - sweep.factor.precision())
    likelihood = factors.log_partition(sweep.cavity_mean, sweep.cavity_variance)
    form = (
        (covar_gradient * covar).sum((-2, -1))
        + (weights * mean).sum(-1)
        + likelihood.value.sum(-1)
    )
    if factors.noise is None:
        return form
    with torch.no_grad():
        tau, nu = sweep.sites.chunk(2, dim=-1)
        own = factors.noise.take((nu - tau * sweep.mean).unsqueeze(-1))
        noise_gradient = own @ own.mT - sweep.factor.noise_precision(factors.noise)
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
        solver = site_solver(covar, factors.rows, factors.noise)
        prior = factors.rows.apply(mean)
        first = _first_sweep(solver, prior, factors, initial_sites)
        sweep, iterations = _iterate(solver, prior, factors, first, tolerance)
        sweep = _with_known_rows(solver, prior, factors, sweep)
        tau, nu = sweep.sites.chunk(2, dim=-1)
        weights = factors.rows.adjoint(nu - tau * sweep.mean)
        value = _log_evidence(sweep, prior, tau, nu)
    return GaussianResult(
        weights=weights,
        log_evidence=with_gradient_of(
            value, lambda: _surrogate(covar, mean, factors, sweep, weights)
        ),
        site_precision=tau,
        site_shift=nu,
        factor=sweep.factor,
        site_map=MomentMatching(factors, sweep.resolved, sweep.variance),
        converged=bool((sweep.residual <= tolerance).all()),
        iterations=iterations,
        residual=float(sweep.residual.max()),
    )
