r"""Laplace's approximation: the mode by damped Newton, the curvature there.

With ``u = A (f - mean) = C a`` the negative log posterior is
:math:`\frac12 a' C a - \sum_i \log p(y_i \mid z_i)`, convex for log-concave factors.
Newton's step conditions on sites of precision :math:`\tau = -\partial^2 \log p`
(Rasmussen and Williams 2006, algorithm 3.1; Chu and Ghahramani 2005 for pairs). It is
solved for as a change, from the pull :math:`\partial \log p - a` that is out of
balance: what rounding leaves of one step is in the pull of the next. Where answers
outnumber points the pull is that of points, summed over answers first: see
:class:`.SiteSolver`.

Other factors may bend the wrong way. Newton's step is taken where the posterior's
curvature is positive definite all the same; elsewhere each row is damped by as much as
its precision lacks to zero, so that the step goes uphill and the line search finds the
gain. It is the damping of Levenberg and Marquardt (equation 22 of Jensen and Nielsen
2014, where it is printed with the opposite sign), row by row: it needs no factor to be
tuned and vanishes at a mode, whose covariance and evidence have the true curvature.
There may be several modes; the one uphill of the start is found. On strengths and
ratings drawn from the model it is mostly the highest; where many answers contradict the
others another start may lead higher.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Protocol, TypeVar

import torch
from torch import Tensor

from botorch_pref.inference.conditioning import (
    Response,
    SitePosterior,
    SiteSolver,
    lost_digits,
    site_posterior,
)
from botorch_pref.inference.engine import (
    Engine,
    OfScales,
    Sites,
    UtilityPrior,
    WarmStart,
    in_double,
)
from botorch_pref.inference.evidence_curvature import RowMoments, laplace_derivatives
from botorch_pref.inference.gaussian_solution import (
    GaussianSolution,
    SiteChange,
    SiteTangent,
    prior_form,
    with_gradient_of,
)
from botorch_pref.inference.solvers import choose_solver
from botorch_pref.inference.sweeps import HalfLines, row_arrays
from botorch_pref.likelihoods.factors import Factors
from botorch_pref.linalg.covariance import RowKernel
from botorch_pref.numerics.quadrature import LogDerivatives

_MAX_HALVINGS = 40
_ARMIJO = 1e-4
# Roundings of the sum that terms far larger than it may leave in it.
_NOISE = 1e5
# Length of a step, in posterior standard deviations, that changes nothing.
_SETTLED = 1e-12
# Squared length, in posterior standard deviations, of steps on which slopes are enough.
_SHORT = 1e-6


@dataclass(frozen=True)
class Point:
    """A place at which a log posterior is known up to a constant.

    ``opposed`` is the pull of the prior, ``moved`` the movement by which it pulls so,
    and ``pull`` that of the answers beyond it, each ``batch_shape x k``; ``value`` is
    the log posterior.
    """

    opposed: Tensor
    moved: Tensor
    pull: Tensor
    value: Tensor


PointT = TypeVar("PointT", bound=Point)


class LogPosterior(Protocol[PointT]):
    """A log posterior whose mode is to be found."""

    def point(self, opposed: Tensor, moved: Tensor) -> PointT:
        """Evaluates the posterior at ``moved``; the prior pulls back by ``opposed``."""

    def curvature(self, point: PointT) -> tuple[Any, Tensor]:
        """Gives what responds to pulls there, and where it is a posterior."""


@dataclass(frozen=True)
class _Utilities(Point):
    """Utilities by their rows ``z``; pulls are in the solver's space."""

    z: Tensor
    log_prob: LogDerivatives


