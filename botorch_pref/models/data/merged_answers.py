"""Answers that are the same, once each with their counts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from botorch_pref.feedback import Feedback
from botorch_pref.linalg.row_groups import distinct_rows

# Rows of answers that cannot be counted: five hundred megabytes where they see a
# thousand draws each.
_MOST_ROWS = 50_000


@dataclass(frozen=True, eq=False)
class MergedAnswers:
    """Answers of one kind, and how often each was given.

    Attributes:
        given: The block as it was given.
        block: The distinct answers, without counts.
        counts: ``batch_shape x M`` long; None where each was given once.
    """

    given: Feedback
    block: Feedback
    counts: Tensor | None

    @cached_property
    def repeated(self) -> Feedback:
        """The answers one by one, for factors that take no counts.

        Raises:
            FeedbackError: There are too many.
        """
        return self.given.repeated(_MOST_ROWS) if self.given.is_counted else self.given


def merged_answers(block: Feedback, places: Tensor | None) -> MergedAnswers:
    """The distinct answers of a block, those that are equal in all of a batch.

    Args:
        block: Answers of one kind.
        places: For each datapoint the distinct point that it is; None where all are.
    """
    firsts, counts = [], []
    for name, fields in block.tables.items():
        first, group = distinct_rows(_table(block, fields, places))
        given = None if name is None else getattr(block, name)
        often = torch.ones_like(group) if given is None else given
        total = often.new_zeros(*often.shape[:-1], len(first))
        counts.append(total.index_add(-1, group, often))
        firsts.append(first)
    if not block.is_counted and all(bool((c == 1).all()) for c in counts):
        return MergedAnswers(block, block, None)
    batch = torch.broadcast_shapes(*(c.shape[:-1] for c in counts))
    joined = torch.cat([c.expand(*batch, c.shape[-1]) for c in counts], dim=-1)
    without = replace(block, **dict.fromkeys(map(str, block.counted)))  # type: ignore[type-var]
    return MergedAnswers(block, without.take(*firsts), joined)


def _table(block: Feedback, fields: tuple[str, ...], places: Tensor | None) -> Tensor:
    """The fields of answers as one table, ``m x k``, of distinct points."""
    columns = []
    for name in fields:
        value: Tensor = getattr(block, name)
        if places is not None and name in block.index_fields:
            value = torch.where(value < 0, value, places[value])
        along = -2 if name in block.wide_fields else -1
        rows = value.movedim(along, 0)
        columns.append(rows.reshape(len(rows), -1).double())
    return torch.cat(columns, dim=-1)
