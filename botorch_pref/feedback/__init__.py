"""Containers of what people say."""

from botorch_pref.feedback.container import (
    Feedback,
    Options,
    check_distinct,
    check_index_tensor,
)
from botorch_pref.feedback.kinds import (
    Choices,
    Comparisons,
    OrdinalRatings,
    Rankings,
    Ratings,
    Strengths,
    Validity,
    rankings_with_ties,
)
from botorch_pref.feedback.lines import LineChoices, line_positions

__all__ = [
    "Choices",
    "Comparisons",
    "Feedback",
    "LineChoices",
    "Options",
    "OrdinalRatings",
    "Rankings",
    "Ratings",
    "Strengths",
    "Validity",
    "check_distinct",
    "check_index_tensor",
    "line_positions",
    "rankings_with_ties",
]
