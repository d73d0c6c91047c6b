r"""Variational inference by lower bounds that are Gaussian in the utilities.

The likelihood is replaced by a lower bound of parameters ``b`` that is Gaussian in the
utilities, see :mod:`botorch_pref.inference.variational_bounds`. Then

.. math::
    \log p(\mathcal{Y}) \ge L(b) = c(b) + \log \int N(u; 0, C)
    \exp(\nu(b)' z - \tfrac12 z' T(b) z) \, du

is maximised in ``b`` by turns: the Gaussian for given ``b`` (step 16a of Guo et al.
2020), the best ``b`` for a given Gaussian (step 16b). The bounds are Jaakkola and
Jordan's (1997) for pairs, Bouchard's (2007) for larger sets.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor

from botorch_pref.inference.conditioning import SitePosterior, lost_digits
from botorch_pref.inference.engine import (
    Engine,
    Sites,
    UtilityPrior,
    WarmStart,
    in_double,
)
from botorch_pref.inference.gaussian import (
    Derivatives,
    GaussianSolution,
    implicit_tangent,
    prior_form,
    with_gradient_of,
)
from botorch_pref.inference.solvers import choose_solver
from botorch_pref.inference.variational_bounds import Bound, bound_of
from botorch_pref.likelihoods.factors import Factors
from botorch_pref.likelihoods.logit import LogitFactors, PlackettLuceFactors
from botorch_pref.linalg.sparse_design import SparseDesign

_MAX_ITERATIONS = 200
_TOLERANCE = 1e-7


class Conditioner(Protocol):
    """The prior of rows: what the ascent needs of a :class:`.SiteSolver`."""

    @property
    def variance(self) -> Tensor:
        """Variances of the rows, ``batch_shape x m``."""

    @property
    def rounding(self) -> Tensor:
        """The rounding error of the variances."""

    def factor(self, tau: Tensor) -> Any:
        """Conditions on sites of precision ``tau``.

        Returns what has ``log_det``, ``mean``, ``settle`` and ``variance`` of a
        :class:`.SitePosterior`.
        """

    def newton_step(
        self, curvature: Tensor, groups: SparseDesign | None, force: Tensor
    ) -> Tensor:
        """``A (K^-1 + A' diag(c) A - V'V)^-1 A' force``; see :class:`.Bound`."""


@dataclass(frozen=True)
class BoundStep:
    """The Gaussian under one choice of bound parameters, and better parameters.

    ``value``, ``batch_shape``, is the lower bound: equation 25 of Guo et al. (2020).
    """

    solver: Conditioner
    bound: Bound
    parameters: Tensor
    tau: Tensor
    nu: Tensor
    factor: Any
    mean: Tensor
    variance: Tensor
    value: Tensor

    @cached_property
    def target(self) -> Tensor:
        """Best parameters for this Gaussian: step (16b)."""
        return self.bound.best(self.mean, self.variance)

    @cached_property
    def gain(self) -> Tensor:
        """Least gain in the bound by the best parameters, ``batch_shape``."""
        expected = self.bound.expected
        return expected(self.target, self.mean, self.variance) - expected(
            self.parameters, self.mean, self.variance
        )

    @cached_property
    def _change(self) -> tuple[Tensor, Tensor]:
        """Change of precisions by the target, and its pull at the means."""
        tau, nu = self.bound.sites(self.target)
        change = tau - self.tau
        return change, nu - self.nu - change * self.mean

    @cached_property
    def newton_step(self) -> Tensor:
        """Movement of the means by a step of Newton's, ``batch_shape x m``."""
        target = self.bound.curvature(self.target, self.mean, self.variance)
        return self.solver.newton_step(*target, self._change[1])

    @cached_property
    def residual(self) -> Tensor:
        """Distance to the best parameters, in posterior deviations, ``batch_shape``.

        By Newton's step in the worst mean, or by one turn in the summed variances. A
        turn moves means by a thousandth of what is left where answers are thousands.
        """
        # Of rows that the prior knows exactly, and of phantoms, there is rounding only.
        tiny = torch.finfo(self.variance.dtype).tiny
        spread = (self.variance + self.solver.rounding).clamp_min(tiny).sqrt()
        change, pull = self._change
        moved = self.newton_step.abs().maximum(self.factor.mean(pull).abs())
        shift = (moved / spread).amax(-1)
        return torch.maximum(shift, (change.abs() * self.variance).sum(-1))


def _step(
    solver: Conditioner, prior: Tensor, bound: Bound, parameters: Tensor
) -> BoundStep:
    """Step (16a) and equation 25 of Guo et al., relative to the prior mean."""
    tau, nu = bound.sites(parameters)
    factor = solver.factor(tau)
    shift = nu - tau * prior
    u, energy = factor.settle(shift)
    z = prior + u
    # The exponent at its maximum, where an error of the means is one of second order.
    height = (nu * z - 0.5 * tau * z.square()).sum(-1) - 0.5 * energy
    value = bound.intercept(parameters) + height - 0.5 * factor.log_det
    # A variance of zero may come out negative by rounding.
    variance = factor.variance().clamp_min(0.0)
    return BoundStep(solver, bound, parameters, tau, nu, factor, z, variance, value)


