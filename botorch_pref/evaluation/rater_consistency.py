"""Consistency of raters: with the others, and with their own answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from botorch_pref.datasets.items import (
    CATEGORY,
    CHOICE,
    COUNT,
    HOME,
    LOSER,
    RATER,
    TIE,
    WINNER,
)

if TYPE_CHECKING:
    from pandas import DataFrame, Series


def decided_duels(answers: DataFrame) -> DataFrame:
    """Takes the answers about two items that are no ties."""
    is_decided = np.ones(len(answers), bool)
    if TIE in answers.columns:
        is_decided &= ~answers[TIE].to_numpy(bool)
    if CHOICE in answers.columns:
        is_decided &= answers[CHOICE].isna().to_numpy()
    return answers[is_decided]


def rater_consistency(answers: DataFrame) -> DataFrame:
    """Makes a table of raters: how often each one agrees with the others.

    Ties and choices from three or more are left out.

    Args:
        answers: The columns ``winner``, ``loser``, ``tie``, ``count`` and ``rater``,
            see :func:`.rank_items`.

    Returns:
        A row for each rater: of the ``shared`` answers about two items of which most of
        the others prefer one, how many are ``with_others``.
    """
    duels = decided_duels(answers)
    pair, is_first = _pairs(duels)
    number = {
        "won": duels[COUNT].where(is_first, 0),
        "lost": duels[COUNT].where(~is_first, 0),
    }
    counts = duels[[RATER]].assign(**pair, **number).groupby([RATER, *pair]).sum()
    won, lost = counts["won"], counts["lost"]
    pairs = counts.groupby([*pair])
    # By how many of the other raters' answers the first item is ahead.
    lead = pairs["won"].transform("sum") - pairs["lost"].transform("sum") - won + lost
    columns = {
        "shared": (won + lost).where(lead != 0, 0),
        "with_others": won.where(lead > 0, lost).where(lead != 0, 0),
    }
    sums = counts.assign(**columns)[[*columns]].groupby(RATER).sum()
    return sums.reindex(answers[RATER].unique(), fill_value=0)


def _pairs(duels: DataFrame) -> tuple[dict[str, Series[Any]], Series[bool]]:
    """Lists the two items of each duel in the order of their texts.

    A pair in two categories makes two questions.

    Returns:
        The columns by which duels are grouped, and whether the first of the two won.
    """
    is_first = duels[WINNER].astype(str) < duels[LOSER].astype(str)
    pair = {
        "first": duels[WINNER].where(is_first, duels[LOSER]),
        "second": duels[LOSER].where(is_first, duels[WINNER]),
    }
    if CATEGORY in duels.columns:
        pair[CATEGORY] = duels[CATEGORY]
    return pair, is_first


def are_repeated(duels: DataFrame) -> np.ndarray:
    """Tells which duels ask what their rater answers more than once, ``m`` bools.

    A question is two items, in one order where ``home`` says which is shown first. A
    duel with a count of two or more repeats itself.
    """
    keys, _ = _questions(duels)
    groups = duels[[RATER, COUNT]].assign(**keys).groupby([RATER, *keys], dropna=False)
    return (groups[COUNT].transform("sum") > 1).to_numpy()


def _questions(duels: DataFrame) -> tuple[dict[str, Series[Any]], Series[bool]]:
    """Lists the columns that tell questions apart, and whether the first of two won.

    Where it is known which item was shown first, the other order is another question.
    """
    keys, is_first = _pairs(duels)
    if HOME in duels.columns:
        keys["shown"] = duels[HOME]
    return keys, is_first


def contradictions(duels: DataFrame, chances: np.ndarray) -> DataFrame:
    r"""Makes a table of raters: how often each answers the same question both ways.

    Questions are those of `are_repeated`. If the answers :math:`k` to one prefer one of
    its two items with the probabilities :math:`p_k`, its expected contradictions are

    .. math:: \sum_{k < l} p_k (1 - p_l) + p_l (1 - p_k) .

    Args:
        duels: `decided_duels`, with raters.
        chances: The probability of each answer that its winner wins, ``m``.

    Returns:
        A row for each rater: of the ``repeated`` pairs of answers to one question, how
        many are ``contradicted``, and how many are ``expected`` to be.
    """
    keys, is_first = _questions(duels)
    chance = np.where(is_first, chances, 1 - chances)
    count = duels[COUNT].to_numpy(float)
    columns = {
        "number": count,
        "won": count * is_first,
        "sum": count * chance,
        "squares": count * chance**2,
    }
    groups = duels[[RATER]].assign(**keys, **columns)
    sums = groups.groupby([RATER, *keys], dropna=False).sum()
    number, won = sums["number"], sums["won"]
    # The sum of p_k p_l over all k and l that differ.
    pairs_of_chances = sums["sum"] ** 2 - sums["squares"]
    table = sums.assign(
        repeated=(number * (number - 1) / 2).astype(int),
        contradicted=(won * (number - won)).astype(int),
        expected=(number - 1) * sums["sum"] - pairs_of_chances,
    )
    return table.groupby(RATER)[["repeated", "contradicted", "expected"]].sum()
