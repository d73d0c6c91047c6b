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

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar, cast

import numpy as np
import torch
from torch import Tensor

from botorch_pref.errors import PrecisionError
from botorch_pref.inference import conditioning
from botorch_pref.inference.engine import (
    Array,
    Engine,
    OfScales,
    Sites,
    UtilityPrior,
    WarmStart,
    in_double,
)
from botorch_pref.inference.few_answers import (
    HalfLines,
    RowMoments,
    approach,
    ep_derivatives,
    quick_problem,
)
from botorch_pref.inference.gaussian import (
    GaussianSolution,
    implicit_tangent,
    matching_derivatives,
    matching_sites,
    prior_form,
    pulled_back,
    site_adjoint,
    site_slopes,
    with_gradient_of,
)
from botorch_pref.inference.solvers import choose_solver
from botorch_pref.likelihoods.factors import Factors, ScalarFactors
from botorch_pref.linalg.covariance import RowKernel
from botorch_pref.linalg.sparse_design import NoiseBlocks
from botorch_pref.numerics.quadrature import TiltedMoments
from botorch_pref.posteriors.gaussian import Moments


@dataclass(frozen=True)
class EPState:
    """Sites with their posterior, its cavities and the moments of tilted factors.

    Sites are ``batch_shape x 2 m``, numbers of rows ``batch_shape x m``. ``moving`` is
    False for sites of rows that the prior knows exactly, and None where there are no
    such rows. ``proper``, ``batch_shape``, says whether posterior and cavities are
    Gaussian; else there are no moments. Variances are no less than their rounding
    error.
    """

    solver: conditioning.SiteSolver
    sites: Tensor
    posterior: conditioning.SitePosterior
    mean: Tensor
    balance: conditioning.Balance
    variance: Tensor
    cavity_ratio: Tensor
    cavity_mean: Tensor
    cavity_variance: Tensor
    tilted: TiltedMoments
    moving: Tensor | None
    proper: Tensor
    is_proper: bool

    @property
    def force(self) -> Tensor:
        """Of the sites at the posterior means, ``batch_shape x m``."""
        return self.balance.forces

    @cached_property
    def mismatch(self) -> Tensor:
        """Largest mismatch of tilted and posterior moments of a row, ``batch_shape``.

        In posterior standard deviations and relative to the variance; infinite where
        there is no posterior.
        """
        s = self.cavity_variance
        shift = s * (self.tilted.first - self.force) / self._deviation
        ratio = self.tilted.ratio / self.cavity_ratio - 1
        both = torch.maximum(shift.abs(), ratio.abs())
        if self.moving is not None:
            both = both * self.moving.chunk(2, dim=-1)[0]
        worst = self.solver.largest(both.amax(-1))
        return worst if self.is_proper else worst.masked_fill(~self.proper, torch.inf)

    @cached_property
    def residual(self) -> Tensor:
        """The mismatch, or how far matching all would move the posterior.

        Many equal answers miss by little each, and by their number together.
        """
        return torch.maximum(self.mismatch, self._movement)

    @property
    def converged(self) -> bool:
        """Whether the residual has reached the tolerance in every batch element."""
        return bool((self.residual <= _TOLERANCE).all())

    @property
    def _movement(self) -> Tensor:
        """Movement of the posterior by a full step, to first order, ``batch_shape``."""
        tau, nu = self.step.chunk(2, dim=-1)
        force = torch.addcmul(nu, tau, self.mean, value=-1.0)
        moved = self.posterior.mean(force).abs() / self._deviation
        if self.moving is not None:
            moved = moved * self.moving.chunk(2, dim=-1)[0]
        spread = self.solver.total((tau.abs() * self.variance).sum(-1))
        return torch.maximum(self.solver.largest(moved.amax(-1)), spread)

    @cached_property
    def _deviation(self) -> Tensor:
        return self.variance.sqrt()

    @cached_property
    def scale(self) -> Tensor:
        """Units in which changes of sites compare, ``batch_shape x 2 m``."""
        return torch.cat([self.variance, self._deviation], dim=-1)

    @property
    def target(self) -> Tensor:
        """Sites that match the tilted moments, ``batch_shape x 2 m``."""
        return matching_sites(self.cavity_mean, self.tilted)

    @cached_property
    def step(self) -> Tensor:
        """Step from sites to target, ``batch_shape x 2 m``; zero where sites stay."""
        step = self.target - self.sites
        return step if self.moving is None else torch.where(self.moving, step, 0.0)

    @cached_property
    def step_length(self) -> Tensor:
        """The step summed over sites, since those of equal answers add up."""
        return self.solver.total((self.step * self.scale).abs().sum(-1))


