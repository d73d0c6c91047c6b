"""The sampler that BoTorch takes for skew-normal posteriors."""

from __future__ import annotations

import torch
from botorch.logging import logger
from botorch.sampling.get_sampler import GetSampler
from botorch.sampling.normal import (
    IIDNormalSampler,
    NormalMCSampler,
    SobolQMCNormalSampler,
)
from torch.quasirandom import SobolEngine

from botorch_pref.posteriors.skew_normal_posterior import SkewNormalPosterior


@GetSampler.register(SkewNormalPosterior)
def skew_normal_sampler(
    posterior: SkewNormalPosterior,
    sample_shape: torch.Size,
    *,
    seed: int | None = None,
) -> NormalMCSampler:
    """Sobol normals, or IID ones beyond the dimensions of torch's Sobol engine."""
    dimension = posterior.base_sample_shape[-1]
    if dimension > SobolEngine.MAXDIM:
        logger.warning(
            f"{dimension} base samples are more than the Sobol engine has dimensions. "
            "Using IIDNormalSampler instead."
        )
        return IIDNormalSampler(sample_shape=sample_shape, seed=seed)
    return SobolQMCNormalSampler(sample_shape=sample_shape, seed=seed)
