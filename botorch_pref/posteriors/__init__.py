"""Posteriors of preference models, and differences and duels under any posterior."""

from botorch_pref.posteriors.gaussian import (
    DuelSampler,
    GaussianPosterior,
    Moments,
    contrast,
    gaussian_posterior,
)
from botorch_pref.posteriors.skew_normal import SkewNormalPosterior

__all__ = [
    "DuelSampler",
    "GaussianPosterior",
    "Moments",
    "SkewNormalPosterior",
    "contrast",
    "gaussian_posterior",
]
