"""Frozen, validated containers of what people say."""

from botorch_pref.feedback.choices import Choices
from botorch_pref.feedback.comparisons import Comparisons
from botorch_pref.feedback.feedback import (
    Feedback,
    check_distinct,
    check_index_tensor,
    check_same_shape,
)
from botorch_pref.feedback.ordinal_ratings import OrdinalRatings
from botorch_pref.feedback.rankings import Rankings
from botorch_pref.feedback.ratings import Ratings
from botorch_pref.feedback.strengths import Strengths
from botorch_pref.feedback.validity import Validity

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
