"""Random numbers that a seed decides."""

import random
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.quasirandom import SobolEngine


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def uniform(*shape: int, seed: int = 0) -> Tensor:
    """Draws numbers of the unit interval, in double precision."""
    return torch.rand(shape, generator=seeded(seed), dtype=torch.float64)


def normal(*shape: int, seed: int = 0) -> Tensor:
    """Draws standard normals, in double precision."""
    return torch.randn(shape, generator=seeded(seed), dtype=torch.float64)


def global_states() -> tuple[Any, ...]:
    """Reads what every global source of random numbers would draw next."""
    numpy_state = np.random.get_state()  # noqa: NPY002
    return torch.get_rng_state().tolist(), list(numpy_state[1]), random.getstate()


def with_points_among(points: Tensor) -> Tensor:
    """Adds to points, ``n x d``, those among them by which `DistinctOptions` weighs."""
    lowest, highest = points.amin(0), points.amax(0)
    engine = SobolEngine(points.shape[-1], scramble=True, seed=0)
    shares = engine.draw(32, dtype=torch.float64)
    return torch.cat([points, lowest + shares * (highest - lowest)])
