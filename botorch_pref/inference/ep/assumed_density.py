"""Assumed density filtering: what each answer alone adds to a Gaussian."""

from __future__ import annotations

import torch
from torch import Tensor

from botorch_pref.inference.ep.moment_matching import matching_sites
from botorch_pref.likelihoods.factors.factors import ScalarFactors


def assumed_density_sites(
    factors: ScalarFactors, mean: Tensor, covariance: Tensor
) -> tuple[Tensor, Tensor]:
    """Sites that give a Gaussian the moments that it has after each answer by itself.

    Args:
        factors: m factors on rows of the n points.
        mean: Of utilities before the answers, ``batch_shape x n``.
        covariance: ``batch_shape x n x n``.

    Returns:
        Precisions and shifts, each ``batch_shape x m``.
    """
    rows = factors.rows
    row_mean = rows.apply(mean)
    variance = rows.congruence(covariance).diagonal(dim1=-2, dim2=-1)
    if factors.noise is not None:
        variance = variance + factors.noise.diagonal()
    # A point against its copy has no variance, but for rounding.
    variance = variance.clamp_min(torch.finfo(variance.dtype).tiny)
    row_mean = row_mean.expand_as(variance)
    slopes = factors.tilted_slopes(row_mean, variance)
    precision, shift = matching_sites(row_mean, variance, slopes).chunk(2, dim=-1)
    return precision, shift
