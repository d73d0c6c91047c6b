"""Boxed Gaussian ("Thurstonian") factors: noise plus an interval."""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor

from botorch_pref.likelihoods.factors.factors import (
    LogDerivatives,
    LogPartition,
    ScalarFactors,
)
from botorch_pref.linalg.noise_blocks import NoiseBlocks
from botorch_pref.linalg.sparse_design import SparseDesign
from botorch_pref.numerics.log_ndtr import (
    log_ndtr,
    log_ndtr_and_slopes,
    log_ndtr_derivatives,
    log_ndtr_slopes,
)
from botorch_pref.numerics.normal import interval_derivatives


def _standardise(bound: Tensor, z: Tensor, inverse: Tensor) -> Tensor:
    """``(bound - z) / scale``; an infinite bound has no gradient, not a NaN one."""
    finite = bound.isfinite()
    return torch.where(finite, (torch.where(finite, bound, z) - z) * inverse, bound)


class BoxFactors(ScalarFactors):
    r"""Rows ``v = A f(X) + e`` with independent noise that fell into an interval.

    .. math::
        p(y_i \mid z_i) = P(l_i \le z_i + e_i \le u_i)
        = \Phi\Big(\frac{u_i - z_i}{\sqrt{r_i}}\Big)
        - \Phi\Big(\frac{l_i - z_i}{\sqrt{r_i}}\Big), \quad e_i \sim N(0, r_i).

    A win has the interval ``[0, inf)``, a tie ``[-delta, delta]``.

    Args:
        rows: ``A``, m rows.
        variance: ``r``, ``batch_shape x m``, positive.
        lower: ``l``, ``batch_shape x m``, ``-inf`` for none.
        upper: ``u``, ``batch_shape x m``, ``inf`` for none; ``l < u``.
        width: ``u - l`` where it is known to more digits than the ends leave.
    """

    def __init__(
        self,
        rows: SparseDesign,
        variance: Tensor,
        lower: Tensor,
        upper: Tensor,
        *,
        width: Tensor | None = None,
    ) -> None:
        self.rows = rows
        self.variance, self.lower, self.upper = variance, lower, upper
        self.width = upper - lower if width is None else width

    @cached_property
    def _sides(self) -> Tensor | float | None:
        """1 for rows with a lower end alone, -1 for an upper; None if a row has both.

        Or has neither. Nothing with a graph may be kept here.
        """
        open_below, open_above = self.lower == -torch.inf, self.upper == torch.inf
        if not bool((open_below ^ open_above).all()):
            return None
        if bool(open_above.all()):
            return 1.0
        return torch.where(open_above, 1.0, -1.0).to(self.lower)

    def _half_line(
        self, sides: Tensor | float, z: Tensor, variance: Tensor
    ) -> tuple[Tensor, Tensor]:
        """``x`` of ``Phi(x)``, the probability of the box, and its slope in z."""
        slope = variance.rsqrt()
        if isinstance(sides, float):
            return (z - self.lower) * slope, slope
        slope = sides * slope
        return (z - torch.where(sides > 0, self.lower, self.upper)) * slope, slope

    def _with_slopes(self, z: Tensor, variance: Tensor) -> tuple[Tensor, ...]:
        """Log probability of the box for ``N(z, variance)``, 2 derivatives in z."""
        if self._sides is None:
            return self._shifted(z, variance)[:3]
        x, slope = self._half_line(self._sides, z, variance)
        value, first, second = log_ndtr_and_slopes(x)
        return value, first * slope, second * slope.square()

    def _shifted(self, z: Tensor, variance: Tensor) -> tuple[Tensor, ...]:
        """Log probability of the box for ``N(z, variance)``, 3 derivatives in z."""
        sides = self._sides
        if sides is not None:
            x, slope = self._half_line(sides, z, variance)
            first, second, third = log_ndtr_derivatives(x)
            square = slope.square()
            return log_ndtr(x), first * slope, second * square, third * square * slope
        inverse = variance.rsqrt()
        width = torch.where(self.width.isfinite(), self.width, 1.0)
        value, first, second, third = interval_derivatives(
            _standardise(self.lower, z, inverse),
            _standardise(self.upper, z, inverse),
            width * inverse,
        )
        return value, -first * inverse, second * inverse**2, -third * inverse**3

    def log_prob(self, z: Tensor) -> LogDerivatives:
        """See base class."""
        return LogDerivatives(*self._with_slopes(z, self.variance))

    def curvature_gradient(self, z: Tensor, weights: Tensor) -> Tensor:
        """See base class."""
        return weights * self._shifted(z, self.variance)[3]

    def log_partition(self, mean: Tensor, variance: Tensor) -> LogPartition:
        """See base class; closed form, since noise and cavity variances add."""
        return LogPartition(*self._with_slopes(mean, self.variance + variance))

    def tilted_slopes(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """See base class."""
        total, sides = self.variance + variance, self._sides
        if sides is None:
            _, first, second, _ = self._shifted(mean, total)
            return first, second
        x, slope = self._half_line(sides, mean, total)
        first, second = log_ndtr_slopes(x)
        return first * slope, second * slope.square()


class CorrelatedBoxFactors(BoxFactors):
    r"""Boxed rows whose noise is correlated within an answer.

    The noise ``R`` of the rows is split into an independent part :math:`r_i` and a
    block-diagonal rest ``N``, positive semi-definite, which joins
    :math:`z = A f(X) + e_N`. Given ``z`` the rows are independent.

    Args:
        rows: ``A``, m rows.
        variance: ``r``, ``batch_shape x m``, positive.
        lower: ``l``, ``batch_shape x m``, ``-inf`` for none.
        upper: ``u``, ``batch_shape x m``, ``inf`` for none; ``l < u``.
        noise: ``N``.
        width: ``u - l`` where it is known to more digits than the ends leave.
    """

    shares_noise: ClassVar[bool] = True
    noise: NoiseBlocks

    def __init__(
        self,
        rows: SparseDesign,
        variance: Tensor,
        lower: Tensor,
        upper: Tensor,
        noise: NoiseBlocks,
        *,
        width: Tensor | None = None,
    ) -> None:
        super().__init__(rows, variance, lower, upper, width=width)
        self.noise = noise
