"""Frozen, validated containers of what people say."""

from botorch_pref.feedback.comparisons import Comparisons
from botorch_pref.feedback.feedback import Feedback
from botorch_pref.feedback.validity import Validity

__all__ = ["Comparisons", "Feedback", "Validity"]
