r"""Engines of utilities that are linear in features, in the space of weights.

Utilities are :math:`f = X \theta` with :math:`\theta \sim N(0, I / \eta)`. Laplace's
approximation is for choices by Plackett and Luce: with the probabilities ``p`` of a set
and their mean features :math:`\bar x`, the log posterior is concave with minus Hessian
:math:`\eta I + \sum_l \sum_{j \in l} p_j (x_j - \bar x_l)(x_j - \bar x_l)'`. The
variational posterior (Guo et al. 2020, algorithm 1) has the bound and the ascent of
:mod:`.variational`; its Gaussian is that of inducing values, see :mod:`.inducing`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from botorch_pref.errors import PrecisionError
from botorch_pref.inference.conditioning import Response, plus_identity
from botorch_pref.inference.engine import Solution, in_double, not_finite
from botorch_pref.inference.gaussian_solution import with_gradient_of
from botorch_pref.inference.inducing import FeatureFactor, FeatureSolver, InducingPrior
from botorch_pref.inference.laplace import Laplace, Point, find_mode
from botorch_pref.inference.lower_bounds import Bound, stage_bound
from botorch_pref.inference.solvers import ConditionedNoise
from botorch_pref.inference.variational import BoundProblem, VariationalBound, last_step
from botorch_pref.likelihoods.logit import StageItems, in_some_element, stage_items
from botorch_pref.linalg.sparse_design import SparseDesign, take_rows


def _singular(like: Tensor) -> PrecisionError:
    """Makes the error of weights whose posterior precision has no factor."""
    return PrecisionError(
        f"The posterior precision of the weights is singular in {like.dtype}: features "
        "depend on each other and eta is below their rounding. Use double precision, a "
        "larger eta, or features of similar size."
    )


@dataclass(frozen=True, eq=False)
class WeightSolution(Solution["WeightSolution"]):
    """A Gaussian posterior of the weights of features, ``batch_shape x d``.

    The evidence, or its lower bound, carries the exact gradient in the precision of the
    prior; the residual is in posterior standard deviations. ``asymmetry`` is the
    squared distance from the mode to the mean, of an engine that takes one for the
    other, by third derivatives and in posterior deviations.
    """

    mean: Tensor
    covariance: Tensor
    evidence: Tensor
    converged: bool
    iterations: int
    residual: float
    asymmetry: float = 0.0

    @property
    def log_evidence(self) -> Tensor:
        """See base class; its gradient is in the precision of the prior."""
        return self.evidence

    @property
    def terms(self) -> WeightSolution:
        """See base class: mean and covariance of the weights."""
        return self

    def diagnostics(self) -> dict[str, Any]:
        """Reports whether it converged, iterations, residual and log evidence."""
        return {
            "converged": not self.failures,
            "iterations": self.iterations,
            "residual": self.residual,
            "log_evidence": self.log_evidence,
        }

    @property
    def mean_error(self) -> float:
        """See base class."""
        return 10 * self.residual

    @property
    def failures(self) -> tuple[str, ...]:
        """Sentences on iterations that did not end and numbers that are not finite."""
        text = (
            f"did not converge: after {self.iterations} iterations the residual is "
            f"{self.residual:.1e} posterior standard deviations. Check the scale of "
            "the features and eta."
        )
        stopped = () if self.converged else (text,)
        return stopped + not_finite(self.evidence, self.mean)


@dataclass(frozen=True)
class WeightEngine:
    """A method of inference over weights; ``find`` takes what :meth:`solve` does."""

    find: Callable[[Tensor, Tensor, Tensor, Tensor | None], WeightSolution]

    def solve(
        self,
        features: Tensor,
        stages: Tensor,
        precision: Tensor,
        counts: Tensor | None = None,
    ) -> WeightSolution:
        r"""Solves for the posterior of weights given choices.

        ``features`` are ``batch_shape x n x d``; ``stages``, ``batch_shape x L x k``
        long, have the chosen point first and -1 behind the last one; ``precision`` is
        that of the prior, :math:`\eta > 0`, ``batch_shape``. ``counts``, ``batch_shape
        x L``, say how often each choice was made; None for once.
        """
        arguments = in_double((features, stages, precision, counts))
        solution = self.find(*arguments)
        parts = (solution.mean, solution.covariance, solution.evidence)
        mean, covariance, evidence = (part.to(features) for part in parts)
        return replace(solution, mean=mean, covariance=covariance, evidence=evidence)


class _Model(NamedTuple):
    """The prior, and features, ``batch_shape x M x d``, and counts of all items."""

    features: Tensor
    items: StageItems
    precision: Tensor
    counts: Tensor

    @property
    def chosen(self) -> Tensor:
        """Mask of the items that were chosen, ``batch_shape x M``."""
        return (self.items.place == 0) & self.items.present

    def log_probabilities(self, theta: Tensor) -> Tensor:
        """Computes log probabilities of items in their sets, ``batch_shape x M``.

        ``theta`` are weights, ``batch_shape x d``; ``exp`` takes utilities less the
        largest of their set. Phantoms, items that an element of a batch lacks, get
        minus infinity.
        """
        items = self.items
        f = (self.features @ theta.unsqueeze(-1)).squeeze(-1)
        f = torch.where(items.present, f, -torch.inf)
        # A set that an element of the batch lacks has no largest item.
        largest = items.largest(f).nan_to_num(neginf=0.0)
        f = f - items.spread(largest)
        total = items.total(f.exp())
        return f - items.spread(torch.where(total > 0, total, 1.0).log())

    def point(self, opposed: Tensor, moved: Tensor) -> _Weights:
        """Evaluates the log posterior of weights ``moved``, ``batch_shape x d``.

        The prior pulls them by ``opposed``, which is ``eta`` times the weights. The
        ``pull`` is the gradient; features around the mean of their set under its
        probabilities are what the curvature is made of.
        """
        log_p = self.log_probabilities(moved)
        log_likelihood = (self.counts * torch.where(self.chosen, log_p, 0.0)).sum(-1)
        weighted = (log_p.exp().unsqueeze(-1) * self.features).mT
        means = self.items.spread(self.items.total(weighted)).mT
        around = self.features - means
        pull = (around * (self.counts * self.chosen).unsqueeze(-1)).sum(-2) - opposed
        value = log_likelihood - 0.5 * (opposed * moved).sum(-1)
        return _Weights(opposed, moved, pull, value, self.counts * log_p.exp(), around)

    def curvature(self, point: _Weights) -> tuple[_Curvature, Tensor]:
        """Factors minus the Hessian at some weights, everywhere positive definite.

        It is ``eta I`` plus the covariance of features under the probabilities of each
        set, summed over sets, ``batch_shape x d x d``.
        """
        hessian = point.around.mT @ (point.p.unsqueeze(-1) * point.around)
        eta = self.precision.unsqueeze(-1).expand_as(point.moved)
        factor, info = torch.linalg.cholesky_ex(hessian + torch.diag_embed(eta))
        if bool(info.any()):
            raise _singular(eta)
        return _Curvature(factor, eta), torch.ones_like(eta[..., 0], dtype=torch.bool)


@dataclass(frozen=True)
class _Weights(Point):
    """Some weights, with ``x_j`` less the mean of its set, ``batch_shape x M x d``.

    ``p`` are the probabilities of items, as often as their sets count.
    """

    p: Tensor
    around: Tensor


class _Curvature(NamedTuple):
    """Curvature of the log posterior at some weights, factored."""

    cholesky: Tensor
    eta: Tensor

    def respond(self, pull: Tensor) -> Response:
        """Computes Newton's step of the weights for a ``pull``, ``batch_shape x d``.

        The prior opposes it by ``eta`` times the step; the decrement is its squared
        length in posterior deviations.
        """
        pull = pull.unsqueeze(-1)
        half = torch.linalg.solve_triangular(self.cholesky, pull, upper=False)
        step = torch.linalg.solve_triangular(self.cholesky.mT, half, upper=True)
        step = step.squeeze(-1)
        return Response(self.eta * step, step, half.square().sum((-2, -1)))


def _choice_model(
    features: Tensor, stages: Tensor, eta: Tensor, counts: Tensor | None
) -> _Model:
    """Makes the model of choices whose mode is sought; ``eta`` is the precision."""
    items = stage_items(stages)
    # A shift of all features changes no probability, but costs digits.
    centred = features - features.mean(-2, keepdim=True)
    often = torch.ones_like(features[..., :1, 0])
    if counts is not None:
        is_set = in_some_element(stages >= 0, num_dims=2).any(-1)
        often = items.spread(counts[..., is_set].to(features))
    return _Model(take_rows(centred, items.points), items, eta, often)


def laplace_weights(
    features: Tensor,
    stages: Tensor,
    precision: Tensor,
    counts: Tensor | None = None,
    *,
    tolerance: float = Laplace.tolerance,
    max_iterations: int = Laplace.max_iterations,
) -> WeightSolution:
    r"""Computes the Laplace posterior of weights given choices, and its evidence.

    The mean is the mode (MAP). An iteration costs ``O(d^3 + M d^2)`` for ``M`` items of
    all sets. With the mode :math:`\hat\theta`, the covariance S there and :math:`v = d
    \hat\theta / d \eta = -S \hat\theta`, the evidence has the derivative

    .. math::
        \frac{d \log Z}{d \eta} = \tfrac12 \Big[ \frac{d}{\eta} - \mathrm{tr}\, S
        - |\hat\theta|^2 - \sum_l \sum_{j \in l} p_j \, (x_j - \bar x_l)' v \,
        (x_j - \bar x_l)' S (x_j - \bar x_l) \Big],

    the last term from the motion of the curvature with the mode. Arguments are those of
    :meth:`WeightEngine.solve`, in double precision, and of :class:`.Laplace`.
    """
    eta, d = precision.detach(), features.shape[-1]
    settings = Laplace(tolerance=tolerance, max_iterations=max_iterations)
    with torch.no_grad():
        model = _choice_model(features, stages, eta, counts)
        batch = torch.broadcast_shapes(
            eta.shape, features.shape[:-2], model.items.present.shape[:-1]
        )
        none = features.new_zeros(*batch, d)
        point, (cholesky, _), residual, iterations = find_mode(
            model, model.point(none, none), settings
        )
        mean, covariance = point.moved, torch.cholesky_inverse(cholesky)
        diagonal = cholesky.diagonal(dim1=-2, dim2=-1)
        log_det = (2 * diagonal.log() - eta.log().unsqueeze(-1)).sum(-1)
        value = point.value - 0.5 * log_det
        # The mean is off the mode by third derivatives: items pull by their leverage,
        # p (x - mean)' S (x - mean).
        half = torch.linalg.solve_triangular(cholesky, point.around.mT, upper=False)
        turned = point.p * half.square().sum(-2)
        pull = 0.5 * point.around.mT @ turned.unsqueeze(-1)
        shift = torch.linalg.solve_triangular(cholesky, pull, upper=False)
        asymmetry = shift.square().sum((-2, -1))

    def surrogate() -> Tensor:
        """Makes a form with the derivative of the evidence in ``precision``.

        `moved` is that of the mode, ``-S mode``, and `turn` the part of the curvature.
        """
        moved = -(covariance @ mean.unsqueeze(-1))
        trace = covariance.diagonal(dim1=-2, dim2=-1).sum(-1)
        turn = (turned * (point.around @ moved).squeeze(-1)).sum(-1)
        slope = d / eta - trace - mean.square().sum(-1) - turn
        return 0.5 * slope * precision

    return WeightSolution(
        mean=mean,
        covariance=covariance,
        evidence=with_gradient_of(value, surrogate),
        converged=bool((residual <= tolerance).all()),
        iterations=iterations,
        residual=float(residual.max()),
        asymmetry=float(asymmetry.max()),
    )


def _weight_problem(bound: Bound, features: Tensor, eta: Tensor) -> BoundProblem:
    """Makes the problem of weights, inducing values that leave nothing open.

    Utilities are ``X theta`` with ``theta ~ N(0, I / eta)``: the inducing points are
    unit vectors, with ``K_ZZ = I / eta`` and ``K_XZ = X / eta``. Weights of inducing
    points, as the solver has them, are therefore ``eta`` times ``theta``.
    """
    scale = eta[..., None, None]
    eye = torch.eye(features.shape[-1], dtype=features.dtype, device=features.device)
    cross, root = features / scale, eye * scale.sqrt()
    variance = features.square().sum(-1) / eta.unsqueeze(-1)
    prior = InducingPrior(eye, torch.zeros_like(variance), eye / scale, cross, variance)
    solver = FeatureSolver(prior, root, bound.rows, None)
    # Steps do not depend on where all features are shifted, their digits do.
    centred = prior._replace(cross=cross - cross.mean(-2, keepdim=True))
    around = FeatureSolver(centred, root, bound.rows, None)

    def coupled_step(c: Tensor, groups: SparseDesign, force: Tensor) -> Tensor:
        """Moves the means of rows by Newton's step; see `CoupledStep`.

        Weights of features ``F`` move by ``(I + G)^-1 F' A' force``, where ``G`` is
        ``F' A' diag(c) A F - (V F)' V F`` with ``V`` the groups and centred features.
        """
        v = groups.apply_matrix(around.features)
        pulled = around.pulled(c, ConditionedNoise(None, c))
        gram = around.features.mT @ pulled - v.mT @ v
        pull = solver.features.mT @ bound.rows.adjoint(force).unsqueeze(-1)
        moved = torch.linalg.solve(plus_identity(gram), pull)
        return bound.rows.apply((solver.features @ moved).squeeze(-1))

    return BoundProblem(bound, solver, bound.rows.apply(prior.mean), coupled_step)


def variational_weights(
    features: Tensor,
    stages: Tensor,
    precision: Tensor,
    counts: Tensor | None = None,
    *,
    tolerance: float = VariationalBound.tolerance,
    max_iterations: int = VariationalBound.max_iterations,
) -> WeightSolution:
    r"""Computes the variational posterior of weights given choices, and its bound.

    An iteration costs ``O(d^3 + n d^2)``, and ``O(d)`` for each pair and each item of a
    larger set. Arguments are those of :meth:`WeightEngine.solve`, in double precision,
    and of :class:`.VariationalBound`.
    """
    with torch.no_grad():
        eta = precision.detach()
        often = None if counts is None else counts.to(features)
        bound = stage_bound(stages, features.shape[-2], features, often)
        try:
            step, iterations, converged = last_step(
                _weight_problem(bound, features, eta), tolerance, max_iterations
            )
        except PrecisionError as error:
            raise _singular(features) from error
        factor = cast("FeatureFactor", step.factor)
        mean = factor.solve(step.nu.unsqueeze(-1)).of_column().weights
        # Of inducing weights, which are eta times theta.
        mean, covariance = mean / eta.unsqueeze(-1), factor.covariance()
        covariance = covariance / eta[..., None, None].square()

    def surrogate() -> Tensor:
        """Makes a form with the derivative of the bound in ``precision``."""
        # At the maximum only the prior's own dependence on eta is left.
        d = features.shape[-1]
        trace = covariance.diagonal(dim1=-2, dim2=-1).sum(-1)
        slope = 0.5 * (d / eta - trace - mean.square().sum(-1))
        return slope * precision

    return WeightSolution(
        mean=mean,
        covariance=covariance,
        evidence=with_gradient_of(step.value, surrogate),
        converged=converged,
        iterations=iterations,
        residual=float(step.residual.max()),
    )
