"""The evidence of any answers, averaged over draws of the prior."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from entries import Cell
from torch import Generator, Tensor
from torch.special import log_ndtr, ndtr
from truths.answers import NOISE, best_of, duels, middle, softmax

from botorch_pref import (
    Choices,
    Comparisons,
    OrdinalRatings,
    PlackettLuceLikelihood,
    Rankings,
    Ratings,
    Strengths,
    Validity,
)
from botorch_pref.feedback import Feedback

_NUM_DRAWS = 4096
# So many of the draws must carry the weight for their average to be one.
_SMALLEST_SIZE = 100


def _items(row: Tensor) -> list[int]:
    return [i for i in row.tolist() if i >= 0]


def _comparisons(f: Tensor, answers: Comparisons, law: Any, noise: float) -> Tensor:
    gaps = duels(f, answers.pairs)
    if not hasattr(law, "noise"):
        threshold = getattr(law, "tie_threshold", torch.zeros(())).detach()
        return torch.nn.functional.logsigmoid(gaps - threshold)
    threshold = float(law.tie_threshold.detach())
    return log_ndtr((gaps - threshold) / math.sqrt(2 * noise))


def _choices(f: Tensor, answers: Choices, law: Any, noise: float) -> Tensor:
    pairs = zip(map(_items, answers.sets), answers.chosen.tolist(), strict=True)
    stages = [[best, *(i for i in items if i != best)] for items, best in pairs]
    if isinstance(law, PlackettLuceLikelihood):
        return torch.stack([softmax(f, [stage]) for stage in stages], -1)
    f = f * math.sqrt(NOISE / noise)
    return torch.stack([best_of(f, s[0], s[1:]) for s in stages], -1)


def _rankings(f: Tensor, answers: Rankings, law: Any, noise: float) -> Tensor:
    orders = [_items(row) for row in answers.orders]
    if isinstance(law, PlackettLuceLikelihood):
        parts = [softmax(f, [o[i:] for i in range(len(o))]) for o in orders]
        return torch.stack(parts, -1)
    f = f * math.sqrt(NOISE / noise)
    parts = [
        middle(f, *order) if len(order) == 3 else best_of(f, order[0], order[1:])
        for order in orders
    ]
    return torch.stack(parts, -1)


def _validity(f: Tensor, answers: Validity, law: Any, noise: float) -> Tensor:
    sign = torch.where(answers.valid, 1.0, -1.0).double()
    return log_ndtr(f[:, answers.indices] * sign / math.sqrt(noise))


def _levels(f: Tensor, answers: OrdinalRatings, law: Any, noise: float) -> Tensor:
    infinite = torch.tensor([math.inf], dtype=f.dtype)
    ends = torch.cat([-infinite, law.cutpoints.detach(), infinite])
    f = f[:, answers.indices]
    lower, upper = ((ends[answers.levels + i] - f) / math.sqrt(noise) for i in (0, 1))
    # From the side where the difference of two probabilities keeps its digits.
    flip = lower > 0
    lower, upper = torch.where(flip, -upper, lower), torch.where(flip, -lower, upper)
    return (ndtr(upper) - ndtr(lower)).log()


def _densities(z: Tensor, y: Tensor, law: Any, noise: float) -> Tensor:
    z, precision = z / math.sqrt(2 * noise), law.precision.detach()
    a, b = precision * ndtr(z), precision * ndtr(-z)
    density = (a - 1) * y.log() + (b - 1) * (1 - y).log()
    return density + precision.lgamma() - a.lgamma() - b.lgamma()


def _strengths(f: Tensor, answers: Strengths, law: Any, noise: float) -> Tensor:
    return _densities(duels(f, answers.pairs), answers.strengths, law, noise)


def _ratings(f: Tensor, answers: Ratings, law: Any, noise: float) -> Tensor:
    return _densities(f[:, answers.indices], answers.ratings, law, noise)


# Of each answer, ``_NUM_DRAWS x m``.
_LOG_PROBABILITIES: dict[type[Feedback], Callable[..., Tensor]] = {
    Comparisons: _comparisons,
    Choices: _choices,
    Rankings: _rankings,
    Validity: _validity,
    OrdinalRatings: _levels,
    Strengths: _strengths,
    Ratings: _ratings,
}


@dataclass(frozen=True)
class Average:
    """The logarithm of an average over draws, its error, and whether it is one."""

    log_evidence: float
    error: float
    told: bool


def average(covariance: Tensor, cells: Sequence[Cell], noise: float) -> Average:
    """The evidence of answers about utilities with a prior of mean zero."""
    values, vectors = torch.linalg.eigh(covariance)
    root = vectors * values.clamp_min(0).sqrt()
    generator = Generator().manual_seed(1)
    white = torch.randn(_NUM_DRAWS, len(root), generator=generator, dtype=root.dtype)
    f = white @ root.T
    logs = f.new_zeros(_NUM_DRAWS)
    for cell in cells:
        function = _LOG_PROBABILITIES[type(cell.feedback)]
        each = function(f, cell.feedback, cell.likelihood().double(), noise)
        logs = logs + (each * cell.feedback.answer_counts).sum(-1)
    weights = logs.softmax(-1)
    size = float(1 / weights.square().sum())
    log_evidence = float(logs.logsumexp(-1)) - math.log(_NUM_DRAWS)
    return Average(
        log_evidence, math.sqrt(1 / size - 1 / _NUM_DRAWS), size >= _SMALLEST_SIZE
    )
