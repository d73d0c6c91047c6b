"""Log probabilities of answers of every kind, and some about four points."""

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid
from torch.special import log_ndtr, ndtr

from botorch_pref import (
    Choices,
    Comparisons,
    LineChoices,
    OrdinalRatings,
    PlackettLuceLikelihood,
    Rankings,
    Ratings,
    Strengths,
    Validity,
)
from botorch_pref.feedback import Feedback

NOISE = 0.4
POINTS = torch.tensor([[0.0], [0.35], [0.6], [1.0]], dtype=torch.float64)
PAIRS = torch.tensor([[0, 1], [2, 1], [2, 3], [0, 3], [1, 3]])
TIES = torch.tensor([[0, 2], [1, 0]])
CHOICES = Choices(
    torch.tensor([[0, 1, 2], [3, 2, 1], [0, 3, -1]]), torch.tensor([2, 1, 0])
)
RANKINGS = Rankings(torch.tensor([[2, 0, 1], [2, 1, 3], [0, 3, -1]]))


def nodes(count: int = 48) -> tuple[Tensor, Tensor]:
    """Computes Gauss-Hermite nodes and weights of a normal, by Golub and Welsch."""
    off = torch.arange(1, count, dtype=torch.float64).sqrt()
    values, vectors = torch.linalg.eigh(off.diag(1) + off.diag(-1))
    return values, vectors[0].square()


def best_of(f: Tensor, winner: int, losers: list[int]) -> Tensor:
    """Computes log P(winner is heard as the best), integrating its own noise."""
    t, w = nodes()
    gaps = (f[:, [winner]] - f[:, losers]) / math.sqrt(NOISE)
    return (log_ndtr(gaps.unsqueeze(-1) + t).sum(-2) + w.log()).logsumexp(-1)


def middle(f: Tensor, first: int, second: int, third: int) -> Tensor:
    """Computes log P(first > second > third), by the noise of the middle one."""
    t, w = nodes()
    scale = math.sqrt(NOISE)
    above = log_ndtr((f[:, [first]] - f[:, [second]]) / scale - t)
    below = log_ndtr((f[:, [second]] - f[:, [third]]) / scale + t)
    return (above + below + w.log()).logsumexp(-1)


def duels(f: Tensor, pairs: Tensor = PAIRS) -> Tensor:
    return f[:, pairs[:, 0]] - f[:, pairs[:, 1]]


def softmax(f: Tensor, stages: list[list[int]]) -> Tensor:
    return sum(f[:, s[0]] - f[:, s].logsumexp(-1) for s in stages)


def _items(row: Tensor) -> list[int]:
    return [i for i in row.tolist() if i >= 0]


def _interval(lower: Tensor, upper: Tensor) -> Tensor:
    # From the side where the difference of two probabilities keeps its digits.
    flip = lower > 0
    lower, upper = torch.where(flip, -upper, lower), torch.where(flip, -lower, upper)
    return (ndtr(upper) - ndtr(lower)).log()


def _comparisons(f: Tensor, answers: Comparisons, law: Any, noise: float) -> Tensor:
    threshold = float(getattr(law, "tie_threshold", torch.zeros(())).detach())
    is_probit, scale = hasattr(law, "noise"), math.sqrt(2 * noise)
    gaps = duels(f, answers.pairs) - threshold
    wins = log_ndtr(gaps / scale) if is_probit else logsigmoid(gaps)
    rate = float(getattr(law, "lapse_rate", 0.0))
    wins = (rate / 2 + (1 - rate) * wins.exp()).log() if rate else wins
    if answers.ties is None:
        return wins
    gaps = duels(f, answers.ties)
    if is_probit:
        ties = _interval((-threshold - gaps) / scale, (threshold - gaps) / scale)
    else:
        ties = ((gaps + threshold).sigmoid() - (gaps - threshold).sigmoid()).log()
    return torch.cat([wins, ties + math.log1p(-rate)], -1)


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
    return _interval(
        *((ends[answers.levels + i] - f) / math.sqrt(noise) for i in (0, 1))
    )


def _densities(z: Tensor, y: Tensor, law: Any, noise: float) -> Tensor:
    z, precision = z / math.sqrt(2 * noise), law.precision.detach()
    a, b = precision * ndtr(z), precision * ndtr(-z)
    density = (a - 1) * y.log() + (b - 1) * (1 - y).log()
    return density + precision.lgamma() - a.lgamma() - b.lgamma()


