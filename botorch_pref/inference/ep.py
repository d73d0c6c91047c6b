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

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar, cast

import torch
from torch import Tensor

from botorch_pref.errors import PrecisionError
from botorch_pref.inference import conditioning
from botorch_pref.inference.engine import (
    Engine,
    OfScales,
    Sites,
    UtilityPrior,
    WarmStart,
    in_double,
)
from botorch_pref.inference.evidence_curvature import RowMoments, ep_derivatives
from botorch_pref.inference.gaussian_solution import (
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
from botorch_pref.inference.sweeps import (
    HalfLines,
    NoQuickSweep,
    QuickSweeps,
    fixed_point,
    row_arrays,
)
from botorch_pref.likelihoods.factors import Factors, ScalarFactors
from botorch_pref.linalg.covariance import RowKernel
from botorch_pref.linalg.sparse_design import NoiseBlocks
from botorch_pref.numerics.argument_checks import check_count
from botorch_pref.numerics.quadrature import TiltedMoments
from botorch_pref.posteriors.gaussian import Moments


@dataclass(frozen=True)
class EPState:
    """Sites with their posterior, its cavities and the moments of tilted factors.

    Sites are ``batch_shape x 2 m``, numbers of rows ``batch_shape x m``: the ratios of
    variances to those of cavities among them. ``proper``, ``batch_shape``, says whether
    posterior and cavities are Gaussian; else there are no moments. Variances are no
    less than their rounding error.
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
    proper: Tensor
    is_proper: bool

    @property
    def force(self) -> Tensor:
        """Forces of the sites at the posterior means, ``batch_shape x m``."""
        return self.balance.forces

    @cached_property
    def mismatch(self) -> Tensor:
        """Largest mismatch of tilted and posterior moments of a row, ``batch_shape``.

        In posterior standard deviations and relative to the variance; infinite where
        there is no posterior. Means agree where the slope of the log partition is the
        force of the site, and variances where both have the same ratio to the cavity's.
        """
        s = self.cavity_variance
        # Means of tilted factors are off by s times this difference.
        shift = s * (self.tilted.first - self.force) / self._deviation
        ratio = self.tilted.ratio / self.cavity_ratio - 1
        mismatch = torch.maximum(shift.abs(), ratio.abs())
        if not self.solver.resolves_all:
            mismatch = mismatch * self.solver.resolved
        worst = self.solver.largest(mismatch.amax(-1))
        return worst if self.is_proper else worst.masked_fill(~self.proper, torch.inf)

    @cached_property
    def residual(self) -> Tensor:
        """The larger of the mismatch and the movement by a step that matches all.

        In posterior standard deviations, ``batch_shape``: sweeps end by it. Of many
        equal answers each has a small mismatch, and all together move the posterior.
        """
        return torch.maximum(self.mismatch, self._movement)

    @property
    def _movement(self) -> Tensor:
        """Movement of the posterior by a full step, to first order, ``batch_shape``.

        The larger of that of the worst mean, ``Sigma (dnu - dtau mean)`` in deviations,
        and of the summed relative changes of variances, ``|dtau| Sigma_ii``.
        """
        tau, nu = self.step.chunk(2, dim=-1)
        force = torch.addcmul(nu, tau, self.mean, value=-1.0)
        moved = self.posterior.mean(force).abs() / self._deviation
        if not self.solver.resolves_all:
            moved = moved * self.solver.resolved
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
        """Sites that match the tilted moments (3.59), ``batch_shape x 2 m``."""
        return matching_sites(self.cavity_mean, self.tilted)

    @cached_property
    def step(self) -> Tensor:
        """Step from sites to target, ``batch_shape x 2 m``; zero where sites stay."""
        return _resolved_sites(self.solver, self.target - self.sites, 0.0)

    @cached_property
    def step_length(self) -> Tensor:
        """The step summed over sites, since those of equal answers add up."""
        return self.solver.total((self.step * self.scale).abs().sum(-1))


def _resolved_sites(
    solver: conditioning.SiteSolver, sites: Tensor, defaults: Tensor | float
) -> Tensor:
    """Returns ``sites``, ``batch_shape x 2 m``, but ``defaults`` of unresolved rows.

    These are rows that the prior knows exactly: a point compared with its copy.
    """
    if solver.resolves_all:
        return sites
    resolved = torch.cat([solver.resolved, solver.resolved], dim=-1)
    return torch.where(resolved, sites, defaults)


@dataclass(frozen=True)
class EPProblem:
    """Prior and factors of the rows; ``prior`` is the prior mean of the rows."""

    solver: conditioning.SiteSolver
    prior: Tensor
    factors: ScalarFactors

    def state(self, sites: Tensor) -> EPState:
        """Sweeps once from some sites, all in parallel.

        It is algorithm 3.5 of Rasmussen and Williams (2006), whose numbers are below.
        The last of its lines, new sites (3.59), is :attr:`EPState.target`.
        """
        solver, prior = self.solver, self.prior
        tau, nu = sites.chunk(2, dim=-1)
        # The posterior of the rows under the sites (3.53), by the factor of B.
        posterior, proper = conditioning.site_posterior(solver, tau)
        variance = torch.maximum(posterior.variance(), solver.rounding_given(tau))
        cavity_ratio = posterior.cavity_ratio(variance)
        if not solver.resolves_all:
            # Prior and sites may leave a row less variance than the rounding of it.
            variance = torch.where(solver.resolved, variance, solver.rounding)
            ratio = 1 - tau * variance
            cavity_ratio = torch.where(solver.resolved, cavity_ratio, ratio)
        shift = torch.addcmul(nu, tau, prior, value=-1.0).unsqueeze(-1)
        balance = posterior.solve(shift).of_column()
        mean = prior + balance.moved
        # Also where this process has no row that fails: all sweep on together.
        proper = solver.in_all_processes(proper & (cavity_ratio > 0).all(-1))
        is_proper = bool(proper.all())
        if not is_proper:
            # Any Gaussian will do where there is no cavity: its moments are not used.
            cavity_ratio = torch.where(proper.unsqueeze(-1), cavity_ratio, 1.0)
        # The cavities, without the site of the row (3.56).
        cavity_variance = variance / cavity_ratio
        cavity_mean = torch.addcmul(mean, cavity_variance, balance.forces, value=-1.0)
        return EPState(
            solver=solver,
            sites=sites,
            posterior=posterior,
            mean=mean,
            balance=balance,
            variance=variance,
            cavity_ratio=cavity_ratio,
            cavity_mean=cavity_mean,
            cavity_variance=cavity_variance,
            # The moments of cavities times factors (3.58).
            tilted=self.factors.tilted(cavity_mean, cavity_variance),
            proper=proper,
            is_proper=is_proper,
        )

    def first(self, sites: Sequence[Tensor]) -> EPState:
        """Finds the state of the first of ``sites`` that have a posterior.

        If none has, that of :meth:`prior_sites`.
        """
        for candidate in sites:
            # Beside a wide prior, sites may be too precise for a factor in double.
            with suppress(PrecisionError):
                state = self._start(candidate)
                if state.is_proper:
                    return state
        return self._start(self.prior_sites())

    def _start(self, sites: Tensor) -> EPState:
        """Makes the state of start sites, without negative precisions where need be.

        Elements of the batch in which these sites leave no Gaussian get precisions of 0
        in place of negative ones.
        """
        state = self.state(sites)
        if state.is_proper:
            return state
        # Negative precisions of other hyper-parameters, or each made for itself as in
        # `prior_sites`, may be too many together.
        tau, nu = sites.chunk(2, dim=-1)
        tau = torch.where(state.proper.unsqueeze(-1), tau, tau.clamp_min(0.0))
        return self.state(torch.cat([tau, nu], dim=-1))

    def prior_sites(self) -> Tensor:
        """Computes the sites that the prior alone suggests, without factorisation.

        A row that the prior knows exactly (a point compared with its duplicate) has no
        moments to match: its site is empty at first.
        """
        solver = self.solver
        variance = torch.maximum(solver.variance, solver.rounding)
        mean = self.prior.expand_as(variance)
        sites = matching_sites(mean, self.factors.tilted(mean, variance))
        return _resolved_sites(solver, sites, 0.0)

    def with_known_rows(self, state: EPState) -> EPState:
        """Adds to a state the sites of rows that the prior knows exactly.

        These rows compare a point with its copy. No moments depend on their sites, but
        what would happen if the point moved away from the copy does: derivatives need
        them.
        """
        if self.solver.resolves_all:
            return state
        return self.state(_resolved_sites(self.solver, state.sites, state.target))


def assumed_density_sites(
    factors: ScalarFactors, mean: Tensor, covariance: Tensor
) -> Sites:
    """Computes first sites of further answers, each as if it were the only one.

    That is a step of assumed density filtering: ``mean``, ``batch_shape x n``, and
    ``covariance`` are those of the utilities at the factors' points given the earlier
    answers, and each row's site matches its tilted moments under these.
    """
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


def ep_log_evidence(state: EPState, tilted: Tensor) -> Tensor:
    r"""Computes the evidence of Rasmussen and Williams (2006), eq. 3.65.

    The sum of log tilted normalisers, minus the log normalisers of site times cavity,
    plus the log integral of prior times sites, all relative to the prior mean of the
    rows. With the forces ``a`` of sites, the variances :math:`s_-` of the cavities, the
    ratios ``q`` of variances to those of cavities, the prior covariance ``C`` of the
    rows and :math:`B = I + T^{1/2} C T^{1/2}` for the site precisions ``T`` this is

    .. math::
        \sum_i \big( \log Z_i + \tfrac12 s_{-i} a_i^2 - \tfrac12 \log q_i \big)
        - \tfrac12 a' C a - \tfrac12 \log |B|,

    whose terms are not large where sites are precise, and in which an error of a force
    cancels to first order. ``tilted`` are the :math:`\log Z_i`.
    """
    squares = state.cavity_variance * state.force.square()
    terms = tilted + 0.5 * (squares - state.cavity_ratio.log())
    joint_terms = state.balance.energy + state.posterior.log_det
    return state.solver.total(terms.sum(-1)) - 0.5 * joint_terms


def _surrogate(
    covar: Tensor,
    mean: Tensor,
    factors: ScalarFactors,
    state: EPState,
    weights: Tensor,
) -> Tensor:
    r"""Makes a linear form with the gradient of the evidence at the fixed point.

    There the evidence is stationary in the sites, so that

    .. math::
        d \log Z = \tfrac12 \langle w w' - A' W A, dK \rangle + w' dm
        + \tfrac12 \langle a a' - W, dN \rangle
        + \sum_i \partial_\theta \log Z_i \, d\theta, \quad w = A' a

    (Rasmussen and Williams 2006, eq. 5.27; Seeger 2005), with the forces ``a`` of
    sites, the prior covariance ``K`` and mean ``m`` of points, the noise ``N`` that
    rows share, :math:`W = (C + T^{-1})^{-1}` of rows and the likelihood's parameters
    :math:`\theta`. Where the design ``A`` has a graph, its coefficients have a gradient
    too.
    """
    form = prior_form(covar, mean, state.posterior, weights)
    if factors.rows.coefficients.requires_grad:
        with torch.no_grad():
            utilities = mean + (covar @ weights.unsqueeze(-1)).squeeze(-1)
        # The noise that rows share is no function of the coefficients.
        form = form + (state.force * factors.rows.apply(utilities)).sum(-1)
        form = form - state.posterior.rows_form(factors.rows, covar)
    if factors.is_learned:
        # Once more, for the graph of the likelihood's parameters.
        tilted = factors.log_partition(state.cavity_mean, state.cavity_variance)
        form = form + tilted.value.sum(-1)
        # Where a second derivative is cut off at 0, the variance of the cavity stays.
        is_unmatched = state.tilted.second == 0
        unmatched = torch.where(is_unmatched, 0.5 * tilted.second.detach(), 0.0)
        if bool(unmatched.any()):
            form = form + _unmatched_form(covar, mean, factors, state, unmatched)
    if factors.noise is None:
        return form
    for part in factors.noise.parts:
        with torch.no_grad():
            block_forces = part.take(state.force.unsqueeze(-1))
            gradient = block_forces @ block_forces.mT - state.posterior.noise_precision(
                part
            )
        form = form + 0.5 * (gradient * part.covariance).sum((-3, -2, -1))
    return form


def _unmatched_form(
    covar: Tensor,
    mean: Tensor,
    factors: ScalarFactors,
    state: EPState,
    unmatched: Tensor,
) -> Tensor:
    r"""Makes a linear form with the gradient of :math:`\sum_i c_i s_{-i}`.

    The gradient is that at the fixed point, in prior, shared noise and likelihood.

    Where a row keeps the variance of its cavity in place of that of its tilted factor
    (see :meth:`.LapsingFactors.tilted`), its site is 0 and the evidence is stationary
    but for the variances :math:`s_{-i}` of these cavities, in which it has the
    derivative :math:`c_i`, the ``unmatched``, that nothing matches.
    """
    noise, posterior = factors.noise, state.posterior
    arguments = state.mean, state.variance, *state.sites.chunk(2, dim=-1)
    slopes = site_slopes(factors.tilted, state.solver.resolved, *arguments)
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
    """Makes a linear form with the gradient of moments of rows in their shared noise.

    Gradients ``at_mean`` and ``at_variance`` of a function in means and variances of
    rows, ``batch_shape x m``, become one in the noise ``N``: while sites stay, it moves
    means by ``L dN a`` and variances by the diagonal of ``L dN L'``, with ``L = I -
    Sigma T`` and the forces ``a``.
    """
    with torch.no_grad():
        eye = torch.eye(noise.num_rows, dtype=at_mean.dtype, device=at_mean.device)
        back = state.posterior.shrunk(eye, state.variance).mT
        pull, force = back @ at_mean.unsqueeze(-1), state.force.unsqueeze(-1)
    form = at_mean.new_zeros(())
    for part in noise.parts:
        with torch.no_grad():
            block_influence = part.take(back)
            gradient = (
                block_influence * at_variance[..., None, None, :]
            ) @ block_influence.mT
            gradient = gradient + part.take(pull) @ part.take(force).mT
        form = form + (gradient * part.covariance).sum((-3, -2, -1))
    return form


def _derivatives(
    problem: EPProblem, state: EPState, kernel: RowKernel
) -> OfScales | None:
    """Differentiates the evidence in the logs of a kernel's scales: first and second.

    See :func:`.ep_derivatives`; None where the problem is not one for quick sweeps of
    half-lines: a fit makes do with gradients then.
    """
    arrays = row_arrays(problem.solver, problem.prior)
    lines = HalfLines.from_factors(problem.factors)
    if arrays is None or lines is None or not problem.solver.resolves_all:
        return None
    moments = state.posterior.tau, state.mean, state.variance, state.force
    cavity = state.cavity_mean.numpy(), state.cavity_variance.numpy()
    rows = RowMoments(*(part.numpy() for part in moments))
    return ep_derivatives(arrays[0], rows, cavity, lines, kernel)


_COLUMNS = 1024


@torch.no_grad()
def evidence_error(factors: ScalarFactors, state: EPState) -> Tensor:
    r"""Estimates by how many nats the log evidence is below the exact one.

    The estimate is ``batch_shape``.

    EP matches two moments of each tilted distribution and neglects its skewness
    :math:`\gamma_i`, which adds up where rows are correlated. With the correlations
    :math:`\rho_{ij}` of the posterior the leading term of what is neglected is

    .. math:: \tfrac{1}{12} \sum_{i \ne j} \gamma_i \gamma_j \rho_{ij}^3

    (Opper, Paquet and Winther 2013: the second order, to the third cumulants). Where
    answers say much the same the estimate is between half of the error and all of it.
    Rows whose variance is not matched, as where an answer may be a lapse and surprises,
    are not allowed for: with these neither its size nor its sign is sure.
    """
    with torch.enable_grad():
        mean = state.cavity_mean.detach().requires_grad_()
        second = factors.tilted(mean, state.cavity_variance).second
        (third,) = torch.autograd.grad(second.sum(), mean)
    deviation = state._deviation
    if not state.solver.resolves_all:
        # Rows that the prior knows exactly have no skewness, and no deviation.
        resolved = state.solver.resolved
        third, deviation = third * resolved, torch.where(resolved, deviation, 1.0)
    # The third cumulant of a tilted factor is that derivative times cubed variances.
    skewness = third * (state.cavity_variance / deviation) ** 3
    # Between these, cubed covariances do what cubed correlations do between skewness.
    scaled = skewness / deviation**3
    eye = torch.eye(mean.shape[-1], dtype=mean.dtype, device=mean.device)
    pulled = torch.zeros_like(scaled)
    for columns, column_skewness in zip(
        eye.split(_COLUMNS, dim=-1), scaled.split(_COLUMNS, dim=-1), strict=True
    ):
        # Some columns at a time, for there may be thousands of rows.
        cubed = state.posterior.covariance_times(columns) ** 3
        pulled = pulled + (cubed @ column_skewness.unsqueeze(-1)).squeeze(-1)
    return ((scaled * pulled).sum(-1) - skewness.square().sum(-1)) / 12


@dataclass(frozen=True)
class ExpectationPropagation(Engine):
    """Expectation propagation.

    Attributes:
        tolerance: Of the distance to the fixed point, where all tilted moments match
            those of the posterior, in posterior standard deviations. The error of the
            evidence is of second order in that.
        max_iterations: The largest number of sweeps.
        memory: The number of sweeps that Anderson's acceleration remembers, at least 2:
            it extrapolates differences of sweeps.

    Raises:
        FeedbackError: The memory is no such number.
    """

    takes: ClassVar[frozenset[type[Any]]] = frozenset({ScalarFactors})

    tolerance: float = 1e-7
    max_iterations: int = 200
    memory: int = 4

    def __post_init__(self) -> None:
        """Refuses a memory of one sweep, which has no differences."""
        check_count("memory", self.memory, at_least=2)

    @property
    def of_evidence_value(self) -> ExpectationPropagation:
        """See base class: with the root of the tolerance, which is the evidence's.

        The evidence is stationary in the sites, and its gradient is not.
        """
        return replace(self, tolerance=self.tolerance**0.5)

    def fixed_point(
        self, problem: EPProblem, start: WarmStart | None
    ) -> tuple[EPState, int]:
        """Iterates from a start to the state in which moments agree; counts sweeps.

        Quick sweeps go first where `QuickSweeps.from_problem` makes some. They only say
        where the others start: an error in them costs sweeps and no digits.
        """
        search = partial(
            fixed_point,
            solver=problem.solver,
            max_iterations=self.max_iterations,
            memory=self.memory,
        )
        start_sites = [] if start is None else [torch.cat(start.sites, dim=-1)]
        starts, num_quick = start_sites, 0
        evaluate = QuickSweeps.from_problem(
            problem.solver, problem.prior, problem.factors
        )
        if evaluate is not None:
            first = start_sites[0] if start_sites else problem.prior_sites()
            with suppress(PrecisionError, NoQuickSweep):
                # Below the tolerance, for the rounding of quick sweeps is larger.
                quick, num_quick = search(
                    evaluate, evaluate(first.numpy()), tolerance=0.5 * self.tolerance
                )
                starts = [torch.from_numpy(quick.sites), *start_sites]
        state, iterations = search(
            problem.state, problem.first(starts), tolerance=self.tolerance
        )
        return problem.with_known_rows(state), num_quick + iterations

    def solve(
        self, prior: UtilityPrior, factors: Factors, start: WarmStart | None = None
    ) -> GaussianSolution:
        """Solves for sites whose tilted moments are the posterior's; see base class.

        It computes in double precision and without a graph; the evidence of the
        solution has its gradient all the same.
        """
        _, mean, covar = prior.in_double()
        double_factors, start = in_double((factors, start))
        scalar_factors = cast("ScalarFactors", double_factors)
        with torch.no_grad():
            solver = choose_solver(covar, scalar_factors.rows, scalar_factors.noise)
            problem = EPProblem(solver, scalar_factors.rows.apply(mean), scalar_factors)
            state, iterations = self.fixed_point(problem, start)
        weights, eps = state.balance.weights, torch.finfo(prior.covar.dtype).eps
        return GaussianSolution(
            engine=self,
            prior=prior,
            evidence=with_gradient_of(
                ep_log_evidence(state, state.tilted.value),
                lambda: _surrogate(covar, mean, scalar_factors, state, weights),
            ),
            weights=weights,
            sites=Sites(*state.sites.chunk(2, dim=-1)),
            factor=state.posterior,
            site_tangent=partial(
                implicit_tangent,
                partial(
                    matching_derivatives,
                    scalar_factors,
                    solver.resolved,
                    state.variance,
                ),
            ),
            converged=bool((state.residual <= self.tolerance).all()),
            iterations=iterations,
            residual=float(state.residual.max()),
            rounding=conditioning.lost_digits(
                solver, state.posterior, state.balance, eps
            ),
            evidence_error=partial(evidence_error, scalar_factors, state),
            of_scales=partial(_derivatives, problem, state),
        )

    @torch.no_grad()
    def initial_sites(self, factors: Factors, moments: Moments | None = None) -> Sites:
        """Makes initial sites of further answers, each as if it were the only one.

        From there the sweeps are one to ten fewer than from empty sites. Only such
        sites move in the first sweep; in the second all others react, by a step so long
        that the first is taken back. Without ``moments`` the sites are empty.
        """
        if moments is None:
            return super().initial_sites(factors)
        # Moments of a Gaussian have one row of means.
        arguments = in_double((factors, moments.means[0], moments.covariance))
        return assumed_density_sites(*arguments)
