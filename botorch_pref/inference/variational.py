r"""Variational inference by lower bounds that are Gaussian in the utilities.

With a prior of rows the bound of the evidence by the bounds of :mod:`.lower_bounds`, in
the symbols of Guo et al. (2020), is

.. math::
    \log p(\mathcal{Y}) \ge L(b) = c(b) + \log \int N(u; 0, C)
    \exp(\nu(b)' z - \tfrac12 z' T(b) z) \, du ,

maximised in ``b`` by turns: the Gaussian for given ``b`` (step 16a), the best ``b`` for
a given Gaussian (step 16b).
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from botorch_pref.inference import conditioning
from botorch_pref.inference.engine import (
    Engine,
    Sites,
    UtilityPrior,
    WarmStart,
    in_double,
)
from botorch_pref.inference.gaussian_solution import (
    Derivatives,
    GaussianSolution,
    implicit_tangent,
    prior_form,
    with_gradient_of,
)
from botorch_pref.inference.lower_bounds import Bound, bound_of
from botorch_pref.inference.solvers import choose_solver
from botorch_pref.likelihoods.factors import Factors
from botorch_pref.likelihoods.logit import LogitFactors, PlackettLuceFactors
from botorch_pref.linalg.sparse_design import SparseDesign

CoupledStep = Callable[[Tensor, SparseDesign, Tensor], Tensor]
"""``A (K^-1 + A' diag(c) A - V'V)^-1 A' force``, of ``c``, ``V`` and the force."""


class BoundProblem(NamedTuple):
    """A bound, and the prior of its rows with their means, ``batch_shape x m``.

    The step is Newton's where the bound couples rows: see :meth:`.Bound.curvature`.
    """

    bound: Bound
    solver: conditioning.SiteSolver
    prior: Tensor
    coupled_step: CoupledStep


@dataclass(frozen=True)
class BoundStep:
    """The Gaussian under one choice of bound parameters, and better parameters.

    ``value``, ``batch_shape``, is the lower bound: equation 25 of Guo et al. (2020).
    """

    problem: BoundProblem
    parameters: Tensor
    tau: Tensor
    nu: Tensor
    factor: conditioning.SitePosterior
    mean: Tensor
    variance: Tensor
    value: Tensor

    @cached_property
    def target(self) -> Tensor:
        """Best parameters for this Gaussian: step (16b)."""
        return self.problem.bound.best(self.mean, self.variance, self.parameters)

    @cached_property
    def gain(self) -> Tensor:
        """Least gain in the bound by the best parameters, ``batch_shape``.

        It is that of the expected bound under this step's Gaussian; the Gaussian that
        follows can only raise the bound further.
        """
        expected = self.problem.bound.expected
        return expected(self.target, self.mean, self.variance) - expected(
            self.parameters, self.mean, self.variance
        )

    @cached_property
    def _change(self) -> tuple[Tensor, Tensor]:
        """Change of site precisions by the target, and its pull at the means.

        The pull is ``dnu - dtau mean``, each ``batch_shape x m``.
        """
        tau, nu = self.problem.bound.sites(self.target)
        change = tau - self.tau
        return change, nu - self.nu - change * self.mean

    @cached_property
    def newton_step(self) -> Tensor:
        """Movement of the means of rows by a step of Newton's, ``batch_shape x m``.

        The prior and the curvature of the bound with its best parameters for every mean
        balance the pull of the target; that curvature is smaller than the sites'.
        """
        bound, solver, _, coupled_step = self.problem
        c, groups = bound.curvature(self.target, self.mean, self.variance)
        if groups is None:
            return solver.factor(c).mean(self._change[1])
        return coupled_step(c, groups, self._change[1])

    @cached_property
    def residual(self) -> Tensor:
        """Distance to the best parameters, in posterior deviations, ``batch_shape``.

        The largest of three: the worst mean's movement by Newton's step, that by the
        sites of the best parameters, and the summed relative change of variances by
        these. With thousands of answers the second is a thousandth of the first.
        """
        # Of rows that the prior knows exactly, and of phantoms, there is rounding only.
        tiny = torch.finfo(self.variance.dtype).tiny
        spread = (self.variance + self.problem.solver.rounding).clamp_min(tiny).sqrt()
        change, pull = self._change
        moved = self.newton_step.abs().maximum(self.factor.mean(pull).abs())
        shift = (moved / spread).amax(-1)
        return torch.maximum(shift, (change.abs() * self.variance).sum(-1))


def _step(problem: BoundProblem, parameters: Tensor) -> BoundStep:
    """Computes the Gaussian under some parameters: step (16a) of Guo et al. (2020).

    Their equation 25, the bound, is computed relative to the prior mean.
    """
    bound, solver, prior, _ = problem
    tau, nu = bound.sites(parameters)
    factor = solver.factor(tau)
    balance = factor.solve((nu - tau * prior).unsqueeze(-1)).of_column()
    z = prior + balance.moved
    # The exponent at its maximum, where an error of the means is one of second order.
    height = (nu * z - 0.5 * tau * z.square()).sum(-1) - 0.5 * balance.energy
    value = bound.intercept(parameters) + height - 0.5 * factor.log_det
    # A variance of zero may come out negative by rounding.
    variance = factor.variance().clamp_min(0.0)
    return BoundStep(problem, parameters, tau, nu, factor, z, variance, value)


