"""A covariance matrix that GPyTorch can draw from where points coincide."""

from __future__ import annotations

from linear_operator.operators import DenseLinearOperator, RootLinearOperator

from botorch_pref.linalg.semidefinite_cholesky import semidefinite_cholesky


class SemidefiniteLinearOperator(DenseLinearOperator):
    """A dense covariance whose root needs no jitter where it is singular.

    GPyTorch's own adds to the diagonal, with a warning, wherever Cholesky's algorithm
    fails: at two equal points of a candidate, or at the difference of a point from
    itself. This root gives equal points equal samples.

    Args:
        tsr: ``batch_shape x q x q``, symmetric positive semi-definite up to rounding.
    """

    def root_decomposition(self, method: str | None = None) -> RootLinearOperator:
        """The lower triangular root, zero in the columns of dependent points.

        Args:
            method: Ignored; part of the base class's signature.
        """
        return RootLinearOperator(semidefinite_cholesky(self.tensor))
