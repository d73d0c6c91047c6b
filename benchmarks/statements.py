"""Whether what a model states of a person holds: intervals, chances, ranks, advice.

A statement is an interval of probability 0.95, or a probability. How often statements
of a kind hold is compared with how often they should: of intervals a share of 0.95, of
probabilities their mean. Shares are means over persons, whose statements depend on each
other, and their standard errors are those of means of persons.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass

import pandas as pd
import torch
from torch import Tensor

LEVEL = 0.95
"""Probability of the intervals."""


@dataclass(frozen=True)
class Tally:
    """How many statements of a kind a person met, and how many of them hold.

    Attributes:
        statement: The kind.
        number: How many statements.
        expected: How many should hold: the sum of their probabilities.
        held: How many hold, or the sum of the true probabilities.
    """

    statement: str
    number: int
    expected: float
    held: float


def intervals_hold(
    statement: str,
    lower: Tensor,
    upper: Tensor,
    truth: Tensor,
    largest: Tensor | None = None,
) -> Tally:
    """Tally of intervals of probability 0.95 that should have a true value.

    Args:
        statement: The kind.
        lower: Lower ends of the intervals, of any shape.
        upper: Upper ends.
        truth: The true values.
        largest: Where the truth is a range of values, any of which will do, its upper
            ends, `truth` being the lower ones: the shared ranks of equal options.
    """
    end = truth if largest is None else largest
    held = (lower <= end) & (truth <= upper)
    return Tally(statement, held.numel(), LEVEL * held.numel(), float(held.sum()))


def chances_hold(statement: str, stated: Tensor, truth: Tensor) -> Tally:
    """Tally of probabilities, or of expected shares, beside what is true.

    Args:
        statement: The kind.
        stated: The probabilities, of any shape.
        truth: Whether it is so, or the true probability.
    """
    expected, held = float(stated.sum()), float(truth.double().sum())
    return Tally(statement, stated.numel(), expected, held)


def favoured(stated: Tensor, truth: Tensor) -> tuple[Tensor, Tensor]:
    """Chances of the option that the model favours in each duel, stated and true.

    A model that is too sure states more than is true, whichever option it favours.

    Args:
        stated: The model's probability that the first of two options is preferred.
        truth: The true one.
    """
    first = stated >= 0.5
    return torch.where(first, stated, 1 - stated), torch.where(first, truth, 1 - truth)


def true_ranks(utility: Tensor) -> tuple[Tensor, Tensor]:
    """The smallest and the largest rank of each option; equal options share theirs.

    Args:
        utility: True utilities, `n`.
    """
    above = (utility > utility.unsqueeze(-1)).sum(-1)
    equal = (utility == utility.unsqueeze(-1)).sum(-1)
    return above + 1, above + equal


def table_of_tallies(
    tallies: Iterable[Tally], **person: str | int | float
) -> pd.DataFrame:
    """A row for each tally that has statements, with what is known of the person.

    Args:
        tallies: Of one person after some answers.
        person: Further columns, which come first.
    """
    rows = [{**person, **asdict(tally)} for tally in tallies if tally.number]
    return pd.DataFrame(rows)


def coverage(table: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """How often statements hold, beside how often they should, with errors.

    Args:
        table: Rows of `table_of_tallies`.
        by: Columns whose values make the rows of the result, beside the statement.

    Returns:
        For each of them the numbers of ``persons`` and ``statements``, the shares
        ``expected`` and ``held``, and the standard ``error`` of their difference.
    """
    rows = []
    for cell, group in table.groupby([*by, "statement"], sort=False):
        expected, held = (
            group[name] / group["number"] for name in ("expected", "held")
        )
        persons = len(group)
        rows.append(
            {
                **dict(zip([*by, "statement"], cell, strict=True)),
                "persons": persons,
                "statements": int(group["number"].sum()),
                "expected": float(expected.mean()),
                "held": float(held.mean()),
                "error": float((held - expected).std() / persons**0.5),
            }
        )
    return pd.DataFrame(rows)
