"""Rows or points: the space in which conditioning costs less."""

from __future__ import annotations

from torch import Tensor

from botorch_pref.inference.conditioning.block_point_solver import BlockPointSolver
from botorch_pref.inference.conditioning.point_solver import PointSolver
from botorch_pref.inference.conditioning.row_solver import RowSolver
from botorch_pref.inference.conditioning.site_solver import SiteSolver
from botorch_pref.linalg.noise_blocks import NoiseBlocks
from botorch_pref.linalg.sparse_design import SparseDesign


def choose_solver(
    covar: Tensor, rows: SparseDesign, noise: NoiseBlocks | None = None
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
