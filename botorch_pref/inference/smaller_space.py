"""Rows or points: the space in which conditioning costs less."""

from __future__ import annotations

from torch import Tensor

from botorch_pref.feedback.sparse_rows import SparseRows
from botorch_pref.inference.block_point_solver import BlockPointSolver
from botorch_pref.inference.point_solver import PointSolver
from botorch_pref.inference.row_solver import RowSolver
from botorch_pref.inference.site_solver import SiteSolver
from botorch_pref.likelihoods.noise_blocks import NoiseBlocks


def site_solver(
    covar: Tensor, rows: SparseRows, noise: NoiseBlocks | None = None
) -> SiteSolver:
    """The solver of the smaller space.

    Args:
        covar: ``K``, ``batch_shape x n x n``.
        rows: ``A``, m rows over n points.
        noise: What rows of one answer share, if they do.

    Returns:
        A :class:`RowSolver` when ``m <= n``, else a solver of the points.
    """
    if rows.num_rows <= rows.num_points:
        return RowSolver(covar, rows, noise)
    if noise is None:
        return PointSolver(covar, rows)
    return BlockPointSolver(covar, rows, noise)
