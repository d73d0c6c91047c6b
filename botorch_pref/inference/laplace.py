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
from typing import Any, ClassVar

import torch
from torch import Tensor

from botorch_pref.inference.conditioning import (
    Response,
    SitePosterior,
    SiteSolver,
    lost_digits,
    site_posterior,
)
from botorch_pref.inference.engine import Engine
from botorch_pref.inference.gaussian import (
    GaussianResult,
    GaussianSolution,
    SiteChange,
    SiteMap,
    SiteTangent,
    covariance_form,
    with_gradient_of,
)
from botorch_pref.inference.solution import UtilityPrior, WarmStart, in_double
from botorch_pref.inference.solvers import choose_solver
from botorch_pref.likelihoods.factors import Factors, LogDerivatives

_MAX_ITERATIONS = 100
_TOLERANCE = math.sqrt(torch.finfo(torch.float64).eps)
_MAX_HALVINGS = 40
_ARMIJO = 1e-4
# Roundings of the sum that terms far larger than it may leave in it.
_NOISE = 1e5
# Length of a step, in posterior standard deviations, that changes nothing.
_SETTLED = 1e-12
# Squared length, in posterior standard deviations, of steps on which slopes are enough.
_SHORT = 1e-6


@dataclass(frozen=True)
class _Point:
    """Utilities at which the log posterior is known up to a constant.

    Attributes:
        opposed: The pull of the prior in the solver's space, ``batch_shape x k``.
        moved: The movement by which it pulls so, ``batch_shape x k``.
        z: Rows, ``batch_shape x m``.
        log_prob: Of the factors there.
        pull: Of the factors beyond that of the prior, ``batch_shape x k``.
        value: The log posterior, ``batch_shape``.
    """

    opposed: Tensor
    moved: Tensor
    z: Tensor
    log_prob: LogDerivatives
    pull: Tensor
    value: Tensor


@dataclass(frozen=True)
class _LogPosterior:
    """The log posterior of utilities.

    Attributes:
        solver: Of prior and rows.
        prior: Prior mean of the rows, ``batch_shape x m``.
        factors: Of the rows.
    """

    solver: SiteSolver
    prior: Tensor
    factors: Factors

    def at(self, opposed: Tensor, moved: Tensor) -> _Point:
        """The point of some movement, and of the pull of the prior against it."""
        z = self.prior + self.solver.rows_of(moved)
        log_prob = self.factors.log_prob(z)
        value = log_prob.value.sum(-1) - 0.5 * (opposed * moved).sum(-1)
        pull = self.solver.gather(log_prob.first) - opposed
        return _Point(opposed, moved, z, log_prob, pull, value)


def _line_search(posterior: _LogPosterior, start: _Point, step: Response) -> _Point:
    """Halves the step until the objective gains enough (Armijo), per batch element.

    Where gains drown in the rounding of the objective, a slope that has halved will do
    (Hager and Zhang 2005, "approximate Wolfe"). So it will on steps too short to lead
    over a hump, whatever the rounding, which is large where sites are very precise.
    """
    opposed, moved, slope = step
    rounding = torch.finfo(slope.dtype).eps * (1 + start.value.abs())
    size = torch.ones_like(start.value)
    new = posterior.at(start.opposed + opposed, start.moved + moved)
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
                new = posterior.at(start.opposed + t * opposed, start.moved + t * moved)
                continue
        break
    return new


def _find_mode(
    log_posterior: _LogPosterior, point: _Point, tolerance: float
) -> tuple[_Point, SitePosterior, Tensor, int]:
    """Mode, and the length of the last step: infinite where it is no mode."""
    before, iterations = torch.full_like(point.value, torch.inf), 0
    settled = torch.zeros_like(point.value, dtype=torch.bool)
    while True:
        posterior, proper = site_posterior(log_posterior.solver, -point.log_prob.second)
        step = posterior.respond(point.pull)
        # The Newton decrement: the length of the step in posterior standard deviations.
        # One that rounding has made negative is no shorter for that.
        residual = step.decrement.abs().sqrt()
        # The evidence is not stationary in the mode, and its slope grows with the ratio
        # of output scale to noise: steps go on until they are nothing or only rounding.
        stalled = (before <= tolerance) & (residual >= 0.5 * before)
        settled = settled | stalled | (residual <= _SETTLED)
        settled = settled & (residual <= tolerance)
        if iterations == _MAX_ITERATIONS or bool(settled.all()):
            residual = torch.where(proper, residual, torch.inf)
            return point, posterior, residual, iterations
        point = _line_search(log_posterior, point, step)
        before = residual
        iterations += 1


