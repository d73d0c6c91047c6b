"""Error of an answer that another one precludes."""

from botorch_pref.errors import ExperimentError


class AnswerConflictError(ExperimentError):
    """Answer to a question that has another one, or that is somebody else's."""
