"""Random numbers that a seed decides."""

import torch
from torch import Tensor


def uniform(*shape: int, seed: int = 0) -> Tensor:
    """Of the unit interval, in double precision."""
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(shape, generator=generator, dtype=torch.float64)


def normal(*shape: int, seed: int = 0) -> Tensor:
    """Standard normal, in double precision."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)
