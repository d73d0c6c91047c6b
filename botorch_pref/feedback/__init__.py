"""Frozen, validated containers of what people say."""

from botorch_pref.feedback.answers import (
    Choices,
    Comparisons,
    OrdinalRatings,
    Rankings,
    Ratings,
    Strengths,
    Validity,
)
from botorch_pref.feedback.base import (
    Feedback,
    check_distinct,
    check_index_tensor,
    check_same_shape,
)

__all__ = [
    "Choices",
    "Comparisons",
    "Feedback",
    "OrdinalRatings",
    "Rankings",
    "Ratings",
    "Strengths",
    "Validity",
    "check_distinct",
    "check_index_tensor",
    "check_same_shape",
]
