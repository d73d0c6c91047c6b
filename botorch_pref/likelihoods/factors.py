"""Factors ``p(y_i | z_i)`` of rows of utilities: answers as engines see them."""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from botorch_pref.errors import InferenceWarning
from botorch_pref.linalg.sparse_design import NoiseBlocks, RowGroups, SparseDesign
from botorch_pref.numerics.bend_quadrature import bend_nodes, density_bend
from botorch_pref.numerics.quadrature import TiltedMoments, tilted_moments

GroupsOf = Callable[[SparseDesign, Tensor | None, bool], RowGroups | None]
"""Finds rows that are equal up to their sign; see :func:`.row_groups`."""


class LogDerivatives(NamedTuple):
    """A log function of ``z`` and its derivatives, each ``batch_shape x m``.

    Factors that couple rows give any values that have the right sum over rows, any
    gradient that has the right ``A' first``, and any curvature that has the right
    ``A' diag(second) A``.
    """

    value: Tensor
    first: Tensor
    second: Tensor


class LogPartition(NamedTuple):
    """A log partition and two derivatives in the mean, each ``batch_shape x m``."""

    value: Tensor
    first: Tensor
    second: Tensor


class TiltedSlopes(NamedTuple):
    r"""The derivatives of a log partition that make a site, ``batch_shape x m``.

    Attributes:
        first: The first derivative in the mean.
        second: The second derivative.
        ratio: Tilted variances over those of the cavities, :math:`1 + s \partial^2`, to
            their own digits where answers are much more precise than the cavity.
    """

    first: Tensor
    second: Tensor
    ratio: Tensor


class Factors(ABC):
    r"""Factors of the rows ``z = A f(X)``.

    Attributes:
        rows: ``A``, m rows.
        noise: Gaussian noise that rows of one answer share and that is part of ``z``
            beside ``A f``; None where there is none.
        shares_noise: Whether factors of the class may have such noise.
        takes_counts: Whether :meth:`merged` takes answers that were given many times.
    """

    shares_noise: ClassVar[bool] = False
    takes_counts: ClassVar[bool] = False
    rows: SparseDesign
    noise: NoiseBlocks | None = None

    @property
    def in_noise(self) -> Tensor:
        """Whether each row shares noise with others, ``m`` booleans."""
        if self.noise is None:
            index = self.rows.indices
            return index.new_zeros(self.rows.num_rows, dtype=torch.bool)
        return self.noise.diagonal().reshape(-1, self.rows.num_rows).any(0)

    @abstractmethod
    def log_prob(self, z: Tensor) -> LogDerivatives:
        r""":math:`\log p(y \mid z)`, its gradient and its curvature.

        Args:
            z: ``batch_shape x m``.
        """

    @abstractmethod
    def curvature_gradient(self, z: Tensor, weights: Tensor) -> Tensor:
        r"""The gradient of ``sum_i weights_i second_i(z)`` in ``z``.

        Args:
            z: ``batch_shape x m``.
            weights: ``batch_shape x m``.

        Returns:
            ``batch_shape x m``; where rows are independent, ``weights`` times the third
            derivative.
        """

    def merged(self, counts: Tensor | None, groups_of: GroupsOf) -> Factors:
        r"""The factors of the same answers, each as often as it was given.

        Where several see the same row they become one factor,
        :math:`\prod_k p_k(\pm z)^{c_k}`. By default they stay as they are.

        Args:
            counts: ``batch_shape x M`` integers, how often each answer was given; None
                for once. Only where :attr:`takes_counts`.
            groups_of: Finds rows that are equal up to their sign.
        """
        return self

    def reindex(self, inverse: Tensor, num_points: int) -> None:
        """Lets the factors see points that are counted once.

        Args:
            inverse: ``n`` long, for each point its place among the distinct points.
            num_points: The number of distinct points.
        """
        self.rows = self.rows.reindex(inverse, num_points)