def _strengths(f: Tensor, answers: Strengths, law: Any, noise: float) -> Tensor:
    return _densities(duels(f, answers.pairs), answers.strengths, law, noise)


def _ratings(f: Tensor, answers: Ratings, law: Any, noise: float) -> Tensor:
    return _densities(f[:, answers.indices], answers.ratings, law, noise)


def _lines(f: Tensor, answers: LineChoices, law: Any, noise: float) -> Tensor:
    stops = [*zip(answers.points, answers.chosen.tolist(), strict=True)]
    if not hasattr(law, "correlation_length"):
        return torch.stack([logistic_stop(f, *stop) for stop in stops], -1)
    return torch.stack([stop_between(f, *stop, law, noise) for stop in stops], -1)


def logistic_stop(f: Tensor, points: Tensor, stop: float) -> Tensor:
    """Computes log P(a stop) of a softmax over nearest parts of the line."""
    steps = (0.0, -0.1, -0.3, 0.1, 0.3)
    positions = [*(stop + step for step in steps), 0.0, 1.0]
    order = sorted((points >= 0).nonzero()[:, 0].tolist(), key=positions.__getitem__)
    inner = [0.5 * (positions[i] + positions[j]) for i, j in pairwise(order)]
    limits = [0.0, *inner, 1.0]
    shares = [after - before for before, after in pairwise(limits)]
    utilities = f[:, points[order]] + torch.tensor(shares, dtype=f.dtype).log()
    return utilities.log_softmax(-1)[:, order.index(0)]


def stop_between(
    f: Tensor, points: Tensor, stop: float, law: Any, noise: float
) -> Tensor:
    """Computes log P(a stop, and not one position on either side of it).

    The noise is Markov along the line: given that of the stop, that of one side is
    independent of that of the other.
    """
    t, w = nodes()
    sides = (
        (points[[1, 2, 5]], (0.1, 0.3, stop)),
        (points[[3, 4, 6]], (0.1, 0.3, 1 - stop)),
    )
    total = w.log().expand(len(f), -1)
    for places, distances in sides:
        (number,) = (places >= 0).nonzero(as_tuple=True)
        assert len(number) < 2, "at most one position on a side"
        for i in number.tolist():
            rho = math.exp(-distances[i] / float(law.correlation_length))
            gap = (f[:, points[0]] - f[:, places[i]]) / math.sqrt(noise)
            deviation = math.sqrt(1 - rho**2)
            total = total + log_ndtr((gap.unsqueeze(-1) + (1 - rho) * t) / deviation)
    return total.logsumexp(-1)


_LOG_PROBABILITIES: dict[type[Feedback], Callable[..., Tensor]] = {
    Comparisons: _comparisons,
    Choices: _choices,
    Rankings: _rankings,
    Validity: _validity,
    OrdinalRatings: _levels,
    Strengths: _strengths,
    Ratings: _ratings,
    LineChoices: _lines,
}


def log_probabilities(
    f: Tensor, answers: Feedback, law: Any, noise: float = NOISE
) -> Tensor:
    """Computes log probabilities of answers under a likelihood of this noise.

    Args:
        f: ``num_draws x n``.
        answers: About the n points.
        law: Has the other parameters. Without a noise it is logistic.
        noise: Of each item that is heard.

    Returns:
        ``num_draws x m``.
    """
    return _LOG_PROBABILITIES[type(answers)](f, answers, law, noise)


VALIDITY = Validity(torch.tensor([0, 2, 3]), torch.tensor([True, True, False]))
ORDINAL = OrdinalRatings(torch.tensor([0, 1, 2, 3]), torch.tensor([1, 1, 2, 0]), 3)
STRENGTHS = Strengths(
    PAIRS[:4], torch.tensor([0.6, 0.8, 0.9, 0.35], dtype=torch.float64)
)
RATINGS = Ratings(
    torch.tensor([0, 1, 2, 3]),
    torch.tensor([0.6, 0.4, 0.85, 0.1], dtype=torch.float64),
)
# One position on either side of the stops: an end and the near one, then the end.
LINES = LineChoices(
    torch.tensor([[0, 3], [1, 3], [2, 0]]),
    torch.tensor([0.35, 0.6, 1.0], dtype=torch.float64),
    points=torch.tensor(
        [
            [1, -1, -1, 2, -1, 0, -1],
            [2, 1, -1, -1, -1, -1, 3],
            [0, -1, -1, -1, -1, 2, -1],
        ]
    ),
)
