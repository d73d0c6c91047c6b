"""What an engine knows of an answer: factors ``p(y_i | z_i)`` of ``z = A f``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

from torch import Tensor

from botorch_pref.feedback.sparse_rows import SparseRows


class LogDerivatives(NamedTuple):
    """A log function of ``z`` and its derivatives, each ``batch_shape x m``."""

    value: Tensor
    first: Tensor
    second: Tensor
    third: Tensor


class LogPartition(NamedTuple):
    """A log partition and two derivatives in the mean, each ``batch_shape x m``."""

    value: Tensor
    first: Tensor
    second: Tensor


class Factors(ABC):
    r"""A log-concave factor :math:`p(y_i \mid z_i)` for each row of ``z = A f(X)``."""

    rows: SparseRows

    @abstractmethod
    def log_prob(self, z: Tensor) -> LogDerivatives:
        r""":math:`\log p(y_i \mid z_i)` and three derivatives in :math:`z_i`.

        Args:
            z: ``batch_shape x m``.
        """

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
