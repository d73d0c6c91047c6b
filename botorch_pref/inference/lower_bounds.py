r"""Lower bounds of logistic and softmax factors, Gaussian in the utilities.

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
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import singledispatch
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from botorch_pref.errors import UnsupportedFeedbackError
from botorch_pref.likelihoods.factors import Factors, JointFactors
from botorch_pref.likelihoods.logit import (
    LogitFactors,
    PlackettLuceFactors,
    in_some_element,
    stage_items,
)
from botorch_pref.linalg.covariance import join_rows
from botorch_pref.linalg.sparse_design import SparseDesign, pair_rows, stack_rows


class Bound(ABC):
    """A bound of the log likelihood from below; its sites are on ``rows``."""

    rows: SparseDesign
    num_parameters: int

    @abstractmethod
    def best(
        self, mean: Tensor, variance: Tensor, near: Tensor | None = None
    ) -> Tensor:
        """Finds the parameters with the largest expected bound for moments of the rows.

        This is step (16b) of Guo et al. (2020). Means and variances are ``batch_shape x
        m``. A search starts from the parameters ``near``, if any.
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

        The ``parameters`` are the best ones for these moments, and change with the mean
        to stay so. The Hessian's negative is :math:`A' \mathrm{diag}(c) A - V'V`: ``c``
        is nonnegative and ``V``, None for zero, couples the items of a set.
        """

    def expected(self, parameters: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """Averages the bound over Gaussian rows, ``batch_shape``; see :meth:`best`.

        ``mean`` and ``variance`` are those of the rows, ``batch_shape x m``.
        """
        tau, nu = self.sites(parameters)
        quadratic = 0.5 * tau * (variance + mean.square())
        return self.intercept(parameters) + (nu * mean - quadratic).sum(-1)


def bound_curvature(xi: Tensor) -> Tensor:
    r"""Computes :math:`\lambda(\xi) = \tanh(\xi / 2) / (4 \xi)`, even, 1/8 at 0.

    It bends the bound of a logistic function that touches it at :math:`\pm \xi`.
    """
    # The first term that 1/8 leaves out is -xi^2 / 96.
    flat = xi.abs() < math.sqrt(torch.finfo(xi.dtype).eps)
    safe = torch.where(flat, 1.0, xi)
    return torch.where(flat, 0.125, torch.tanh(0.5 * safe) / (4 * safe))


def bound_intercept(xi: Tensor) -> Tensor:
    r"""Computes :math:`c(\xi) = \log \sigma(\xi) - \xi / 2 + \lambda(\xi) \xi^2`."""
    xi = xi.abs()
    return logsigmoid(xi) - 0.5 * xi + bound_curvature(xi) * xi.square()


def profile_slopes(distance: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
    r"""Computes minus the first two derivatives of the best expected bound in the mean.

    With :math:`\xi^2 = s + x^2`, the best choice for ``y ~ N(x, s)``, what is not
    linear in the bound of :math:`\log \sigma(y)` is :math:`-\log 2 \cosh(\xi / 2)`,
    concave in ``x``. Minus its slope is :math:`2 \lambda(\xi) \, x`, returned without
    ``x``, and the derivative of that is

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
        """Lays out the items of all sets as rows of single utilities.

        Phantoms, items that an element of a batch lacks, have coefficients and weights
        of zero. A parameter is the ``xi`` of each item, then the ``alpha`` of each set.
        `_free_shift` is the part of the shift that no parameter changes: 1/2 of a
        chosen item and -1/2 of others, times the count of the set.

        Args:
            stages: ``batch_shape x L x k`` long, the chosen point first, then -1.
            num_points: The number of points.
            like: Has the dtype and device of the result.
            counts: How often each choice was made, ``batch_shape x L``; None for once.
        """
        self._items = items = stage_items(stages)
        self._here = items.present.to(like)
        is_set = in_some_element(stages >= 0, num_dims=2).any(-1)
        self._counts = like.new_ones(()) if counts is None else counts[..., is_set]
        # Of each item, 0 for phantoms: how often its set was chosen from.
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
        """Splits parameters to ``xi`` of items and ``alpha`` of sets."""
        xi, alpha = parameters.split(
            [self.rows.num_rows, self._items.num_stages], dim=-1
        )
        return xi, alpha

    def best(
        self, mean: Tensor, variance: Tensor, near: Tensor | None = None
    ) -> Tensor:
        """Computes the best parameters for moments of items: step (16b).

        The best ``xi`` is the root of ``variance + (mean - alpha)^2``, equation 23 of
        Guo et al. (2020), at the best ``alpha``; ``near`` has an ``alpha`` to start
        from.
        """
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
        r"""Computes the expected bound's slope in alpha, and minus its derivative.

        The slope is :math:`(k - 2) / 2 + \sum_j 2 \lambda(\xi_j) (\mu_j - \alpha)` with
        the best :math:`\xi` for this :math:`\alpha`, ``batch_shape x L``.
        """
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
        """Computes precisions and shifts of items, each ``batch_shape x M``.

        The precisions are ``2 lambda(xi)``, as often as the sets count; the shifts have
        the ``alpha`` of the set times these.
        """
        xi, alpha = self._split(parameters)
        tau = 2 * bound_curvature(xi) * self._weights
        return tau, self._free_shift + tau * self._items.spread(alpha)

    def curvature(
        self, parameters: Tensor, mean: Tensor, variance: Tensor
    ) -> tuple[Tensor, SparseDesign | None]:
        """Computes minus the Hessian of the best expected bound in the mean utilities.

        As ``alpha`` follows the mean, it is ``diag(c) - c c' / sum(c)`` within a set:
        ``V`` has a row ``c / sqrt(sum(c))`` for each set.
        """
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
        """Sums :math:`M_l` of equation 25 of Guo et al. (2020) over sets.

        It is ``batch_shape``, all of the bound that has no utility in it.
        """
        xi, alpha = self._split(parameters)
        lowered = bound_curvature(xi) * self._items.spread(alpha).square()
        of_items = (bound_intercept(xi) - lowered) * self._weights
        is_present = self._sizes > 0
        of_sets = torch.where(is_present, 0.5 * (self._sizes - 2) * alpha, 0.0)
        return of_items.sum(-1) + (self._counts * of_sets).sum(-1)