@dataclass(frozen=True)
class _LogPosterior:
    """The log posterior of utilities; ``prior`` is the prior mean of the rows."""

    solver: SiteSolver
    prior: Tensor
    factors: Factors

    def point(self, opposed: Tensor, moved: Tensor) -> _Utilities:
        """Evaluates the log posterior at ``moved``, a movement from the prior mean.

        There the prior pulls back by ``opposed``. Both are in the space of the solver,
        that of rows or of white points.
        """
        z = self.prior + self.solver.rows_of(moved)
        log_prob = self.factors.log_prob(z)
        value = log_prob.value.sum(-1) - 0.5 * (opposed * moved).sum(-1)
        pull = self.solver.gather(log_prob.first) - opposed
        return _Utilities(opposed, moved, pull, value, z, log_prob)

    def curvature(self, point: _Utilities) -> tuple[SitePosterior, Tensor]:
        """See :class:`LogPosterior`."""
        return site_posterior(self.solver, -point.log_prob.second)

    def first(self, start: WarmStart | None) -> tuple[_Utilities, SitePosterior | None]:
        """Returns the point to start from, and a curvature near it, None if unknown.

        That is the mean under the sites of an earlier solution, and their posterior;
        without a start it is the prior mean.
        """
        if start is None:
            forces = torch.zeros_like(self.solver.variance + self.prior)
            unmoved = self.solver.gather(forces)
            return self.point(unmoved, unmoved), None
        before, _ = site_posterior(self.solver, start.sites.precision)
        # Sites are on utilities, and movements go from the prior mean.
        shift = torch.addcmul(start.sites.shift, before.tau, self.prior, value=-1.0)
        return self.point(*before.respond(self.solver.gather(shift))[:2]), before


def _line_search(
    posterior: LogPosterior[PointT], start: PointT, step: Response
) -> PointT:
    """Halves the step until the objective gains enough (Armijo), per batch element.

    Where gains drown in the rounding of the objective, a slope that has halved will do
    (Hager and Zhang 2005, "approximate Wolfe"). So it will whatever the rounding, which
    is large where sites are very precise, if the whole step is at most 1e-3 posterior
    deviations: too short to lead over a hump. If no step is good enough, the shortest
    one is taken.
    """
    # The slope of the objective along Newton's step is the decrement.
    opposed, moved, slope = step
    rounding = torch.finfo(slope.dtype).eps * (1 + start.value.abs())
    size = torch.ones_like(start.value)
    new = posterior.point(start.opposed + opposed, start.moved + moved)
    for _ in range(_MAX_HALVINGS):
        gain = new.value - start.value
        enough = gain >= _ARMIJO * size * slope - 10 * rounding
        if not bool(enough.all()):
            flat = (gain >= -_NOISE * rounding) | (slope <= _SHORT)
            steep = (new.pull * moved).sum(-1).abs()
            enough = enough | (flat & (steep <= 0.5 * slope))
            if not bool(enough.all()):
                size = torch.where(enough, size, 0.5 * size)
                t = size.unsqueeze(-1)
                new = posterior.point(
                    start.opposed + t * opposed, start.moved + t * moved
                )
                continue
        break
    return new


def _climb_by(
    posterior: LogPosterior[PointT], point: PointT, curvature: Any, gain: float
) -> PointT:
    """Steps on by the curvature of an earlier place, while that still gains.

    It ends where a step is longer than ``gain`` times the step before, or would lead
    down. Such steps of the chord method cost a product with a matrix where another
    curvature costs its factor, and each gains as many digits as the curvature has
    right.
    """
    before = torch.full_like(point.value, torch.inf)
    while True:
        step = curvature.respond(point.pull)
        length = step.decrement.abs().sqrt()
        # Also where the curvature is so far off that its steps are no numbers.
        is_shorter = bool((length <= gain * before).all())
        if not is_shorter or bool((length <= _SETTLED).all()):
            return point
        new = posterior.point(point.opposed + step.opposed, point.moved + step.moved)
        rounding = torch.finfo(length.dtype).eps * (1 + point.value.abs())
        if not bool((new.value >= point.value - 10 * rounding).all()):
            return point
        point, before = new, length