@dataclass(frozen=True)
class EPProblem:
    """What stays as sites change; ``prior`` is the prior mean of the rows."""

    solver: conditioning.SiteSolver
    prior: Tensor
    factors: ScalarFactors

    def state(self, sites: Tensor) -> EPState:
        """The state of some sites."""
        solver, prior = self.solver, self.prior
        tau, nu = sites.chunk(2, dim=-1)
        posterior, proper = conditioning.site_posterior(solver, tau)
        variance = torch.maximum(posterior.variance(), solver.rounding_given(tau))
        left, moving = posterior.cavity_ratio(variance), None
        if not solver.resolves_all:
            # What is left of the variance of a row may be less than the rounding of it.
            variance = torch.where(solver.resolved, variance, solver.rounding)
            left = torch.where(solver.resolved, left, 1 - tau * variance)
            moving = torch.cat([solver.resolved, solver.resolved], dim=-1)
        shift = torch.addcmul(nu, tau, prior, value=-1.0).unsqueeze(-1)
        balance = posterior.solve(shift).of_column()
        force, mean = balance.forces, prior + balance.moved
        proper = solver.everywhere(proper & (left > 0).all(-1))
        is_proper = bool(proper.all())
        if not is_proper:
            # Any Gaussian will do where there is no cavity: its moments are not used.
            left = torch.where(proper.unsqueeze(-1), left, 1.0)
        cavity_variance = variance / left
        cavity_mean = torch.addcmul(mean, cavity_variance, force, value=-1.0)
        return EPState(
            solver=solver,
            sites=sites,
            posterior=posterior,
            mean=mean,
            balance=balance,
            variance=variance,
            cavity_ratio=left,
            cavity_mean=cavity_mean,
            cavity_variance=cavity_variance,
            tilted=self.factors.tilted(cavity_mean, cavity_variance),
            moving=moving,
            proper=proper,
            is_proper=is_proper,
        )

    def first(self, initial: Sites | None) -> tuple[EPState, int]:
        """The state to start from, and the number of sweeps that led there.

        That of the initial sites if they leave a posterior, else of the prior's. From
        there it takes quick sweeps where answers are few.
        """
        given = None if initial is None else torch.cat(initial, dim=-1)
        near, sweeps = self._approached(self._prior_sites() if given is None else given)
        for sites in (near, given):
            if sites is None:
                continue
            # They may be too precise for that, beside a prior that is so wide.
            with suppress(PrecisionError):
                state = self._start(sites)
                if state.is_proper:
                    return state, sweeps
        return self._start(self._prior_sites()), sweeps

    def _approached(self, sites: Tensor) -> tuple[Tensor | None, int]:
        """Sites near the fixed point where quick sweeps lead there; else None."""
        given = quick_problem(self.solver, self.prior, sites)
        if given is None or not self.solver.resolves_all:
            return None, 0
        near, sweeps = approach(*given, _matching(self.factors), _MAX_SWEEPS)
        return None if near is None else torch.from_numpy(near), sweeps

    def _start(self, sites: Tensor) -> EPState:
        """The state of sites to start from, without those that leave no posterior."""
        state = self.state(sites)
        if state.is_proper:
            return state
        # Sites of other hyper-parameters, or all at once, may widen too much to start.
        tau, nu = sites.chunk(2, dim=-1)
        tau = torch.where(state.proper.unsqueeze(-1), tau, tau.clamp_min(0.0))
        return self.state(torch.cat([tau, nu], dim=-1))

    def _prior_sites(self) -> Tensor:
        """The sites that the prior alone suggests, which need no factorisation.

        A row that the prior knows exactly (a point compared with its duplicate) has no
        moments to match: its site is empty at first.
        """
        solver = self.solver
        variance = torch.maximum(solver.variance, solver.rounding)
        mean = self.prior.expand_as(variance)
        sites = matching_sites(mean, self.factors.tilted(mean, variance))
        if solver.resolves_all:
            return sites
        moving = torch.cat([solver.resolved, solver.resolved], dim=-1)
        return torch.where(moving, sites, 0.0)

    def with_known_rows(self, state: EPState) -> EPState:
        """State with sites of rows that the prior knows exactly, on which none depend.

        They say nothing as things are, but what would happen if a point moved away from
        the copy that it is compared with: derivatives need them.
        """
        if state.moving is None:
            return state
        return self.state(torch.where(state.moving, state.sites, state.target))


