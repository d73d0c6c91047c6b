r"""Lower bounds of logistic and softmax factors that are Gaussian in the utilities.

A bound of parameters ``b`` is a site on each of its rows ``z = A f`` and an intercept,

.. math:: \log p(y \mid z) \ge c(b) + \nu(b)' z - \tfrac12 z' T(b) z .

Symbols and equations are those of Guo et al. (2020).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import singledispatch

import torch
from torch import Tensor

from botorch_pref.errors import UnsupportedFeedbackError
from botorch_pref.feedback.sparse_rows import SparseRows, pair_rows, stack_rows
from botorch_pref.likelihoods.factors import Factors
from botorch_pref.likelihoods.joint_factors import JointFactors
from botorch_pref.likelihoods.logit_factors import LogitFactors
from botorch_pref.likelihoods.plackett_luce_factors import PlackettLuceFactors
from botorch_pref.likelihoods.stage_items import in_some_element, stage_items
from botorch_pref.numerics.softmax_bounds import (
    bound_curvature,
    bound_intercept,
    profile_curvature,
)

_MAX_STEPS = 100


class Bound(ABC):
    """A lower bound of the log likelihood.

    Attributes:
        rows: ``A``, m rows.
        num_parameters: The length of ``b``.
    """

    rows: SparseRows
    num_parameters: int

    @abstractmethod
    def best(self, mean: Tensor, variance: Tensor) -> Tensor:
        """The parameters with the largest expected bound: step (16b).

        Args:
            mean: Of the rows, ``batch_shape x m``.
            variance: Of the rows, ``batch_shape x m``, nonnegative.

        Returns:
            ``batch_shape x num_parameters``.
        """

    @abstractmethod
    def sites(self, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """Precisions and shifts of the rows, each ``batch_shape x m``."""

    @abstractmethod
    def intercept(self, parameters: Tensor) -> Tensor:
        """``c``, summed over answers: ``batch_shape``."""

    @abstractmethod
    def curvature(
        self, parameters: Tensor, mean: Tensor, variance: Tensor
    ) -> tuple[Tensor, SparseRows | None]:
        r"""Minus the Hessian of the best expected bound in the mean utilities.

        With the best parameters for every mean. It is
        :math:`A' \mathrm{diag}(c) A - V'V`, where V couples the items of a set.

        Args:
            parameters: The best ones for the moments, ``batch_shape x num_parameters``.
            mean: Of the rows, ``batch_shape x m``.
            variance: Of the rows, ``batch_shape x m``, nonnegative.

        Returns:
            ``c``, ``batch_shape x m``, nonnegative, and ``V``; None for zero.
        """

    def expected(self, parameters: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """The bound averaged over Gaussian rows, ``batch_shape``; see :meth:`best`."""
        tau, nu = self.sites(parameters)
        quadratic = 0.5 * tau * (variance + mean.square())
        return self.intercept(parameters) + (nu * mean - quadratic).sum(-1)


class PairBound(Bound):
    r"""Jaakkola and Jordan's, with a parameter :math:`\zeta` for each pair.

    Args:
        rows: Differences, winner minus loser.
        present: ``batch_shape x m`` booleans, False where a row stands for nothing.
    """

    def __init__(self, rows: SparseRows, present: Tensor | None = None) -> None:
        self.rows, self.num_parameters = rows, rows.num_rows
        self._present = present

    def _masked(self, values: Tensor) -> Tensor:
        return values if self._present is None else values * self._present

    def best(self, mean: Tensor, variance: Tensor) -> Tensor:
        """See base class; equation 19."""
        return (variance + mean.square()).sqrt()

    def sites(self, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """See base class."""
        tau = self._masked(2 * bound_curvature(parameters))
        return tau, self._masked(torch.full_like(tau, 0.5))

    def curvature(
        self, parameters: Tensor, mean: Tensor, variance: Tensor
    ) -> tuple[Tensor, SparseRows | None]:
        """See base class."""
        return self._masked(profile_curvature(mean, variance)), None

    def intercept(self, parameters: Tensor) -> Tensor:
        """See base class."""
        return self._masked(bound_intercept(parameters)).sum(-1)


class SetBound(Bound):
    r"""Bouchard's, with :math:`\xi` for each item and :math:`\alpha` for each set.

    Args:
        stages: ``batch_shape x L x k`` long, the chosen point first, padded with -1.
        num_points: ``n``.
        like: A tensor whose dtype and device the rows take.
    """

    def __init__(self, stages: Tensor, num_points: int, like: Tensor) -> None:
        self._items = items = stage_items(stages)
        self._here = items.present.to(like)
        self.rows = SparseRows(
            items.points.unsqueeze(-1), self._here.unsqueeze(-1), num_points
        )
        self.num_parameters = self.rows.num_rows + items.num_stages
        self._sizes = items.total(self._here)
        self._free_shift = ((items.place == 0).to(like) - 0.5) * self._here

    def _split(self, parameters: Tensor) -> tuple[Tensor, Tensor]:
        xi, alpha = parameters.split(
            [self.rows.num_rows, self._items.num_stages], dim=-1
        )
        return xi, alpha

    def best(self, mean: Tensor, variance: Tensor) -> Tensor:
        """See base class; equation 23 at the best alpha."""
        alpha = self._best_alpha(mean, variance)
        xi = (variance + (mean - self._items.spread(alpha)).square()).sqrt()
        return torch.cat([xi, alpha], dim=-1)

    def _best_alpha(self, mean: Tensor, variance: Tensor) -> Tensor:
        r"""Newton's method in a bracket that shrinks, instead of equations 22 and 23.

        With the best :math:`\xi` for every alpha the expected bound is concave in it.
        Its slope :math:`(k - 2) / 2 + \sum_j 2 \lambda(\xi_j)(\mu_j - \alpha)` is
        positive at the smallest mean, and no longer so above the largest one by t where
        :math:`\tanh(t / 2)` and :math:`t / \sqrt{t^2 + s}` are at least
        :math:`\sqrt{1 - 2 / k}`.
        """
        items, here, k = self._items, self._items.present, self._sizes.clamp_min(2.0)
        low = -items.largest(torch.where(here, -mean, -torch.inf))
        high = items.largest(torch.where(here, mean, -torch.inf))
        widest = items.largest(torch.where(here, variance, 0.0))
        logistic = 2 * torch.atanh((1 - 2 / k).sqrt())
        high = high + torch.maximum(logistic, (widest * (0.5 * k - 1)).sqrt())
        # Any alpha for a set that this element of the batch lacks.
        low, high = low.nan_to_num(posinf=0.0), high.nan_to_num(neginf=0.0)
        alpha = 0.5 * (low + high)
        tolerance = math.sqrt(torch.finfo(alpha.dtype).eps)
        for _ in range(_MAX_STEPS):
            distance = mean - items.spread(alpha)
            xi = (variance + distance.square()).sqrt()
            pull = 2 * bound_curvature(xi) * distance * self._here
            slope = 0.5 * (k - 2) + items.total(pull)
            curvature = profile_curvature(distance, variance) * self._here
            low, high = (
                torch.where(slope >= 0, alpha, low),
                torch.where(slope >= 0, high, alpha),
            )
            new = alpha + slope / items.total(curvature)
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
        tau = 2 * bound_curvature(xi) * self._here
        return tau, self._free_shift + tau * self._items.spread(alpha)

    def curvature(
        self, parameters: Tensor, mean: Tensor, variance: Tensor
    ) -> tuple[Tensor, SparseRows | None]:
        """See base class."""
        distance = mean - self._items.spread(self._split(parameters)[1])
        c = profile_curvature(distance, variance) * self._here
        total = self._items.spread(self._items.total(c))
        share = torch.where(total > 0, c / torch.where(total > 0, total, 1.0).sqrt(), 0)
        index, coefficients = (
            self._items.padded(self._items.points),
            self._items.padded(share),
        )
        return c, SparseRows(index, coefficients, self.rows.num_points)

    def intercept(self, parameters: Tensor) -> Tensor:
        r"""See base class; :math:`M_l` of equation 25."""
        xi, alpha = self._split(parameters)
        lowered = bound_curvature(xi) * self._items.spread(alpha).square()
        of_items = (bound_intercept(xi) - lowered) * self._here
        there = self._sizes > 0
        of_sets = torch.where(there, 0.5 * (self._sizes - 2) * alpha, 0.0)
        return of_items.sum(-1) + of_sets.sum(-1)


class JointBound(Bound):
    """Several bounds, one under another.

    Args:
        blocks: At least one.
    """

    def __init__(self, blocks: Sequence[Bound]) -> None:
        self._blocks = blocks
        self.rows = stack_rows([block.rows for block in blocks])
        self._sizes = [block.rows.num_rows for block in blocks]
        self._lengths = [block.num_parameters for block in blocks]
        self.num_parameters = sum(self._lengths)

    def _rows_of(self, values: Tensor) -> Sequence[Tensor]:
        return values.split(self._sizes, dim=-1)

    def _parts(self, parameters: Tensor) -> Sequence[Tensor]:
        return parameters.split(self._lengths, dim=-1)

    def best(self, mean: Tensor, variance: Tensor) -> Tensor:
        """See base class."""
        moments = zip(
            self._blocks, self._rows_of(mean), self._rows_of(variance), strict=True
        )
        return torch.cat([b.best(m, v) for b, m, v in moments], dim=-1)

    def curvature(
        self, parameters: Tensor, mean: Tensor, variance: Tensor
    ) -> tuple[Tensor, SparseRows | None]:
        """See base class."""
        parts = zip(
            self._blocks,
            self._parts(parameters),
            self._rows_of(mean),
            self._rows_of(variance),
            strict=True,
        )
        results = [block.curvature(p, m, v) for block, p, m, v in parts]
        groups = [group for _, group in results if group is not None]
        return _join([c for c, _ in results]), stack_rows(groups) if groups else None

    def sites(self, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """See base class."""
        parts = zip(self._blocks, self._parts(parameters), strict=True)
        tau, nu = zip(*(block.sites(part) for block, part in parts), strict=True)
        return _join(tau), _join(nu)

    def intercept(self, parameters: Tensor) -> Tensor:
        """See base class."""
        parts = zip(self._blocks, self._parts(parameters), strict=True)
        values = [block.intercept(part) for block, part in parts]
        return torch.stack(torch.broadcast_tensors(*values)).sum(0)


def _join(parts: Sequence[Tensor]) -> Tensor:
    batch = torch.broadcast_shapes(*(part.shape[:-1] for part in parts))
    return torch.cat([p.expand(*batch, p.shape[-1]) for p in parts], dim=-1)


def stage_bound(stages: Tensor, num_points: int, like: Tensor) -> Bound:
    """Jaakkola and Jordan's bound of pairs and Bouchard's of larger sets.

    Args:
        stages: ``batch_shape x L x k`` long, the chosen point first, padded with -1.
        num_points: ``n``.
        like: A tensor whose dtype and device the rows take.
    """
    sizes = (stages >= 0).sum(-1, keepdim=True)
    is_pair = in_some_element(sizes.squeeze(-1) == 2, 1)
    blocks: list[Bound] = []
    if bool(is_pair.any()):
        pairs, paired = stages[..., is_pair, :2], sizes[..., is_pair, :] == 2
        rows = pair_rows(torch.where(paired, pairs, 0), num_points, like)
        rows = SparseRows(rows.indices, rows.coefficients * paired, num_points)
        blocks.append(PairBound(rows, paired.squeeze(-1)))
    if bool((sizes > 2).any()):
        blocks.append(SetBound(torch.where(sizes > 2, stages, -1), num_points, like))
    return blocks[0] if len(blocks) == 1 else JointBound(blocks)


@singledispatch
def bound_of(factors: Factors) -> Bound:
    """The lower bound of some factors.

    Args:
        factors: Logistic or softmax factors, or both.

    Raises:
        UnsupportedFeedbackError: Factors of another kind.
    """
    raise UnsupportedFeedbackError(
        f"{type(factors).__name__} has no Gaussian lower bound here; use Laplace or EP."
    )


@bound_of.register
def _(factors: LogitFactors) -> Bound:
    return PairBound(factors.rows)


@bound_of.register
def _(factors: PlackettLuceFactors) -> Bound:
    return stage_bound(
        factors.stages, factors.rows.num_points, factors.rows.coefficients
    )


@bound_of.register
def _(factors: JointFactors) -> Bound:
    return JointBound([bound_of(block) for block in factors.blocks])