def find_mode(
    log_posterior: LogPosterior[PointT],
    point: PointT,
    settings: Laplace,
    curvature: Any = None,
) -> tuple[PointT, Any, Tensor, int]:
    """Climbs to a mode by Newton's steps (Rasmussen and Williams 2006, algorithm 3.1).

    Args:
        log_posterior: The function to climb.
        point: Where to start.
        settings: Of the steps.
        curvature: About that at the start, if it is known.

    Returns:
        The mode, the curvature there, the length of the last step, ``batch_shape``,
        infinite where it is no mode, and the number of steps.
    """
    before, iterations = torch.full_like(point.value, torch.inf), 0
    settled = torch.zeros_like(point.value, dtype=torch.bool)
    tolerance = settings.tolerance
    is_large = point.pull.shape[-1] >= settings.chord_unknowns
    while True:
        if is_large and curvature is not None:
            point = _climb_by(log_posterior, point, curvature, settings.chord_gain)
        curvature, proper = log_posterior.curvature(point)
        step = curvature.respond(point.pull)
        # The Newton decrement: the length of the step in posterior standard deviations.
        # One that rounding has made negative is no shorter for that.
        residual = step.decrement.abs().sqrt()
        # The evidence is not stationary in the mode, and its slope grows with the ratio
        # of output scale to noise: steps go on until they are nothing or only rounding.
        stalled = (before <= tolerance) & (residual >= 0.5 * before)
        settled = settled | stalled | (residual <= _SETTLED)
        settled = settled & (residual <= tolerance)
        if iterations == settings.max_iterations or bool(settled.all()):
            residual = torch.where(proper, residual, torch.inf)
            return point, curvature, residual, iterations
        point = _line_search(log_posterior, point, step)
        before = residual
        iterations += 1


def _pull_at_mode(
    factors: Factors, posterior: SitePosterior, z: Tensor
) -> tuple[Tensor, Tensor]:
    """Computes the pull ``q`` of the log determinant at a mode, and the rows' move.

    With ``s_i = Sigma_ii d3 log p_i / 2``, the derivative of ``-log |B| / 2`` in row
    ``i`` of the mode, they are ``q = A' (I - W C) s``, ``batch_shape x n``, and ``Sigma
    s``, ``batch_shape x m``: by these a change of the prior or of the likelihood
    changes the evidence through the mode.
    """
    s = factors.curvature_gradient(z, 0.5 * posterior.variance())
    balance = posterior.solve(s.unsqueeze(-1)).of_column()
    return balance.weights, balance.moved


def _evidence_pull(factors: Factors, posterior: SitePosterior, mean: Tensor) -> Tensor:
    return _pull_at_mode(factors, posterior, mean)[0]


def _surrogate(
    covar: Tensor,
    mean: Tensor,
    factors: Factors,
    z: Tensor,
    posterior: SitePosterior,
    weights: Tensor,
) -> Tensor:
    r"""Makes a form with the evidence's gradient, the mode's own motion included.

    These are equations 5.22 to 5.24 of Rasmussen and Williams (2006). With the prior
    covariance ``C`` and the posterior covariance :math:`\Sigma` of rows, the site
    precisions ``T``, :math:`W = (C + T^{-1})^{-1}`, :math:`s_i = \frac12 \Sigma_{ii}
    \partial^3 \log p_i`, the derivative of :math:`-\frac12 \log |B|` in the mode ``z``,
    and :math:`q = A' (I - W C) s`, it is the :func:`.prior_form` and

    .. math::
        \sum_i \partial_\theta \big[ \log p_i
        + \tfrac12 \Sigma_{ii} \partial^2 \log p_i
        + (\Sigma s)_i \partial \log p_i \big] d\theta

    in the parameters :math:`\theta` of the likelihood.
    """
    with torch.no_grad():
        variance = posterior.variance()
        q, moved = _pull_at_mode(factors, posterior, z)
    form = prior_form(covar, mean, posterior, weights, q)
    if not factors.is_learned:
        return form
    at_mode = factors.log_prob(z)
    likelihood = at_mode.value + 0.5 * variance * at_mode.second + moved * at_mode.first
    return form + likelihood.sum(-1)