def assumed_density_sites(
    factors: ScalarFactors, mean: Tensor, covariance: Tensor
) -> Sites:
    """Sites that give utilities the moments that they have after each answer alone."""
    rows = factors.rows
    row_mean = rows.apply(mean)
    variance = rows.congruence(covariance).diagonal(dim1=-2, dim2=-1)
    if factors.noise is not None:
        variance = variance + factors.noise.diagonal()
    # A point against its copy has no variance, but for rounding.
    variance = variance.clamp_min(torch.finfo(variance.dtype).tiny)
    row_mean = row_mean.expand_as(variance)
    tilted = factors.tilted(row_mean, variance)
    return Sites(*matching_sites(row_mean, tilted).chunk(2, dim=-1))


_MEMORY = 4
_ROUNDING = 16.0


class AndersonMemory:
    r"""Memory of the last residuals ``g(x) - x``, from which a fixed point follows.

    With the differences :math:`\Delta X, \Delta F` of the last iterates and residuals,
    the next iterate is :math:`x + f - (\Delta X + \Delta F) \gamma`, where
    :math:`\gamma` minimises :math:`\|D (f - \Delta F \gamma)\|` (Walker and Ni 2011,
    type II). ``total`` sums the products of entries over processes that have some each.
    """

    def __init__(self, total: Callable[[Tensor], Tensor] = torch.Tensor.detach) -> None:
        self._total = total
        self._last: tuple[Tensor, Tensor] | None = None
        self._dg: list[Tensor] = []
        self._df: list[Tensor] = []

    def extrapolate(self, x: Tensor, residual: Tensor, scale: Tensor) -> Tensor:
        """Remembers one more residual at ``x``, and proposes the next iterate.

        All are ``batch_shape x k``; ``scale`` is the diagonal of ``D``.
        """
        image, last = x + residual, self._last
        self._last = image, residual
        if last is None:
            return image
        self._dg = [*self._dg[-_MEMORY + 2 :], image - last[0]]
        self._df = [*self._df[-_MEMORY + 2 :], residual - last[1]]
        dg = torch.stack(self._dg, dim=-1)
        weighted = scale.unsqueeze(-1) * torch.stack(self._df, dim=-1)
        target = weighted.mT @ (scale * residual).unsqueeze(-1)
        normal = self._total(weighted.mT @ weighted)
        gamma = _solve_normal(normal, self._total(target))
        return image - (dg @ gamma).squeeze(-1)


