r"""Variational inference by lower bounds that are Gaussian in the utilities.

A bound of parameters ``b`` is a site on each of its rows ``z = A f`` and an intercept,

.. math:: \log p(y \mid z) \ge c(b) + \nu(b)' z - \tfrac12 z' T(b) z .

Symbols and equations are those of Guo et al. (2020). With
:math:`\lambda(\xi) = \tanh(\xi / 2) / (4 \xi)` and the intercept
:math:`c(\xi) = \log \sigma(\xi) - \xi / 2 + \lambda(\xi) \xi^2`, for every
:math:`\xi` (Jaakkola and Jordan 1997)

.. math:: \log \sigma(y) \ge c(\xi) + y / 2 - \lambda(\xi) y^2,

with equality where :math:`y = \pm \xi`. Bouchard (2007) bounds a softmax by logistic
functions, :math:`\log \sum_j e^{y_j} \le \alpha + \sum_j \log(1 + e^{y_j - \alpha})`,
for every :math:`\alpha`. Together, for the choice of c out of a set of k
(equation 13),

.. math::
    y_c - \log \sum_j e^{y_j} \ge y_c - \alpha + \sum_j \big[ c(\xi_j)
    - (y_j - \alpha) / 2 - \lambda(\xi_j) (y_j - \alpha)^2 \big] .

With a prior of rows the bound of the evidence is

.. math::
    \log p(\mathcal{Y}) \ge L(b) = c(b) + \log \int N(u; 0, C)
    \exp(\nu(b)' z - \tfrac12 z' T(b) z) \, du ,

maximised in ``b`` by turns: the Gaussian for given ``b`` (step 16a), the best ``b`` for
a given Gaussian (step 16b).
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial, singledispatch
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from botorch_pref.errors import UnsupportedFeedbackError
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
from botorch_pref.inference.solvers import choose_solver
from botorch_pref.likelihoods.factors import Factors, JointFactors
from botorch_pref.likelihoods.logit import (
    LogitFactors,
    PlackettLuceFactors,
    in_some_element,
    stage_items,
)
from botorch_pref.linalg.covariance import join_rows
from botorch_pref.linalg.sparse_design import SparseDesign, pair_rows, stack_rows

# --- Bounds


class Bound(ABC):
    """A bound of the log likelihood from below; its sites are on ``rows``."""

    rows: SparseDesign
    num_parameters: int

    @abstractmethod
    def best(
        self, mean: Tensor, variance: Tensor, near: Tensor | None = None
    ) -> Tensor:
        """Finds the parameters with the largest expected bound for moments: step (16b).

        They are found sooner from others that are ``near``.
        """

    @abstractmethod
    def sites(self, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """Computes precisions and shifts of the rows, each ``batch_shape x m``."""

    @abstractmethod
    def intercept(self, parameters: Tensor) -> Tensor:
        """Sums ``c`` over answers: ``batch_shape``."""

    @abstractmethod
    def curvature(
        self, parameters: Tensor, mean: Tensor, variance: Tensor
    ) -> tuple[Tensor, SparseDesign | None]:
        r"""Computes minus the Hessian of the best expected bound in the mean utilities.

        With the best parameters for every mean, which the parameters are for these
        moments, it is :math:`A' \mathrm{diag}(c) A - V'V`: ``c`` is nonnegative and
        ``V``, None for zero, couples the items of a set.
        """

    def expected(self, parameters: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """Averages the bound over Gaussian rows, ``batch_shape``; see :meth:`best`."""
        tau, nu = self.sites(parameters)
        quadratic = 0.5 * tau * (variance + mean.square())
        return self.intercept(parameters) + (nu * mean - quadratic).sum(-1)


def bound_curvature(xi: Tensor) -> Tensor:
    r"""Computes :math:`\lambda(\xi) = \tanh(\xi / 2) / (4 \xi)`, even, 1/8 at 0."""
    # The first term that 1/8 leaves out is -xi^2 / 96.
    flat = xi.abs() < math.sqrt(torch.finfo(xi.dtype).eps)
    safe = torch.where(flat, 1.0, xi)
    return torch.where(flat, 0.125, torch.tanh(0.5 * safe) / (4 * safe))


def bound_intercept(xi: Tensor) -> Tensor:
    r"""Computes :math:`c(\xi) = \log \sigma(\xi) - \xi / 2 + \lambda(\xi) \xi^2`."""
    xi = xi.abs()
    return logsigmoid(xi) - 0.5 * xi + bound_curvature(xi) * xi.square()


def profile_slopes(distance: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
    r"""Computes minus the slope of the best expected bound in the mean, and its slope.

    With :math:`\xi^2 = s + x^2`, the best choice for ``y ~ N(x, s)``, what is not
    linear in the bound is :math:`-\log 2 \cosh(\xi / 2)`, concave in ``x``. The slope
    is :math:`2 \lambda(\xi) \, x`, given without ``x``, and its derivative

    .. math::
        \frac{s}{\xi^2} \, 2 \lambda(\xi)
        + \frac{x^2}{\xi^2} \, \tfrac14 \mathrm{sech}^2(\xi / 2) \in (0, 1/4].
    """
    square = variance + distance.square()
    positive = square > 0
    share = torch.where(positive, variance / torch.where(positive, square, 1.0), 1.0)
    xi = square.sqrt()
    flat = xi < math.sqrt(torch.finfo(xi.dtype).eps)
    # One exponential for both: tanh(xi / 2) is -below / above.
    below = torch.expm1(-xi)
    above = 2 + below
    slope = torch.where(flat, 0.25, -0.5 * below / (above * torch.where(flat, 1.0, xi)))
    logistic = (1 + below) / above.square()
    return slope, logistic + share * (slope - logistic)


class JaakkolaJordanBound(Bound):
    r"""Jaakkola and Jordan's bound, with a parameter :math:`\zeta` for each pair.

    Rows are differences, of which the first won ``wins`` and lost ``losses`` times,
    both zero where a row stands for nothing. Their bound differs in its linear term
    alone.
    """

    def __init__(self, rows: SparseDesign, wins: Tensor, losses: Tensor) -> None:
        self.rows, self.num_parameters = rows, rows.num_rows
        self._answers, self._net = wins + losses, wins - losses

    def best(
        self, mean: Tensor, variance: Tensor, near: Tensor | None = None
    ) -> Tensor:
        """See base class; equation 19 of Guo et al. (2020), in closed form."""
        return (variance + mean.square()).sqrt()

    def sites(self, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """See base class."""
        tau = self._answers * 2 * bound_curvature(parameters)
        return tau, (0.5 * self._net).expand_as(tau)

    def curvature(
        self, parameters: Tensor, mean: Tensor, variance: Tensor
    ) -> tuple[Tensor, SparseDesign | None]:
        """See base class."""
        return self._answers * profile_slopes(mean, variance)[1], None

    def intercept(self, parameters: Tensor) -> Tensor:
        """See base class."""
        return (self._answers * bound_intercept(parameters)).sum(-1)


_MAX_STEPS = 100


class BouchardBound(Bound):
    r"""Bouchard's bound, :math:`\xi` an item and :math:`\alpha` a set."""

    def __init__(
        self,
        stages: Tensor,
        num_points: int,
        like: Tensor,
        counts: Tensor | None = None,
    ) -> None:
        self._items = items = stage_items(stages)
        self._here = items.present.to(like)
        is_set = in_some_element(stages >= 0, 2).any(-1)
        self._counts = like.new_ones(()) if counts is None else counts[..., is_set]
        self._weights = self._here
        if counts is not None:
            self._weights = self._here * items.spread(self._counts)
        self.rows = SparseDesign(
            items.points.unsqueeze(-1), self._here.unsqueeze(-1), num_points
        )
        self.num_parameters = self.rows.num_rows + items.num_stages
        self._sizes = items.total(self._here)
        self._free_shift = ((items.place == 0).to(like) - 0.5) * self._weights

    def _split(self, parameters: Tensor) -> tuple[Tensor, Tensor]:
        xi, alpha = parameters.split(
            [self.rows.num_rows, self._items.num_stages], dim=-1
        )
        return xi, alpha

    def best(
        self, mean: Tensor, variance: Tensor, near: Tensor | None = None
    ) -> Tensor:
        """See base class; equation 23 of Guo et al. (2020) at the best alpha."""
        start = None if near is None else self._split(near)[1]
        alpha = self._best_alpha(mean, variance, start)
        xi = (variance + (mean - self._items.spread(alpha)).square()).sqrt()
        return torch.cat([xi, alpha], dim=-1)

    def _best_alpha(
        self, mean: Tensor, variance: Tensor, start: Tensor | None
    ) -> Tensor:
        """Finds the best alpha, with the derivatives of an implicit function."""
        with torch.no_grad():
            alpha = self._find_alpha(mean, variance, start)
        slope, curvature = self._in_alpha(alpha, mean, variance)
        # At the maximum one more step is none, but has the derivative of the maximum.
        stiff = curvature.detach()
        return alpha + slope / torch.where(stiff > 0, stiff, 1.0)

    def _in_alpha(
        self, alpha: Tensor, mean: Tensor, variance: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Computes the expected bound's slope in alpha, and minus its derivative."""
        items, k = self._items, self._sizes.clamp_min(2.0)
        distance = mean - items.spread(alpha)
        slope, curvature = profile_slopes(distance, variance)
        pull = items.total(slope * distance * self._here)
        return 0.5 * (k - 2) + pull, items.total(curvature * self._here)

    def _find_alpha(
        self, mean: Tensor, variance: Tensor, start: Tensor | None
    ) -> Tensor:
        r"""Solves equations 22 and 23 of Guo et al. (2020) by Newton in a bracket.

        With the best :math:`\xi` for every alpha the expected bound is concave in it.
        Its slope :math:`(k - 2) / 2 + \sum_j 2 \lambda(\xi_j)(\mu_j - \alpha)` is
        positive at the smallest mean, and no longer so above the largest one by t where
        :math:`\tanh(t / 2)` and :math:`t / \sqrt{t^2 + s}` are at least :math:`\sqrt{1
        - 2 / k}`.
        """
        items, present, k = self._items, self._items.present, self._sizes.clamp_min(2.0)
        low = -items.largest(torch.where(present, -mean, -torch.inf))
        high = items.largest(torch.where(present, mean, -torch.inf))
        widest = items.largest(torch.where(present, variance, 0.0))
        logistic = 2 * torch.atanh((1 - 2 / k).sqrt())
        high = high + torch.maximum(logistic, (widest * (0.5 * k - 1)).sqrt())
        # Any alpha for a set that this element of the batch lacks.
        low, high = low.nan_to_num(posinf=0.0), high.nan_to_num(neginf=0.0)
        alpha = 0.5 * (low + high)
        if start is not None:
            alpha = start.clamp(low, high)
        tolerance = math.sqrt(torch.finfo(alpha.dtype).eps)
        for _ in range(_MAX_STEPS):
            slope, curvature = self._in_alpha(alpha, mean, variance)
            low, high = (
                torch.where(slope >= 0, alpha, low),
                torch.where(slope >= 0, high, alpha),
            )
            new = alpha + slope / curvature
            inside = (new >= low) & (new <= high)
            new = torch.where(inside, new, 0.5 * (low + high))
            done = (new - alpha).abs() <= tolerance * (1 + alpha.abs())
            alpha = new
            if bool(done.all()):
                break
        return alpha

    def sites(self, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """See base class."""
        xi, alpha = self._split(parameters)
        tau = 2 * bound_curvature(xi) * self._weights
        return tau, self._free_shift + tau * self._items.spread(alpha)

    def curvature(
        self, parameters: Tensor, mean: Tensor, variance: Tensor
    ) -> tuple[Tensor, SparseDesign | None]:
        """See base class."""
        distance = mean - self._items.spread(self._split(parameters)[1])
        c = profile_slopes(distance, variance)[1] * self._weights
        total = self._items.spread(self._items.total(c))
        share = torch.where(total > 0, c / torch.where(total > 0, total, 1.0).sqrt(), 0)
        index, coefficients = (
            self._items.padded(self._items.points),
            self._items.padded(share),
        )
        index = index.expand_as(coefficients)
        return c, SparseDesign(index, coefficients, self.rows.num_points)

    def intercept(self, parameters: Tensor) -> Tensor:
        r"""See base class; :math:`M_l` of equation 25 of Guo et al. (2020)."""
        xi, alpha = self._split(parameters)
        lowered = bound_curvature(xi) * self._items.spread(alpha).square()
        of_items = (bound_intercept(xi) - lowered) * self._weights
        is_present = self._sizes > 0
        of_sets = torch.where(is_present, 0.5 * (self._sizes - 2) * alpha, 0.0)
        return of_items.sum(-1) + (self._counts * of_sets).sum(-1)


class JointBound(Bound):
    """Several bounds, one under another."""

    def __init__(self, blocks: Sequence[Bound]) -> None:
        self._blocks = blocks
        self.rows = stack_rows([block.rows for block in blocks])
        self._sizes = [block.rows.num_rows for block in blocks]
        self._lengths = [block.num_parameters for block in blocks]
        self.num_parameters = sum(self._lengths)

    def _block_arguments(
        self, parameters: Tensor | None, *of_rows: Tensor
    ) -> Iterator[tuple[Any, ...]]:
        """Yields each block with its share of the parameters, if any, and of rows."""
        parts = [values.split(self._sizes, dim=-1) for values in of_rows]
        if parameters is not None:
            parts = [parameters.split(self._lengths, dim=-1), *parts]
        return zip(self._blocks, *parts, strict=True)

    def best(
        self, mean: Tensor, variance: Tensor, near: Tensor | None = None
    ) -> Tensor:
        """See base class."""
        starts: Sequence[Tensor | None] = [None] * len(self._blocks)
        if near is not None:
            starts = near.split(self._lengths, dim=-1)
        arguments = zip(
            self._block_arguments(None, mean, variance), starts, strict=True
        )
        return torch.cat(
            [block.best(*moments, s) for (block, *moments), s in arguments], dim=-1
        )

    def curvature(
        self, parameters: Tensor, mean: Tensor, variance: Tensor
    ) -> tuple[Tensor, SparseDesign | None]:
        """See base class."""
        arguments = self._block_arguments(parameters, mean, variance)
        of_rows, groups = zip(
            *(block.curvature(*moments) for block, *moments in arguments), strict=True
        )
        coupled = [group for group in groups if group is not None]
        return join_rows(of_rows), stack_rows(coupled) if coupled else None

    def sites(self, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """See base class."""
        tau, nu = zip(
            *(
                block.sites(*arguments)
                for block, *arguments in self._block_arguments(parameters)
            ),
            strict=True,
        )
        return join_rows(tau), join_rows(nu)

    def intercept(self, parameters: Tensor) -> Tensor:
        """See base class."""
        values = [
            block.intercept(*arguments)
            for block, *arguments in self._block_arguments(parameters)
        ]
        return torch.stack(torch.broadcast_tensors(*values)).sum(0)


def stage_bound(
    stages: Tensor, num_points: int, like: Tensor, counts: Tensor | None = None
) -> Bound:
    """Makes Jaakkola and Jordan's bound of pairs and Bouchard's of larger sets.

    ``stages`` are ``batch_shape x L x k`` long, the chosen point first, padded with -1;
    ``counts`` how often each was chosen from so, None for once.
    """
    sizes = (stages >= 0).sum(-1, keepdim=True)
    is_pair = in_some_element(sizes.squeeze(-1) == 2, 1)
    blocks: list[Bound] = []
    if bool(is_pair.any()):
        pairs, paired = stages[..., is_pair, :2], sizes[..., is_pair, :] == 2
        rows = pair_rows(torch.where(paired, pairs, 0), num_points, like)
        rows = SparseDesign(rows.indices, rows.coefficients * paired, num_points)
        wins = paired.squeeze(-1).to(like)
        wins = wins if counts is None else wins * counts[..., is_pair]
        blocks.append(JaakkolaJordanBound(rows, wins, torch.zeros_like(wins)))
    if bool((sizes > 2).any()):
        larger = torch.where(sizes > 2, stages, -1)
        blocks.append(BouchardBound(larger, num_points, like, counts))
    return blocks[0] if len(blocks) == 1 else JointBound(blocks)


@singledispatch
def bound_of(factors: Factors) -> Bound:
    """Makes the lower bound of logistic or softmax factors, or of both."""
    raise UnsupportedFeedbackError(
        f"{type(factors).__name__} has no Gaussian lower bound here; use Laplace or EP."
    )


@bound_of.register
def _logit_bound(factors: LogitFactors) -> Bound:
    return JaakkolaJordanBound(factors.rows, factors.wins, factors.losses)


@bound_of.register
def _plackett_luce_bound(factors: PlackettLuceFactors) -> Bound:
    if factors.stages is None:
        raise UnsupportedFeedbackError(
            "The variational bound of choices and rankings takes no covariates; take "
            "LaplacePreferenceGP, or EPPreferenceGP with its own likelihood."
        )
    return stage_bound(
        factors.stages,
        factors.rows.num_points,
        factors.rows.coefficients,
        factors.counts,
    )


@bound_of.register
def _joint_bound(factors: JointFactors) -> Bound:
    return JointBound([bound_of(block) for block in factors.blocks])


# --- The ascent


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
        """Least gain in the bound by the best parameters, ``batch_shape``."""
        expected = self.problem.bound.expected
        return expected(self.target, self.mean, self.variance) - expected(
            self.parameters, self.mean, self.variance
        )

    @cached_property
    def _change(self) -> tuple[Tensor, Tensor]:
        """Change of precisions by the target, and its pull at the means."""
        tau, nu = self.problem.bound.sites(self.target)
        change = tau - self.tau
        return change, nu - self.nu - change * self.mean

    @cached_property
    def newton_step(self) -> Tensor:
        """Movement of the means by a step of Newton's, ``batch_shape x m``."""
        bound, solver, _, coupled_step = self.problem
        c, groups = bound.curvature(self.target, self.mean, self.variance)
        if groups is None:
            return solver.factor(c).mean(self._change[1])
        return coupled_step(c, groups, self._change[1])

    @cached_property
    def residual(self) -> Tensor:
        """Distance to the best parameters, in posterior deviations, ``batch_shape``.

        By Newton's step in the worst mean, or by one turn in the summed variances. A
        turn moves means by a thousandth of what is left where answers are thousands.
        """
        # Of rows that the prior knows exactly, and of phantoms, there is rounding only.
        tiny = torch.finfo(self.variance.dtype).tiny
        spread = (self.variance + self.problem.solver.rounding).clamp_min(tiny).sqrt()
        change, pull = self._change
        moved = self.newton_step.abs().maximum(self.factor.mean(pull).abs())
        shift = (moved / spread).amax(-1)
        return torch.maximum(shift, (change.abs() * self.variance).sum(-1))


def _step(problem: BoundProblem, parameters: Tensor) -> BoundStep:
    """Takes step (16a) of Guo et al., with equation 25 relative to the prior mean."""
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

    Turns as in algorithm 1 take hundreds of steps where answers are many: they move the
    means as if the bound were as stiff as its sites, which it is not, see
    :func:`.profile_slopes`. So the parameters are made for the means after a step of
    Newton's, unless the bound then rises by less than the plain turn is sure to raise
    it. The start comes first, then every step that was taken.
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
    """Makes the problem of utilities with prior ``K``, ``batch_shape x n x n``."""
    rows = bound.rows

    def coupled_step(c: Tensor, groups: SparseDesign, force: Tensor) -> Tensor:
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
    """Differentiates the sites with the best parameters; sets couple rows."""
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
        """See base class.

        Raises:
            UnsupportedFeedbackError: Factors of another kind.
        """
        _, mean, covar = prior.in_double()
        factors, start = in_double((factors, start))
        with torch.no_grad():
            problem, parameters = bound_problem(bound_of(factors), mean, covar), None
            bound, solver, before, _ = problem
            if start is not None:
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