def _surrogate(
    covar: Tensor,
    mean: Tensor,
    factors: Factors,
    z: Tensor,
    posterior: SitePosterior,
    weights: Tensor,
) -> Tensor:
    r"""The gradient with the mode's own motion (Rasmussen and Williams 2006, 5.22-24).

    With :math:`s_i = \frac12 \Sigma_{ii} \partial^3 \log p_i`, the derivative of
    :math:`-\frac12 \log |B|` in the mode, and :math:`q = (I - W C) s`,

    .. math::
        d \log Z = \tfrac12 \langle w w' - A' W A, dK \rangle + (A' q)' dK w
        + (w + A' q)' dm + \sum_i \partial_\theta \big[ \log p_i
        + \tfrac12 \Sigma_{ii} \partial^2 \log p_i
        + (\Sigma s)_i \partial \log p_i \big] d\theta.
    """
    with torch.no_grad():
        variance = posterior.variance()
        s = factors.curvature_gradient(z, 0.5 * variance)
        _, moved, q, _ = posterior.solve(s.unsqueeze(-1)).of_column()
        precision = posterior.precision()
    at_mode = factors.log_prob(z)
    likelihood = at_mode.value + 0.5 * variance * at_mode.second + moved * at_mode.first
    return (
        covariance_form(weights + 2 * q, weights, precision, covar)
        + ((weights + q) * mean).sum(-1)
        + likelihood.sum(-1)
    )


@dataclass(frozen=True)
class _CurvatureTangent:
    """The change of sites that touch the log likelihood at the mode as that moves.

    They do not pull at it: it moves as if they stayed.
    """

    factors: Factors
    mode: Tensor

    def __call__(self, of_mean: Tensor, of_variance: Tensor) -> SiteChange:
        second = self.factors.log_prob(self.mode + of_mean).second
        return SiteChange(second.detach() - second, torch.zeros_like(second))


class ModeCurvature(SiteMap):
    """The sites of Laplace: curvature and slope of the factors at the mode.

    Args:
        factors: Of the rows.
    """

    def __init__(self, factors: Factors) -> None:
        self._factors, self.rows = factors, factors.rows

    def tangent(self, factor: SitePosterior, mean: Tensor, nu: Tensor) -> SiteTangent:
        """See base class."""
        return _CurvatureTangent(self._factors, mean)


def laplace(
    covar: Tensor,
    mean: Tensor,
    factors: Factors,
    initial_sites: tuple[Tensor, Tensor] | None = None,
) -> GaussianResult:
    """The Laplace posterior and evidence of utilities given answers.

    Args:
        covar: Prior covariance ``K`` of the points, ``batch_shape x n x n``.
        mean: Prior mean, ``batch_shape x n``.
        factors: m factors on rows of the n points.
        initial_sites: Precisions and shifts of an earlier solution to start from, each
            ``batch_shape x m``; none start at the prior mean.

    Returns:
        The result; ``converged`` says whether the last Newton step, in posterior
        standard deviations, was below the square root of the precision of the dtype.
    """
    eps = torch.finfo(covar.dtype).eps
    covar, mean, factors, initial_sites = in_double(
        (covar, mean, factors, initial_sites)
    )
    rows = factors.rows
    with torch.no_grad():
        solver = choose_solver(covar, rows)
        prior = rows.apply(mean)
        batch = torch.broadcast_shapes(covar.shape[:-2], prior.shape[:-1])
        log_posterior = _LogPosterior(solver, prior, factors)
        opposed = moved = solver.gather(covar.new_zeros(*batch, rows.num_rows))
        if initial_sites is not None:
            tau, nu = initial_sites
            before, _ = site_posterior(solver, tau)
            shift = torch.addcmul(nu, before.tau, prior, value=-1.0)
            opposed, moved, _ = before.respond(solver.gather(shift))
        point, posterior, residual, iterations = _find_mode(
            log_posterior, log_posterior.at(opposed, moved), _TOLERANCE
        )
        z = point.z
        shift = torch.addcmul(point.log_prob.first, posterior.tau, z - prior)
        balance = posterior.solve(shift.unsqueeze(-1)).of_column()
        weights = balance.weights
        value = point.value - 0.5 * posterior.log_det
    return GaussianResult(
        weights=weights,
        log_evidence=with_gradient_of(
            value,
            lambda: _surrogate(covar, mean, factors, z, posterior, weights),
        ),
        site_precision=posterior.tau,
        site_shift=point.log_prob.first + posterior.tau * z,
        factor=posterior,
        site_map=ModeCurvature(factors),
        converged=bool((residual <= _TOLERANCE).all()),
        iterations=iterations,
        residual=float(residual.max()),
        rounding=lost_digits(solver, posterior, balance, eps),
    )


class Laplace(Engine):
    """The engine of :func:`laplace`.

    It takes factors of every kind, but not those whose rows share noise: the mode of
    such noise and of the utilities together is no mode of the utilities.
    """

    takes: ClassVar[frozenset[type[Any]]] = frozenset({Factors})

    def accepts(self, factors: type[Factors]) -> bool:
        """See base class."""
        return super().accepts(factors) and not factors.shares_noise

    def solve(
        self, prior: UtilityPrior, factors: Factors, start: WarmStart | None = None
    ) -> GaussianSolution:
        """See base class."""
        sites = None if start is None else start.sites
        return GaussianSolution(
            self, prior, laplace(prior.covar, prior.mean, factors, sites)
        )
