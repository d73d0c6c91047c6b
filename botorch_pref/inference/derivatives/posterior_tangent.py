"""The protocol of tangents: how a posterior moves with its prior, to first order."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from torch import Tensor


class TermsChange(NamedTuple):
    """A change of a posterior, zero in value where it only carries derivatives.

    Attributes:
        weights: ``dw``, ``batch_shape x n x s``.
        precision: ``dM``, ``batch_shape x n x n``.
    """

    weights: Tensor
    precision: Tensor


class PosteriorTangent(Protocol):
    """Tangent of a posterior: its first-order change with the prior."""

    def __call__(self, covar: Tensor, mean: Tensor) -> TermsChange:
        """The derivative of the posterior, as a function that is zero in value.

        Args:
            covar: ``K``, ``batch_shape x n x n``, with its graph.
            mean: ``m``, ``batch_shape x n``, with its graph.
        """