class ScalarFactors(Factors):
    r"""A factor :math:`p(y_i \mid z_i)` for each row."""

    @abstractmethod
    def log_partition(self, mean: Tensor, variance: Tensor) -> LogPartition:
        r""":math:`\log \int p(y_i \mid z) N(z; \mu_i, s_i) dz` and its derivatives.

        With derivatives :math:`\partial, \partial^2` in the cavity mean, the tilted
        mean is :math:`\mu + s \partial` and the tilted variance
        :math:`s + s^2 \partial^2` (Rasmussen and Williams 2006, eq. 3.58).

        Args:
            mean: Cavity means, ``batch_shape x m``.
            variance: Cavity variances, ``batch_shape x m``.
        """

    def tilted_slopes(self, mean: Tensor, variance: Tensor) -> TiltedSlopes:
        """The derivatives of :meth:`log_partition`, where they alone cost less.

        Args:
            mean: Cavity means, ``batch_shape x m``.
            variance: Cavity variances, ``batch_shape x m``.
        """
        _, first, second = self.log_partition(mean, variance)
        return TiltedSlopes(first, second, 1 + variance * second)


_LONGEST_STEP, _SHORTEST_STEP = 0.5, 0.5 / 32
# Of integrals with all nodes and with every other one. Where the rule converges
# exponentially, that of all nodes errs by about the square.
_AGREEMENT, _DISAGREEMENT = 1e-6, 1e-4


