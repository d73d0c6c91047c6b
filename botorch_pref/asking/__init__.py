"""The model that the library recommends for what people said, and what it asks next."""

from botorch_pref.asking.default_models import default_model
from botorch_pref.asking.next_questions import LineQuestion, Question, next_question

__all__ = ["LineQuestion", "Question", "default_model", "next_question"]
