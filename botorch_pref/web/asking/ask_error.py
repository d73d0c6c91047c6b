"""Error with a remedy for the page to offer."""

from typing import Any

from botorch_pref.errors import ExperimentError


class AskError(ExperimentError):
    """Error with a remedy for the page to offer.

    Args:
        why: What is wrong.
        details: For the page: ``question``, the number of the one that can be skipped,
            or ``needs``, what it lacks.
    """

    def __init__(self, why: str, **details: Any) -> None:
        super().__init__(why)
        self.details = details
