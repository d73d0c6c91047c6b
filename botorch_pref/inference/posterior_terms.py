"""The part of a solution that prediction needs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from botorch_pref.posteriors.weight_draws import WeightDraws


@dataclass(frozen=True, eq=False)
class PosteriorTerms:
    r"""Weights and roots that give the posterior of utilities anywhere.

    With :math:`k = K(x, X)` the mean is :math:`m(x) + k w` and the covariance
    :math:`K_{**} - (k Q)(k Q)^T + (k P)(k P)^T`.

    Attributes:
        points: ``X``, ``batch_shape x n x d``, transformed.
        weights: ``w``, ``batch_shape x n x s``, one column a draw; ``s = 1`` for a
            Gaussian.
        root: ``Q``, ``batch_shape x n x r``.
        widening: ``P``, ``batch_shape x n x p``, where answers of factors that are not
            log-concave make the posterior wider; mostly None.
        precision_change: ``dM``, ``batch_shape x n x n``, zero in value: carries the
            derivatives of ``Q Q' - P P'``; None where there are none.
    """

    points: Tensor
    weights: Tensor
    root: Tensor
    widening: Tensor | None = None
    precision_change: Tensor | None = None

    @cached_property
    def draws(self) -> WeightDraws:
        """The weights as draws, with their mean and spread."""
        return WeightDraws(self.weights)