class DensityFactors(ScalarFactors):
    r"""Rows whose answers have a density :math:`p(y_i \mid z_i)` known by its values.

    Derivatives are those of automatic differentiation, so that the density must have
    three. Partitions are sums over the nodes of
    :mod:`~botorch_pref.numerics.bend_quadrature`, of half the step until the log
    integral and the tilted moments agree within 1e-6 with those of every other node;
    their own error is then far smaller, 1e-9 or less, where the density is analytic.
    They hold for a density that, as a function of ``z``, has one peak, or rises or
    falls once, such as a win; with lapses and heavy tails too, and as far as that is
    within 116 deviations of the cavity. (An interval wide beside its noise bends twice:
    see :class:`BoxFactors`.)

    Args:
        rows: ``A``, m rows.
        log_density: ``z -> log p(y | z)``, elementwise: ``... x m`` to ``... x m``,
            where parameters may add batch dimensions before ``m``.
    """

    takes_counts = True

    def __init__(
        self, rows: SparseDesign, log_density: Callable[[Tensor], Tensor]
    ) -> None:
        self.rows = rows
        self._log_density = log_density

    def merged(self, counts: Tensor | None, groups_of: GroupsOf) -> DensityFactors:
        """See base class: a row has the product of its densities."""
        groups = groups_of(self.rows, None, True)
        if groups is None and counts is None:
            return self

        def log_product(z: Tensor) -> Tensor:
            each = self._log_density(z if groups is None else groups.spread(z))
            each = each if counts is None else counts * each
            return each if groups is None else groups.total(each)

        rows = self.rows if groups is None else groups.merged(self.rows)
        return DensityFactors(rows, log_product)

    def log_prob(self, z: Tensor) -> LogDerivatives:
        """See base class."""
        return LogDerivatives(*self._derivatives(z, 2))

    def curvature_gradient(self, z: Tensor, weights: Tensor) -> Tensor:
        """See base class."""
        return weights * self._derivatives(z, 3)[3]

    def log_partition(self, mean: Tensor, variance: Tensor) -> LogPartition:
        """See base class; by quadrature.

        Warns:
            InferenceWarning: The quadrature did not converge, since the density has
                steps or bends in several places.
        """
        return LogPartition(*self._tilted(mean, variance)[:3])

    def tilted_slopes(self, mean: Tensor, variance: Tensor) -> TiltedSlopes:
        """See base class."""
        return TiltedSlopes(*self._tilted(mean, variance)[1:])

    def _tilted(self, mean: Tensor, variance: Tensor) -> TiltedMoments:
        shape = torch.broadcast_shapes(mean.shape, variance.shape, self._shape)
        mean, variance = mean.expand(shape), variance.expand(shape)
        step = _LONGEST_STEP
        while True:
            partition, error = self._partition(mean, variance, step)
            if error <= _AGREEMENT or step <= _SHORTEST_STEP:
                break
            step = 0.5 * step
        if error > _DISAGREEMENT:
            warnings.warn(
                f"The log integral of an answer is known within {error:.1e} only. Its "
                "density has steps or bends in several places; give factors with a "
                "log_partition of their own.",
                InferenceWarning,
                stacklevel=3,
            )
        return partition

    def _partition(
        self, mean: Tensor, variance: Tensor, step: float
    ) -> tuple[TiltedMoments, float]:
        """The partition, and by how much that of every other node differs."""
        centre, width = (v.expand(mean.shape) for v in self._bend)
        at, deviation = mean.detach(), variance.detach().sqrt()
        nodes, weights = bend_nodes(at, variance.detach(), centre, width, step)
        offset = deviation * nodes
        value, slope = self._derivatives(at + offset, 1)
        # Nodes are constants: the Gaussian moves over them. It is not subtracted from
        # them, since a small offset would be lost in their rounding.
        offset = offset + (at - mean)
        gaussian = -0.5 * (offset.square() / variance - nodes.square())
        gaussian = gaussian - 0.5 * (variance / deviation.square()).log()
        logs = value + weights + gaussian
        partition, _ = tilted_moments(logs, slope, offset, variance)
        return partition, _disagreement(logs.detach(), nodes)

    @cached_property
    def _at_zero(self) -> Tensor:
        coefficients = self.rows.coefficients
        with torch.enable_grad():
            return self._log_density(coefficients.new_zeros(coefficients.shape[:-1]))

    @property
    def _shape(self) -> torch.Size:
        """``batch_shape x m``."""
        return self._at_zero.shape

    @property
    def _is_learned(self) -> bool:
        """Whether parameters of the density require gradients."""
        return self._at_zero.requires_grad

    @cached_property
    def _bend(self) -> tuple[Tensor, Tensor]:
        """Positions where the densities bend, and the widths of the bends."""
        like = self.rows.coefficients.new_zeros(self._shape)
        return density_bend(self._log_density, like)

    def _derivatives(self, z: Tensor, order: int) -> list[Tensor]:
        """The log density and its derivatives, with a graph where one is recorded."""
        keep = torch.is_grad_enabled() and (z.requires_grad or self._is_learned)
        z = z.expand(torch.broadcast_shapes(z.shape, self._shape))
        with torch.enable_grad():
            at = z if keep and z.requires_grad else z.detach().requires_grad_()
            found = [self._log_density(at)]
            for n in range(1, order + 1):
                found.append(_derivative(found[-1], at, keep or n < order))
        return found if keep else [value.detach() for value in found]


def _disagreement(logs: Tensor, nodes: Tensor) -> float:
    """Distance of every other node from all in log integral and tilted moments."""
    errors = [(logs[::2].logsumexp(0) + math.log(2) - logs.logsumexp(0)).abs().max()]
    fine, coarse = logs.softmax(0), logs[::2].softmax(0)
    for power in (1, 2):
        moment = (fine * nodes**power).sum(0)
        half = (coarse * nodes[::2] ** power).sum(0)
        errors.append(((half - moment) / (1 + moment.abs())).abs().max())
    return float(torch.stack(errors).max())


def _derivative(value: Tensor, at: Tensor, record: bool) -> Tensor:
    if not value.requires_grad:
        return torch.zeros_like(at)
    (slope,) = torch.autograd.grad(
        value.sum(), at, create_graph=record, materialize_grads=True
    )
    return slope