def _solve_normal(normal: Tensor, target: Tensor) -> Tensor:
    """The least-squares solution; zero where there is none in these digits.

    Differences are scaled to the same length first, for those of earlier iterates are
    orders of magnitude longer. What is then added to the diagonal is a few roundings,
    so that differences that repeat others count little. Where all sites but two or
    three are equal the differences span fewer directions than there are, and rounding
    may leave no factor all the same.
    """
    known = torch.finfo(normal.dtype)
    diagonal = normal.diagonal(dim1=-2, dim2=-1)
    scale = diagonal.clamp_min(known.tiny).rsqrt().unsqueeze(-1)
    normal = scale * normal * scale.mT
    ridge = _ROUNDING * normal.shape[-1] * known.eps
    normal.diagonal(dim1=-2, dim2=-1).add_(ridge)
    cholesky, info = torch.linalg.cholesky_ex(normal)
    solution = scale * torch.cholesky_solve(scale * target, cholesky)
    solved = (info == 0)[..., None, None] & solution.isfinite().all(-2, keepdim=True)
    return torch.where(solved, solution, 0.0)


def _matching(factors: ScalarFactors) -> Callable[[Array, Array], Array]:
    """`matching_sites` of means and variances, of probits in few operations."""
    lines = HalfLines.of(factors)

    def sites(mean: Array, variance: Array) -> Array:
        if lines is None:
            tilted = factors.tilted(*map(torch.from_numpy, (mean, variance)))
            return matching_sites(torch.from_numpy(mean), tilted).numpy()
        first, bend = lines.slopes(mean, variance)
        shrink = 1 - variance * bend
        return np.concatenate([bend / shrink, (first + bend * mean) / shrink])

    return sites


# Steps this short, for want of a posterior after longer ones, lead nowhere.
_MIN_DAMPING = 2.0**-20


class Damping:
    """Share of a step that each element of a batch takes."""

    def __init__(self, state: EPState) -> None:
        self._factor = torch.ones_like(state.mismatch)
        self._calm = state.proper
        self._is_needed = not state.is_proper

    def next_sites(self, state: EPState, memory: AndersonMemory) -> Tensor:
        """The next sites: damped where acceleration makes precisions negative.

        The memory takes in the present state.
        """
        accelerated = memory.extrapolate(state.sites, state.step, state.scale)
        tau = accelerated.chunk(2, dim=-1)[0]
        everywhere = state.solver.everywhere
        if not self._is_needed and bool(everywhere((tau >= 0).all(-1)).all()):
            return accelerated
        damped = state.sites + self._factor.unsqueeze(-1) * state.step
        asked = damped.chunk(2, dim=-1)[0]
        proper = everywhere(((tau >= 0) | (asked < 0)).all(-1))
        return torch.where((self._calm & proper).unsqueeze(-1), accelerated, damped)

    def judge(self, calm: Tensor, everywhere: bool) -> None:
        """Halves the steps of elements that were not calm, doubles those that were."""
        if everywhere and not self._is_needed:
            return
        grown, halved = (2 * self._factor).clamp_max(1.0), 0.5 * self._factor
        self._calm, self._factor = calm, torch.where(calm, grown, halved)
        self._is_needed = not everywhere or bool((self._factor < 1).any())

    def ends(self, reached: Tensor, some_have: bool) -> bool:
        """Whether all have reached the tolerance, or steps too short to lead there."""
        if self._is_needed:
            reached = reached | (self._factor < _MIN_DAMPING)
        elif not some_have:
            return False
        return bool(reached.all())


_MAX_SWEEPS = 200
_TOLERANCE = 1e-7
# Accelerated steps may well be a little longer than the one before.
_LONGER = 2.0


