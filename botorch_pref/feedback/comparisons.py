"""Answers to duels: winners and ties."""

from __future__ import annotations

from dataclasses import dataclass
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

    Repeated answers and answers that contradict each other are legal.

    Attributes:
        pairs: ``batch_shape x m x 2`` integers, winner first; None if all duels were
            ties.
        ties: ``batch_shape x t x 2`` integers, in any order; None for no ties. The
            likelihood then needs a tie threshold.

    Raises:
        FeedbackError: Wrong type or shape, no rows at all, or a point compared with
            itself.
    """

    relative: ClassVar[bool] = True
    wide_fields: ClassVar[tuple[str, ...]] = ("pairs", "ties")

    pairs: Tensor | None
    ties: Tensor | None = None

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
