"""Parts of random answers about n points."""

import torch
from torch import Generator, Tensor


def subsets(generator: Generator, count: int, size: int, n: int) -> Tensor:
    return torch.rand(count, n, generator=generator).topk(size).indices


def uniform(generator: Generator, *shape: int) -> Tensor:
    return torch.rand(*shape, generator=generator, dtype=torch.float64)


def padded(generator: Generator, n: int) -> Tensor:
    sets = subsets(generator, 4, 3, n)
    sets[:, 2] = torch.where(uniform(generator, 4) < 0.5, -1, sets[:, 2])
    return sets


def integers(generator: Generator, high: int, count: int = 5) -> Tensor:
    return torch.randint(high, (count,), generator=generator)
