"""Answers on a continuous, bounded scale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from botorch_pref.feedback.feedback import (
    Feedback,
    check_index_tensor,
    check_same_shape,
)
from botorch_pref.feedback.unit_interval import check_unit_interval


@dataclass(frozen=True, eq=False)
class Ratings(Feedback):
    """Ratings of points on a continuous scale from 0 to 1.

    Attributes:
        indices: ``batch_shape x m`` integers.
        ratings: ``batch_shape x m``, strictly between 0 and 1; higher is better.

    Raises:
        FeedbackError: Wrong type or shape, no rows, or a rating that is not strictly
            between 0 and 1.
    """

    relative: ClassVar[bool] = False

    indices: Tensor
    ratings: Tensor

    def __post_init__(self) -> None:
        """Validates the fields."""
        super().__post_init__()
        indices = check_index_tensor("Ratings.indices", self.indices, width=None)
        ratings = check_unit_interval("Ratings.ratings", self.ratings)
        check_same_shape("Ratings.ratings", ratings, indices.shape, "Ratings.indices")
        object.__setattr__(self, "indices", indices)

    @property
    def index_fields(self) -> tuple[str, ...]:
        """See base class."""
        return ("indices",)
