"""Factors of answers in (0, 1) with a Beta distribution around a probit mean."""

from __future__ import annotations

from functools import cached_property, partial

import torch
from torch import Tensor

from botorch_pref.likelihoods.factors.factors import (
    LogDerivatives,
    LogPartition,
    ScalarFactors,
    TiltedSlopes,
)
from botorch_pref.linalg.sparse_design import SparseDesign
from botorch_pref.numerics.beta_log_density import (
    beta_log_density,
    beta_peak,
    beta_slope,
    beta_stiffness,
    beta_value,
)
from botorch_pref.numerics.peaked_quadrature import TiltedMoments, peaked_integral


def beta_partition(
    y: Tensor,
    precision: Tensor,
    scale: Tensor,
    mean: Tensor,
    variance: Tensor,
    peak: Tensor | None = None,
) -> TiltedMoments:
    r""":math:`\log \int \mathrm{Beta}(y \mid z) N(z; m, s) dz` and its derivatives.

    By quadrature, see :func:`peaked_integral`.

    Args:
        y: Answers in (0, 1), any shape.
        precision: ``nu``, broadcastable with ``y``.
        scale: The unit of ``z``: the mean of the answer is ``Phi(z / scale)``.
        mean: ``m``, broadcastable with ``y``.
        variance: ``s``, positive, broadcastable with ``y``.
        peak: Of the density, in units of ``scale``, where it is known.
    """
    if peak is None:
        peak = beta_peak(y, precision.detach())
    y, precision, centre, spread, peak = torch.broadcast_tensors(
        y, precision, mean / scale, variance / scale.square(), peak
    )
    value, first, second, ratio = peaked_integral(
        partial(beta_value, y, precision),
        partial(beta_slope, y, precision),
        partial(beta_stiffness, y, precision),
        centre,
        spread,
        peak,
    )
    return TiltedMoments(value, first / scale, second / scale.square(), ratio)


class BetaFactors(ScalarFactors):
    r"""Rows whose answer is a fraction of a scale.

    .. math::
        p(y_i \mid z_i) = \mathrm{Beta}(y_i;\, \nu \mu_i, \nu (1 - \mu_i)), \qquad
        \mu_i = \Phi(z_i / \sqrt{2 \sigma^2}).

    They have one peak each but are not log-concave: far from the peak they bend up.

    Args:
        rows: ``A``, m rows.
        answers: ``y``, ``batch_shape x m``, in (0, 1).
        precision: ``nu``, positive, broadcastable with ``answers``.
        noise: ``sigma^2``, positive, broadcastable with ``answers``.
    """

    def __init__(
        self, rows: SparseDesign, answers: Tensor, precision: Tensor, noise: Tensor
    ) -> None:
        self.rows = rows
        self.answers, self.precision = answers, precision
        self.scale = (2 * noise).sqrt()

    @cached_property
    def _peak(self) -> Tensor:
        return beta_peak(self.answers, self.precision.detach())

    def log_prob(self, z: Tensor) -> LogDerivatives:
        """See base class."""
        value, first, second, _ = beta_log_density(
            self.answers, self.precision, z / self.scale
        )
        return LogDerivatives(value, first / self.scale, second / self.scale.square())

    def curvature_gradient(self, z: Tensor, weights: Tensor) -> Tensor:
        """See base class."""
        third = beta_log_density(self.answers, self.precision, z / self.scale)[3]
        return weights * third / self.scale**3

    def log_partition(self, mean: Tensor, variance: Tensor) -> LogPartition:
        """See base class."""
        return LogPartition(*self._tilted(mean, variance)[:3])

    def tilted_slopes(self, mean: Tensor, variance: Tensor) -> TiltedSlopes:
        """See base class."""
        return TiltedSlopes(*self._tilted(mean, variance)[1:])

    def _tilted(self, mean: Tensor, variance: Tensor) -> TiltedMoments:
        return beta_partition(
            self.answers, self.precision, self.scale, mean, variance, self._peak
        )
