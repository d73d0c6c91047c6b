"""Error of an answer, or of its undoing, that another answer precludes."""

from botorch_pref.errors import ExperimentError


class AnswerConflictError(ExperimentError):
    """Answer to a question that has another one, or that is somebody else's.

    Also the undoing of an answer that is not the last one any more.
    """
