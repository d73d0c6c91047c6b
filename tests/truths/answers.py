"""Answers of every kind about four points, and their log probabilities."""

import math

import torch
from torch import Tensor
from torch.special import log_ndtr, ndtr

from botorch_pref import (
    Choices,
    OrdinalRatings,
    Rankings,
    Ratings,
    Strengths,
    Validity,
)

NOISE = 0.4
POINTS = torch.tensor([[0.0], [0.35], [0.6], [1.0]], dtype=torch.float64)
PAIRS = torch.tensor([[0, 1], [2, 1], [2, 3], [0, 3], [1, 3]])
TIES = torch.tensor([[0, 2], [1, 0]])
CHOICES = Choices(
    torch.tensor([[0, 1, 2], [3, 2, 1], [0, 3, -1]]), torch.tensor([2, 1, 0])
)
RANKINGS = Rankings(torch.tensor([[2, 0, 1], [2, 1, 3], [0, 3, -1]]))


def nodes(count: int = 48) -> tuple[Tensor, Tensor]:
    """Gauss-Hermite nodes and weights of a standard normal, by Golub and Welsch."""
    off = torch.arange(1, count, dtype=torch.float64).sqrt()
    values, vectors = torch.linalg.eigh(off.diag(1) + off.diag(-1))
    return values, vectors[0].square()


def best_of(f: Tensor, winner: int, losers: list[int]) -> Tensor:
    """Log P(winner is heard as the best), integrating its own noise."""
    t, w = nodes()
    gaps = (f[:, [winner]] - f[:, losers]) / math.sqrt(NOISE)
    return (log_ndtr(gaps.unsqueeze(-1) + t).sum(-2) + w.log()).logsumexp(-1)


def middle(f: Tensor, first: int, second: int, third: int) -> Tensor:
    """Log P(first > second > third), integrating the noise of the middle one."""
    t, w = nodes()
    scale = math.sqrt(NOISE)
    above = log_ndtr((f[:, [first]] - f[:, [second]]) / scale - t)
    below = log_ndtr((f[:, [second]] - f[:, [third]]) / scale + t)
    return (above + below + w.log()).logsumexp(-1)


def duels(f: Tensor, pairs: Tensor = PAIRS) -> Tensor:
    return f[:, pairs[:, 0]] - f[:, pairs[:, 1]]


def probit_duels(f: Tensor) -> Tensor:
    wins = log_ndtr((duels(f) - 0.3) / math.sqrt(2 * NOISE))
    gap, scale = duels(f, TIES), math.sqrt(2 * NOISE)
    ties = (ndtr((0.3 - gap) / scale) - ndtr((-0.3 - gap) / scale)).log()
    return wins.sum(-1) + ties.sum(-1)


def logit_duels_and_ties(f: Tensor) -> Tensor:
    wins = torch.sigmoid(duels(f) - 0.3)
    gap = duels(f, TIES)
    ties = torch.sigmoid(gap + 0.3) - torch.sigmoid(gap - 0.3)
    return wins.log().sum(-1) + ties.log().sum(-1)


def ordinal(f: Tensor) -> Tensor:
    ends = torch.tensor([-math.inf, -0.6, 0.5, math.inf], dtype=torch.float64)
    f, levels = f[:, ORDINAL.indices], ORDINAL.levels
    upper, lower = ends[levels + 1], ends[levels]
    scale = math.sqrt(NOISE)
    return (ndtr((upper - f) / scale) - ndtr((lower - f) / scale)).log().sum(-1)


def beta(z: Tensor, y: Tensor, precision: float) -> Tensor:
    z = z / math.sqrt(2 * NOISE)
    a, b = precision * ndtr(z), precision * ndtr(-z)
    density = (a - 1) * y.log() + (b - 1) * (1 - y).log()
    return (density + math.lgamma(precision) - a.lgamma() - b.lgamma()).sum(-1)


def softmax(f: Tensor, stages: list[list[int]]) -> Tensor:
    return sum(f[:, s[0]] - f[:, s].logsumexp(-1) for s in stages)


VALIDITY = Validity(torch.tensor([0, 2, 3]), torch.tensor([True, True, False]))
ORDINAL = OrdinalRatings(torch.tensor([0, 1, 2, 3]), torch.tensor([1, 1, 2, 0]), 3)
STRENGTHS = Strengths(
    PAIRS[:4], torch.tensor([0.6, 0.8, 0.9, 0.35], dtype=torch.float64)
)
RATINGS = Ratings(
    torch.tensor([0, 1, 2, 3]),
    torch.tensor([0.6, 0.4, 0.85, 0.1], dtype=torch.float64),
)
