"""Posteriors of preference models, and differences and duels under any posterior."""

import botorch_pref.posteriors.skew_normal_sampler  # noqa: F401 (registers itself)
from botorch_pref.posteriors.duel_sampler import DuelSampler
from botorch_pref.posteriors.gaussian_posterior import (
    GaussianPosterior,
    gaussian_posterior,
)
from botorch_pref.posteriors.moments import Moments, contrast
from botorch_pref.posteriors.skew_normal_posterior import SkewNormalPosterior

__all__ = [
    "DuelSampler",
    "GaussianPosterior",
    "Moments",
    "SkewNormalPosterior",
    "contrast",
    "gaussian_posterior",
]
