"""Answers on a scale of ordered levels, as stars are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from botorch_pref.errors import FeedbackError
from botorch_pref.feedback.feedback import (
    Feedback,
    check_index_tensor,
    check_integers,
    check_same_shape,
)


@dataclass(frozen=True, eq=False)
class OrdinalRatings(Feedback):
    """Ratings of points on a scale of ordered levels.

    Attributes:
        indices: ``batch_shape x m`` integers.
        levels: ``batch_shape x m`` integers from 0 to ``num_levels - 1``; higher is
            better.
        num_levels: The number of levels of the scale, at least 2, those that nobody
            used included.

    Raises:
        FeedbackError: Wrong type or shape, no rows, or a level that the scale lacks.
    """

    relative: ClassVar[bool] = False

    indices: Tensor
    levels: Tensor
    num_levels: int

    def __post_init__(self) -> None:
        """Validates the fields."""
        super().__post_init__()
        indices = check_index_tensor("OrdinalRatings.indices", self.indices, width=None)
        levels = check_integers("OrdinalRatings.levels", self.levels, "m", "levels")
        check_same_shape(
            "OrdinalRatings.levels", levels, indices.shape, "OrdinalRatings.indices"
        )
        _check_num_levels(self.num_levels)
        bad = (levels < 0) | (levels >= self.num_levels)
        if bool(bad.any()):
            where = bad.nonzero()[0].tolist()
            raise FeedbackError(
                f"OrdinalRatings.levels{where} is {int(levels[tuple(where)])}, but "
                f"there are {self.num_levels} levels: count them from 0 to "
                f"{self.num_levels - 1}."
            )
        object.__setattr__(self, "indices", indices)
        object.__setattr__(self, "levels", levels)

    @property
    def index_fields(self) -> tuple[str, ...]:
        """See base class."""
        return ("indices",)


def _check_num_levels(num_levels: object) -> None:
    if not isinstance(num_levels, int) or isinstance(num_levels, bool):
        raise FeedbackError(
            "OrdinalRatings.num_levels must be an integer, got "
            f"{type(num_levels).__name__}; give the number of levels of the scale."
        )
    if num_levels < 2:
        raise FeedbackError(
            f"OrdinalRatings.num_levels is {num_levels}; a scale of fewer than two "
            "levels says nothing: give the number of levels of the scale."
        )
