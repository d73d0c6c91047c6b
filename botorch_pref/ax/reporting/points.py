"""Designs as a model takes them, and what it says of their utilities."""

from __future__ import annotations

from typing import Any

import torch
from ax.core.arm import Arm
from ax.core.observation import ObservationFeatures
from torch import Tensor

from botorch_pref.ax.generation.preference_adapter import PreferenceAdapter

LEVEL = 0.95
"""Probability of the intervals."""


def points_of(adapter: PreferenceAdapter, arms: list[Arm]) -> Tensor:
    """Arms as the model takes them.

    Args:
        adapter: Of the model.
        arms: Ax's.

    Returns:
        ``n x d``.
    """
    features = [ObservationFeatures(parameters=arm.parameters) for arm in arms]
    points: Tensor = adapter.transform_observation_features(features)
    return points


def utility_summary(posterior: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Posterior means with the ends of central intervals of probability `LEVEL`.

    Args:
        posterior: Of utilities at ``q`` points, or of differences; of an ensemble, its
            mixture.

    Returns:
        Three vectors, ``q`` long.
    """
    tails = torch.tensor([(1 - LEVEL) / 2, (1 + LEVEL) / 2], dtype=torch.float64)
    lower, upper = posterior.quantile(tails).detach().squeeze(-1)
    mean = getattr(posterior, "mixture_mean", posterior.mean).detach().squeeze(-1)
    return mean, lower, upper
