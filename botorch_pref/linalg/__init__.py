"""Linear maps and semi-definite matrices."""

from botorch_pref.linalg.covariance import psd_root
from botorch_pref.linalg.sparse_design import (
    SparseDesign,
    pair_rows,
    point_rows,
    stack_rows,
)

__all__ = ["SparseDesign", "pair_rows", "point_rows", "psd_root", "stack_rows"]
