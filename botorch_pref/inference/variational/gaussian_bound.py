r"""Lower bounds of likelihoods that are Gaussian in the utilities.

A bound of parameters ``b`` is a site on each of its rows ``z = A f`` and an intercept,

.. math:: \log p(y \mid z) \ge c(b) + \nu(b)' z - \tfrac12 z' T(b) z .

Symbols and equations are those of Guo et al. (2020).
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor

from botorch_pref.linalg.sparse_design import SparseDesign


class Bound(ABC):
    """A lower bound of the log likelihood.

    Attributes:
        rows: ``A``, m rows.
        num_parameters: The length of ``b``.
    """

    rows: SparseDesign
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
    ) -> tuple[Tensor, SparseDesign | None]:
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