def _iterate(problem: EPProblem, state: EPState) -> tuple[EPState, int]:
    """Parallel sweeps until tilted and posterior moments agree.

    A step after which the next one is longer, or after which there is no posterior, is
    taken back and halved: answers about almost the same row overshoot together, each by
    little. Where the sweeps lead nowhere, the one with the least mismatch is what there
    is.
    """
    if state.converged:
        return state, 1
    total, iterations = problem.solver.total, 1
    damping, memory = Damping(state), AndersonMemory(total)
    best, least = state.sites, state.mismatch
    while iterations < _MAX_SWEEPS:
        reached = state.mismatch <= _TOLERANCE
        some_may_have = bool(reached.any())
        if some_may_have:
            reached = state.residual <= _TOLERANCE
        if damping.ends(reached, some_may_have):
            break
        sites = damping.next_sites(state, memory)
        if some_may_have:
            sites = torch.where(reached.unsqueeze(-1), state.sites, sites)
        try:
            new = problem.state(sites)
        except PrecisionError:
            # Too precise for a posterior; nothing says which element of a batch it was.
            damping.judge(torch.zeros_like(state.proper), everywhere=False)
            memory, iterations = AndersonMemory(total), iterations + 1
            continue
        calm = new.proper & (new.step_length <= _LONGER * state.step_length)
        everywhere = bool(calm.all())
        if not everywhere:
            sites = torch.where(calm.unsqueeze(-1), sites, state.sites)
            new = problem.state(sites)
            memory = AndersonMemory(total)
            iterations += 1
        damping.judge(calm, everywhere)
        state = new
        better = state.mismatch < least
        best = torch.where(better.unsqueeze(-1), state.sites, best)
        least = torch.where(better, state.mismatch, least)
        iterations += 1
    # Of two that would do, the one that reached the tolerance in all respects stays.
    worse = (state.mismatch > least) & (state.residual > _TOLERANCE)
    if bool(worse.any()):
        sites = torch.where(worse.unsqueeze(-1), best, state.sites)
        state = problem.state(sites)
    return state, iterations


def fixed_point(problem: EPProblem, start: WarmStart | None) -> tuple[EPState, int]:
    """The state in which moments agree, from a start, and the number of sweeps."""
    first, quick = problem.first(None if start is None else start.sites)
    state, iterations = _iterate(problem, first)
    return problem.with_known_rows(state), quick + iterations


def ep_log_evidence(state: EPState, tilted: Tensor) -> Tensor:
    r"""Rasmussen and Williams (2006), eq. 3.65, in natural parameters.

    The sum of log tilted normalisers, minus the log normalisers of site times cavity,
    plus the log integral of prior times sites, all relative to the prior mean of the
    rows. With the forces ``a``, the variances :math:`s_-` of the cavities and the
    ratios ``q`` of variances to those of cavities this is

    .. math::
        \sum_i \big( \log Z_i + \tfrac12 s_{-i} a_i^2 - \tfrac12 \log q_i \big)
        - \tfrac12 a' C a - \tfrac12 \log |B|,

    whose terms are not large where sites are precise, and in which an error of a force
    cancels to first order. ``tilted`` are the :math:`\log Z_i`.
    """
    own = state.cavity_variance * state.force.square()
    each = tilted + 0.5 * (own - state.cavity_ratio.log())
    outside = state.balance.energy + state.posterior.log_det
    return state.solver.total(each.sum(-1)) - 0.5 * outside


def _surrogate(
    covar: Tensor,
    mean: Tensor,
    factors: ScalarFactors,
    state: EPState,
    weights: Tensor,
) -> Tensor:
    r"""A linear form with the gradient of the evidence at the fixed point.

    There the evidence is stationary in the sites, so that

    .. math::
        d \log Z = \tfrac12 \langle w w' - A' W A, dK \rangle + w' dm
        + \tfrac12 \langle a a' - W, dN \rangle
        + \sum_i \partial_\theta \log Z_i \, d\theta, \quad w = A' a

    (Rasmussen and Williams 2006, eq. 5.27; Seeger 2005).
    """
    form = prior_form(covar, mean, state.posterior, weights)
    if factors.is_learned:
        # Again, for the graph of its parameters.
        tilted = factors.log_partition(state.cavity_mean, state.cavity_variance)
        form = form + tilted.value.sum(-1)
        kept = state.tilted.second == 0
        unmatched = torch.where(kept, 0.5 * tilted.second.detach(), 0.0)
        if bool(unmatched.any()):
            form = form + _unmatched_form(covar, mean, factors, state, unmatched)
    if factors.noise is None:
        return form
    for part in factors.noise.parts:
        with torch.no_grad():
            own = part.take(state.force.unsqueeze(-1))
            gradient = own @ own.mT - state.posterior.noise_precision(part)
        form = form + 0.5 * (gradient * part.covariance).sum((-3, -2, -1))
    return form


