"""Agreement of a person with earlier answers to the same duel."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from botorch_pref.feedback import Comparisons

_OUTCOMES = 3


class AnswerAgreement(NamedTuple):
    """Number of repeated duels, and the share of them answered alike.

    Attributes:
        repeated: How many pairs of points were asked about more than once.
        agreement: Probability that two answers about the same pair are equal, over all
            pairs of such answers; NaN where nothing was repeated.
    """

    repeated: int
    agreement: float


def answer_agreement(datapoints: Tensor, comparisons: Comparisons) -> AnswerAgreement:
    r"""The share of repeated duels that were answered alike.

    With :math:`c_{po}` answers ``o`` (first, second, tie) about the pair ``p``,

    .. math:: \sum_{p, o} \binom{c_{po}}{2} \Big/
        \sum_p \binom{\sum_o c_{po}}{2} .

    A person who guesses agrees with herself half of the time (less with ties), one
    without noise always. It needs no model.

    Args:
        datapoints: ``n x d``. Equal rows are one point.
        comparisons: Without batches. An answer with a count is as many answers.

    Returns:
        The agreement.
    """
    _, point = torch.unique(datapoints, dim=0, return_inverse=True)
    counts = _outcome_counts(point, comparisons)
    same = int(_pairs_of(counts).sum())
    all_answers = int(_pairs_of(counts.sum(-1)).sum())
    repeated = int((counts.sum(-1) > 1).sum())
    agreement = same / all_answers if repeated else float("nan")
    return AnswerAgreement(repeated, agreement)


def _outcome_counts(point: Tensor, comparisons: Comparisons) -> Tensor:
    """Counts of first, second and tie for each pair of points, ``num_pairs x 3``."""
    pairs, outcomes = [], []
    if comparisons.pairs is not None:
        wins = point[comparisons.pairs]
        pairs.append(wins)
        outcomes.append((wins[:, 0] > wins[:, 1]).long())
    if comparisons.ties is not None:
        ties = point[comparisons.ties]
        pairs.append(ties)
        outcomes.append(torch.full_like(ties[:, 0], 2))
    ordered = torch.cat(pairs).sort(dim=-1).values
    _, pair = torch.unique(ordered, dim=0, return_inverse=True)
    cell = _OUTCOMES * pair + torch.cat(outcomes)
    size = _OUTCOMES * (int(pair.max()) + 1)
    counts = comparisons.answer_counts.to(cell.device)
    cells = counts.new_zeros(size).index_add(0, cell, counts)
    return cells.reshape(-1, _OUTCOMES)


def _pairs_of(counts: Tensor) -> Tensor:
    return counts * (counts - 1) // 2