class JointBound(Bound):
    """Several bounds, one under another."""

    def __init__(self, blocks: Sequence[Bound]) -> None:
        """Stacks rows and parameters of the blocks in their order."""
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
        """Joins the best parameters of all blocks; see :meth:`Bound.best`."""
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
        """Joins ``c`` and ``V`` of all blocks; see :meth:`Bound.curvature`."""
        arguments = self._block_arguments(parameters, mean, variance)
        of_rows, groups = zip(
            *(block.curvature(*moments) for block, *moments in arguments), strict=True
        )
        coupled = [group for group in groups if group is not None]
        return join_rows(of_rows), stack_rows(coupled) if coupled else None

    def sites(self, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """Joins precisions and shifts of all blocks, ``batch_shape x m`` each."""
        tau, nu = zip(
            *(
                block.sites(*arguments)
                for block, *arguments in self._block_arguments(parameters)
            ),
            strict=True,
        )
        return join_rows(tau), join_rows(nu)

    def intercept(self, parameters: Tensor) -> Tensor:
        """Sums the intercepts of all blocks, ``batch_shape``."""
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
    ``counts`` how often each choice was made, None for once.
    """
    sizes = (stages >= 0).sum(-1, keepdim=True)
    is_pair = in_some_element(sizes.squeeze(-1) == 2, num_dims=1)
    blocks: list[Bound] = []
    if bool(is_pair.any()):
        # Pairs of some element of the batch; rows of others have zeros there.
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
    """Makes the bound of choices and rankings; refuses those with covariates.

    Their factors have no ``stages``: options with covariates are no single points.
    """
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
