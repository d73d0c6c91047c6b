"""Answers to "which of the two, and by how much?"."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from botorch_pref.feedback.feedback import (
    Feedback,
    check_distinct,
    check_index_tensor,
    check_same_shape,
)
from botorch_pref.feedback.unit_interval import check_unit_interval


@dataclass(frozen=True, eq=False)
class Strengths(Feedback):
    """Strengths of preference for the first of two items over the second.

    Attributes:
        pairs: ``batch_shape x m x 2`` integers.
        strengths: ``batch_shape x m``, strictly between 0 and 1: above 0.5 the first is
            preferred (the v of Jensen and Nielsen 2014), below 0.5 the second.

    Raises:
        FeedbackError: Wrong type or shape, no rows, a point compared with itself, or a
            strength that is not strictly between 0 and 1.
    """

    relative: ClassVar[bool] = True
    wide_fields: ClassVar[tuple[str, ...]] = ("pairs",)

    pairs: Tensor
    strengths: Tensor

    def __post_init__(self) -> None:
        """Validates the fields."""
        super().__post_init__()
        pairs = check_index_tensor("Strengths.pairs", self.pairs, width=2)
        check_distinct("Strengths.pairs", pairs)
        strengths = check_unit_interval("Strengths.strengths", self.strengths)
        check_same_shape(
            "Strengths.strengths",
            strengths,
            pairs.shape[:-1],
            "Strengths.pairs without its last dimension",
        )
        object.__setattr__(self, "pairs", pairs)

    @property
    def index_fields(self) -> tuple[str, ...]:
        """See base class."""
        return ("pairs",)