def ascend(
    problem: BoundProblem, parameters: Tensor, tolerance: float
) -> Iterator[BoundStep]:
    """Raises the lower bound until better parameters would not move the Gaussian.

    Turns as in algorithm 1 of Guo et al. (2020) take hundreds of steps where answers
    are many: they move the means as if the bound were as stiff as its sites, which it
    is not, see :func:`.profile_slopes`. So the parameters are made for the means after
    a step of Newton's, unless the bound then rises by less than the plain turn is sure
    to raise it. The start comes first, then every step that was taken.
    """
    step = _step(problem, parameters)
    yield step
    while not bool((step.residual <= tolerance).all()):
        moved = step.mean + step.newton_step
        ahead = problem.bound.best(moved, step.variance, step.target)
        new = _step(problem, ahead)
        slack = 10 * torch.finfo(step.value.dtype).eps * (1 + step.value.abs())
        falls = ~(new.value >= step.value + step.gain - slack)
        if bool(falls.any()):
            plain = torch.where(falls.unsqueeze(-1), step.target, new.parameters)
            new = _step(problem, plain)
        step = new
        yield step


def last_step(
    problem: BoundProblem,
    tolerance: float,
    max_iterations: int,
    parameters: Tensor | None = None,
) -> tuple[BoundStep, int, bool]:
    """Ascends to the last step; returns it, the number of steps, and if converged.

    Without parameters it starts from the best ones for unit variances, the width of a
    logistic function. Those for a wide prior are so far from the answers that the way
    back takes many steps.
    """
    if parameters is None:
        variance = problem.solver.variance.clamp(0.0, 1.0)
        moments = torch.broadcast_tensors(problem.prior, variance)
        parameters = problem.bound.best(*moments)
    steps = ascend(problem, parameters, tolerance)
    numbered = enumerate(itertools.islice(steps, max_iterations), start=1)
    # A deque of one keeps no other factor alive.
    ((iterations, step),) = deque(numbered, maxlen=1)
    return step, iterations, bool((step.residual <= tolerance).all())


def bound_problem(bound: Bound, mean: Tensor, covar: Tensor) -> BoundProblem:
    """Makes the problem of utilities with a prior mean and covariance of points.

    These are ``batch_shape x n`` and ``K``, ``batch_shape x n x n``.
    """
    rows = bound.rows

    def coupled_step(c: Tensor, groups: SparseDesign, force: Tensor) -> Tensor:
        """Computes ``A (K^-1 + G)^-1 A' force`` with ``G = A' diag(c) A - V' V``.

        ``V`` are the ``groups``. ``(I + K G)^-1 K`` inverts no ``K``, which may be
        singular.
        """
        unit_weights = torch.ones_like(groups.coefficients[..., 0])
        gram = rows.gram(c) - groups.gram(unit_weights)
        pull = covar @ rows.adjoint(force).unsqueeze(-1)
        moved = torch.linalg.solve(conditioning.plus_identity(covar @ gram), pull)
        return rows.apply(moved.squeeze(-1))

    solver = choose_solver(covar, rows)
    return BoundProblem(bound, solver, rows.apply(mean), coupled_step)


def _best_derivatives(
    bound: Bound, mean: Tensor, variance: Tensor, _: Tensor
) -> Derivatives:
    """Differentiates the sites with the best parameters in moments of the rows.

    They are ``batch_shape x 2 m x 2 m``, for :func:`.site_equations`: dense, since sets
    couple rows. The second result says that former sites do not count.
    """
    # Roots have no slope at the variance zero of rows that are known exactly.
    variance = variance.clamp_min(torch.finfo(variance.dtype).tiny)
    moments = torch.cat(torch.broadcast_tensors(mean, variance), dim=-1)
    with torch.enable_grad():
        moments = moments.detach().requires_grad_()
        best = bound.best(*moments.chunk(2, dim=-1))
        new = torch.cat(bound.sites(best), dim=-1)
    eye = torch.eye(new.shape[-1], dtype=new.dtype, device=new.device)
    directions = eye.view(-1, *([1] * (new.dim() - 1)), new.shape[-1])
    (slopes,) = torch.autograd.grad(
        new, moments, directions.expand(-1, *new.shape), is_grads_batched=True
    )
    return slopes.movedim(0, -2), None


@dataclass(frozen=True)
class VariationalBound(Engine):
    """The variational posterior of utilities, and its lower bound as the evidence.

    Its sites are on the rows of the bound: one for each pair, one for each item of each
    larger set.

    Attributes:
        tolerance: Of what one more turn would move the Gaussian by, in posterior
            standard deviations.
        max_iterations: The largest number of turns.
    """

    takes: ClassVar = frozenset({LogitFactors, PlackettLuceFactors})

    tolerance: float = 1e-7
    max_iterations: int = 200

    def solve(
        self, prior: UtilityPrior, factors: Factors, start: WarmStart | None = None
    ) -> GaussianSolution:
        """Raises the lower bound to its maximum, whose Gaussian it returns.

        See base class. It computes in double precision and without a graph; the bound
        has its gradient all the same.

        Raises:
            UnsupportedFeedbackError: Factors of another kind.
        """
        _, mean, covar = prior.in_double()
        factors, start = in_double((factors, start))
        with torch.no_grad():
            problem, parameters = bound_problem(bound_of(factors), mean, covar), None
            bound, solver, before, _ = problem
            if start is not None:
                # Best parameters for the posterior that the earlier sites have here.
                tau, nu = start.sites
                earlier = solver.factor(tau)
                z = before + earlier.mean(nu - tau * before)
                parameters = bound.best(z, earlier.variance().clamp_min(0.0))
            step, iterations, converged = last_step(
                problem, self.tolerance, self.max_iterations, parameters
            )
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
            rounding=conditioning.lost_digits(solver, step.factor, balance, eps),
        )

    def site_rows(self, factors: Factors) -> SparseDesign:
        """Returns the rows of the bound: pairs, and the items of larger sets."""
        return bound_of(factors).rows