def _unmatched_form(
    covar: Tensor,
    mean: Tensor,
    factors: ScalarFactors,
    state: EPState,
    unmatched: Tensor,
) -> Tensor:
    r"""A linear form with the gradient of :math:`\sum_i c_i s_{-i}` at the fixed point.

    Where a row keeps the variance of its cavity in place of that of its tilted factor
    (see :meth:`.LapsingFactors.tilted`), its site is 0 and the evidence is stationary
    but for the variances :math:`s_{-i}` of these cavities, in which it has the
    derivative :math:`c_i` that nothing matches.
    """
    noise, posterior = factors.noise, state.posterior
    given = state.mean, state.variance, *state.sites.chunk(2, dim=-1)
    slopes = site_slopes(factors.tilted, state.solver.resolved, *given)
    with torch.no_grad():
        by_precision = -posterior.squared_covariance()(unmatched)
        by_sites = torch.cat([by_precision, torch.zeros_like(by_precision)], dim=-1)
        pull = site_adjoint(slopes, posterior, state.mean, state.scale, by_sites)
        at_mean, at_variance = pulled_back(slopes[:2], pull)
        at_variance = at_variance + unmatched
        # Of changes of the prior covariance and means of points while sites stay.
        influence = posterior.influence()
        in_prior = (influence.mT @ at_mean.unsqueeze(-1)).squeeze(-1)
        in_covar = influence.mT @ (at_variance.unsqueeze(-1) * influence)
        in_covar = in_covar + in_prior.unsqueeze(-1) * state.balance.weights.unsqueeze(
            -2
        )
    form = (in_covar * covar).sum((-2, -1)) + (in_prior * mean).sum(-1)
    if noise is not None:
        form = form + _noise_form(noise, state, at_mean, at_variance)
    cavities = state.cavity_mean, state.cavity_variance
    sites = matching_sites(state.cavity_mean, factors.tilted(*cavities))
    return form + (pull * sites).sum(-1)


def _noise_form(
    noise: NoiseBlocks, state: EPState, at_mean: Tensor, at_variance: Tensor
) -> Tensor:
    """A linear form with the gradient of moments of rows in the noise that they share.

    Pulls at means and variances are ``batch_shape x m``.
    """
    with torch.no_grad():
        eye = torch.eye(noise.num_rows, dtype=at_mean.dtype, device=at_mean.device)
        back = state.posterior.kept(eye, state.variance).mT
        pull, force = back @ at_mean.unsqueeze(-1), state.force.unsqueeze(-1)
    form = at_mean.new_zeros(())
    for part in noise.parts:
        with torch.no_grad():
            own = part.take(back)
            gradient = (own * at_variance[..., None, None, :]) @ own.mT
            gradient = gradient + part.take(pull) @ part.take(force).mT
        form = form + (gradient * part.covariance).sum((-3, -2, -1))
    return form


def _derivatives(
    problem: EPProblem, state: EPState, kernel: RowKernel
) -> OfScales | None:
    """See `ep_derivatives`; None where the problem is not one for quick sweeps."""
    given = quick_problem(problem.solver, problem.prior, state.sites)
    lines = HalfLines.of(problem.factors)
    if given is None or lines is None or not problem.solver.resolves_all:
        return None
    parts = state.posterior.tau, state.mean, state.variance, state.force
    cavity = state.cavity_mean.numpy(), state.cavity_variance.numpy()
    rows = RowMoments(*(part.numpy() for part in parts))
    return ep_derivatives(given[0], rows, cavity, lines, kernel)


_COLUMNS = 1024


