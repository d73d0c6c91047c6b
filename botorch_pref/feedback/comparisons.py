"""Answers to duels: winners and ties."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

import torch
from torch import Tensor

from botorch_pref.errors import FeedbackError
from botorch_pref.feedback.feedback import (
    Feedback,
    check_distinct,
    check_index_tensor,
)


@dataclass(frozen=True, eq=False)
class Comparisons(Feedback):
    """Duels with a winner, and duels that ended in a tie.

    Repeated answers and answers that contradict each other are legal. The same answer
    given many times may be one row with a count: the pair ``[0, 1]`` with a count of
    1,000 says what a thousand rows ``[0, 1]`` say.

    Attributes:
        pairs: ``batch_shape x m x 2`` integers, winner first; None if all duels were
            ties.
        ties: ``batch_shape x t x 2`` integers, in any order; None for no ties. The
            likelihood then needs a tie threshold.
        pair_counts: ``batch_shape x m`` integers, how often each pair was answered so;
            None for once.
        tie_counts: ``batch_shape x t`` integers, how often each tie was; None for once.

    Raises:
        FeedbackError: Wrong type or shape, no rows at all, a point compared with
            itself, or a count that is not positive.
    """

    relative: ClassVar[bool] = True
    wide_fields: ClassVar[tuple[str, ...]] = ("pairs", "ties")
    counted: ClassVar[Mapping[str | None, tuple[str, ...]]] = {
        "pair_counts": ("pairs",),
        "tie_counts": ("ties",),
    }

    pairs: Tensor | None
    ties: Tensor | None = None
    _: KW_ONLY
    pair_counts: Tensor | None = None
    tie_counts: Tensor | None = None

    def __post_init__(self) -> None:
        """Validates the fields."""
        super().__post_init__()
        if self.pairs is None and self.ties is None:
            raise FeedbackError(
                "Comparisons has neither pairs nor ties; leave it out of the feedback."
            )
        for name in self.index_fields:
            label = f"Comparisons.{name}"
            value = check_index_tensor(label, getattr(self, name), width=2)
            check_distinct(label, value)
            object.__setattr__(self, name, value)
        self._check_counts()
        try:
            torch.broadcast_shapes(*self._batch_shapes)
        except RuntimeError as error:
            shapes = " and ".join(str(tuple(shape)) for shape in self._batch_shapes)
            raise FeedbackError(
                f"Comparisons.pairs and Comparisons.ties have batch shapes {shapes}, "
                "which do not broadcast; give both the same, or none."
            ) from error

    @property
    def index_fields(self) -> tuple[str, ...]:
        """See base class."""
        return tuple(n for n in ("pairs", "ties") if getattr(self, n) is not None)