def ascend(
    solver: Conditioner,
    prior: Tensor,
    bound: Bound,
    parameters: Tensor,
) -> Iterator[BoundStep]:
    """Raises the lower bound until better parameters would not move the Gaussian.

    Turns as in algorithm 1 take hundreds of steps where answers are many: they move the
    means as if the bound were as stiff as its sites, which it is not, see
    :func:`.profile_curvature`. So the parameters
    are made for the means after a step of Newton's. That is kept where it raises the
    bound by at least what the plain turn is sure to; else the plain turn is taken. The
    bound never falls, and rises at least as algorithm 1 would make it. The start comes
    first, then every step that was taken; ``prior`` is the prior mean of the rows.
    """
    step = _step(solver, prior, bound, parameters)
    yield step
    while not bool((step.residual <= _TOLERANCE).all()):
        ahead = bound.best(step.mean + step.newton_step, step.variance)
        new = _step(solver, prior, bound, ahead)
        slack = 10 * torch.finfo(step.value.dtype).eps * (1 + step.value.abs())
        falls = ~(new.value >= step.value + step.gain - slack)
        if bool(falls.any()):
            plain = torch.where(falls.unsqueeze(-1), step.target, new.parameters)
            new = _step(solver, prior, bound, plain)
        step = new
        yield step


def first_parameters(bound: Bound, prior: Tensor, variance: Tensor) -> Tensor:
    """Parameters to start from without an earlier solution.

    The best ones for a wide prior are so far from the answers that the way back takes
    many steps. Those for unit variances, the width of a logistic function, are not.
    """
    return bound.best(*torch.broadcast_tensors(prior, variance.clamp_max(1.0)))


def last_step(
    solver: Conditioner,
    prior: Tensor,
    bound: Bound,
    parameters: Tensor,
) -> tuple[BoundStep, int, bool]:
    """The end of the ascent, its number of steps, and whether it converged."""
    steps = ascend(solver, prior, bound, parameters)
    numbered = enumerate(itertools.islice(steps, _MAX_ITERATIONS), start=1)
    # A deque of one keeps no other factor alive.
    ((iterations, step),) = deque(numbered, maxlen=1)
    return step, iterations, bool((step.residual <= _TOLERANCE).all())


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


def _best_derivatives(
    bound: Bound, mean: Tensor, variance: Tensor, _: Tensor
) -> Derivatives:
    """Derivatives of the sites with the best parameters for the moments.

    Rows of one set depend on each other.
    """
    # Roots have no slope at the variance zero of rows that are known exactly.
    variance = variance.clamp_min(torch.finfo(variance.dtype).tiny)
    moments = torch.cat(torch.broadcast_tensors(mean, variance), dim=-1)
    with torch.enable_grad():
        moments = moments.detach().requires_grad_()
        best = bound.best(*moments.chunk(2, dim=-1))
        new = torch.cat(bound.sites(best), dim=-1)
    eye = torch.eye(new.shape[-1], dtype=new.dtype, device=new.device)
    each = eye.view(-1, *([1] * (new.dim() - 1)), new.shape[-1])
    (slopes,) = torch.autograd.grad(
        new, moments, each.expand(-1, *new.shape), is_grads_batched=True
    )
    return slopes.movedim(0, -2), None


class VariationalBound(Engine):
    """The variational posterior of utilities, and its lower bound as the evidence.

    Its sites are on the rows of the bound: one for each pair, one for each item of each
    larger set. A solution has converged where one more turn would move the Gaussian by
    at most 1e-7 standard deviations.
    """

    takes: ClassVar = frozenset({LogitFactors, PlackettLuceFactors})

    def solve(
        self, prior: UtilityPrior, factors: Factors, start: WarmStart | None = None
    ) -> GaussianSolution:
        """See base class.

        Raises:
            UnsupportedFeedbackError: Factors of another kind.
        """
        _, mean, covar = prior.in_double()
        factors, start = in_double((factors, start))
        with torch.no_grad():
            bound = bound_of(factors)
            solver = _PointConditioner(covar, bound.rows)
            before = bound.rows.apply(mean)
            if start is None:
                parameters = first_parameters(bound, before, solver.variance)
            else:
                tau, nu = start.sites
                earlier = solver.factor(tau)
                z = before + earlier.mean(nu - tau * before)
                parameters = bound.best(z, earlier.variance().clamp_min(0.0))
            step, iterations, converged = last_step(solver, before, bound, parameters)
            shift = torch.addcmul(step.nu, step.tau, before, value=-1.0)
            balance = step.factor.solve(shift.unsqueeze(-1)).of_column()
        weights, eps = balance.weights, torch.finfo(prior.covar.dtype).eps
        return GaussianSolution(
            engine=self,
            prior=prior,
            # At its maximum the bound is stationary in its parameters.
            evidence=with_gradient_of(
                step.value, lambda: prior_form(covar, mean, step.factor, weights)
            ),
            weights=weights,
            sites=Sites(step.tau, step.nu),
            factor=step.factor,
            site_tangent=partial(implicit_tangent, partial(_best_derivatives, bound)),
            converged=converged,
            iterations=iterations,
            residual=float(step.residual.max()),
            rounding=lost_digits(solver.rows_solver, step.factor, balance, eps),
        )

    def site_rows(self, factors: Factors) -> SparseDesign:
        """The rows of the bound: pairs, and the items of larger sets."""
        return bound_of(factors).rows