@torch.no_grad()
def evidence_error(factors: ScalarFactors, state: EPState) -> Tensor:
    r"""How far the log evidence is below the exact one, about: nats, ``batch_shape``.

    EP matches two moments of each tilted distribution and neglects its skewness
    :math:`\gamma_i`, which adds up where rows are correlated. With the correlations
    :math:`\rho_{ij}` of the posterior the leading term of what is neglected is

    .. math:: \tfrac{1}{12} \sum_{i \ne j} \gamma_i \gamma_j \rho_{ij}^3

    (Opper, Paquet and Winther 2013: the second order, to the third cumulants). Of
    answers that say much the same it is half of the error or all of it. It knows
    nothing of rows whose variance is not matched, as where an answer may be a lapse and
    surprises: there neither its size nor its sign is sure.
    """
    with torch.enable_grad():
        mean = state.cavity_mean.detach().requires_grad_()
        second = factors.tilted(mean, state.cavity_variance).second
        (third,) = torch.autograd.grad(second.sum(), mean)
    deviation = state._deviation
    if state.moving is not None:
        # Rows that the prior knows exactly have no skewness, and no deviation.
        moving = state.moving.chunk(2, dim=-1)[0]
        third, deviation = third * moving, torch.where(moving, deviation, 1.0)
    skewness = third * (state.cavity_variance / deviation) ** 3
    skewed = skewness / deviation**3
    eye = torch.eye(mean.shape[-1], dtype=mean.dtype, device=mean.device)
    pulled = torch.zeros_like(skewed)
    for columns, own in zip(
        eye.split(_COLUMNS, dim=-1), skewed.split(_COLUMNS, dim=-1), strict=True
    ):
        cubed = state.posterior.covariance_times(columns) ** 3
        pulled = pulled + (cubed @ own.unsqueeze(-1)).squeeze(-1)
    return ((skewed * pulled).sum(-1) - skewness.square().sum(-1)) / 12


class ExpectationPropagation(Engine):
    """Expectation propagation.

    A solution has converged where all tilted moments match those of the posterior to
    1e-7 standard deviations. The error of the evidence is of second order in that.
    """

    takes: ClassVar[frozenset[type[Any]]] = frozenset({ScalarFactors})

    def solve(
        self, prior: UtilityPrior, factors: Factors, start: WarmStart | None = None
    ) -> GaussianSolution:
        """See base class."""
        _, mean, covar = prior.in_double()
        given, start = in_double((factors, start))
        own = cast("ScalarFactors", given)
        with torch.no_grad():
            solver = choose_solver(covar, own.rows, own.noise)
            problem = EPProblem(solver, own.rows.apply(mean), own)
            state, iterations = fixed_point(problem, start)
        weights, eps = state.balance.weights, torch.finfo(prior.covar.dtype).eps
        return GaussianSolution(
            engine=self,
            prior=prior,
            evidence=with_gradient_of(
                ep_log_evidence(state, state.tilted.value),
                lambda: _surrogate(covar, mean, own, state, weights),
            ),
            weights=weights,
            sites=Sites(*state.sites.chunk(2, dim=-1)),
            factor=state.posterior,
            site_tangent=partial(
                implicit_tangent,
                partial(matching_derivatives, own, solver.resolved, state.variance),
            ),
            converged=state.converged,
            iterations=iterations,
            residual=float(state.residual.max()),
            rounding=conditioning.lost_digits(
                solver, state.posterior, state.balance, eps
            ),
            evidence_error=partial(evidence_error, own, state),
            of_scales=partial(_derivatives, problem, state),
        )

    @torch.no_grad()
    def initial_sites(self, factors: Factors, moments: Moments | None = None) -> Sites:
        """See base class: as each answer by itself would make them.

        From there instead of from empty sites the sweeps end one to ten earlier: an
        empty site's first step is the only one at first, and the reactions to it look
        as if it had been too long.
        """
        if moments is None:
            return super().initial_sites(factors)
        given = in_double((factors, moments.means[0], moments.covariance))
        return assumed_density_sites(*given)