def _derivatives(
    log_posterior: _LogPosterior,
    point: _Utilities,
    posterior: SitePosterior,
    kernel: RowKernel,
) -> OfScales | None:
    """Differentiates the evidence in the logs of a kernel's scales: first and second.

    See :func:`.laplace_derivatives`; None where :func:`.row_arrays` is, and for factors
    other than half-lines: a fit makes do with gradients then.
    """
    arrays = row_arrays(log_posterior.solver, log_posterior.prior)
    lines = HalfLines.from_factors(log_posterior.factors)
    if arrays is None or lines is None:
        return None
    moments = posterior.tau, point.z, posterior.variance(), point.log_prob.first
    rows = RowMoments(*(part.numpy() for part in moments))
    return laplace_derivatives(arrays[0], rows, lines, kernel)


def _curvature_tangent(
    factors: Factors, _: SitePosterior, mean: Tensor, nu: Tensor
) -> SiteTangent:
    """Makes the tangent of sites with the factors' slope and curvature at the mode.

    At the place that the mode moves to, the slopes of the factor and of its former site
    are equal, for the site has the factor's curvature. So the precision of the site
    changes, and its force does not. Of the two changes that the tangent takes, that of
    the variances does not count.
    """

    def moved(of_mean: Tensor, of_variance: Tensor) -> SiteChange:
        second = factors.log_prob(mean + of_mean).second
        return SiteChange(second.detach() - second, torch.zeros_like(second))

    return moved


@dataclass(frozen=True)
class Laplace(Engine):
    """Laplace's approximation of posterior and evidence.

    It takes factors of every kind, but not those whose rows share noise: the mode of
    such noise and of the utilities together is no mode of the utilities.

    Attributes:
        tolerance: Of the last Newton step, in posterior standard deviations: 1.5e-8.
        max_iterations: The largest number of steps.
        chord_unknowns: Points or rows, whichever are fewer, from which steps also go by
            the curvature of an earlier place: there a new one costs more than several
            of them, which ``benchmarks/answer_cost.py`` prints.
        chord_gain: Share of a step that the next one by the same curvature may be: one
            that gains less leaves the curvature for a new one.
    """

    takes: ClassVar[frozenset[type[Any]]] = frozenset({Factors})

    tolerance: float = math.sqrt(torch.finfo(torch.float64).eps)
    max_iterations: int = 100
    chord_unknowns: int = 300
    chord_gain: float = 0.3

    def accepts(self, factors: type[Factors]) -> bool:
        """See base class."""
        return super().accepts(factors) and not factors.shares_noise

    def solve(
        self, prior: UtilityPrior, factors: Factors, start: WarmStart | None = None
    ) -> GaussianSolution:
        """Climbs to a mode, and makes a Gaussian of its curvature; see base class.

        It computes in double precision and without a graph; the evidence of the
        solution has its gradient all the same.
        """
        _, mean, covar = prior.in_double()
        factors, start = in_double((factors, start))
        with torch.no_grad():
            solver = choose_solver(covar, factors.rows)
            log_posterior = _LogPosterior(solver, factors.rows.apply(mean), factors)
            first, before = log_posterior.first(start)
            point, posterior, residual, iterations = find_mode(
                log_posterior, first, self, before
            )
            z = point.z
            above = z - log_posterior.prior
            # Sites at the mode, as shifts from the prior mean: solved for once more,
            # for the weights of points.
            shift = torch.addcmul(point.log_prob.first, posterior.tau, above)
            balance = posterior.solve(shift.unsqueeze(-1)).of_column()
            value = point.value - 0.5 * posterior.log_det
        weights = balance.weights
        eps = torch.finfo(prior.covar.dtype).eps
        return GaussianSolution(
            engine=self,
            prior=prior,
            evidence=with_gradient_of(
                value, lambda: _surrogate(covar, mean, factors, z, posterior, weights)
            ),
            weights=weights,
            sites=Sites(posterior.tau, point.log_prob.first + posterior.tau * z),
            factor=posterior,
            site_tangent=partial(_curvature_tangent, factors),
            converged=bool((residual <= self.tolerance).all()),
            iterations=iterations,
            residual=float(residual.max()),
            rounding=lost_digits(solver, posterior, balance, eps),
            evidence_pull=partial(_evidence_pull, factors),
            of_scales=partial(_derivatives, log_posterior, point, posterior),
        )
