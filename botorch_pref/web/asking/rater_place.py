"""Questions that one rater has before them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from botorch_pref.ax import Question


@dataclass
class RaterPlace:
    """Place of one rater.

    Attributes:
        questions: The one that is on display, and those that follow.
        skipped: Questions that were skipped since the last answer, the latest last.
        waiting_since: When the rater began to wait for a question, by a clock that
            never goes back; None while there is one.
        error: Why the last one could not be asked; None if it could.
        heir: The place that took this one over; None while it stands.
    """

    questions: deque[Question] = field(default_factory=deque)
    skipped: list[Question] = field(default_factory=list)
    waiting_since: float | None = None
    error: Exception | None = None
    heir: RaterPlace | None = None

    @property
    def present(self) -> RaterPlace:
        """The place that stands for this one now."""
        return self if self.heir is None else self.heir.present

    @property
    def indices(self) -> list[int]:
        """The numbers of the questions."""
        return [question.index for question in self.questions]

    def lacks(self, number: int) -> bool:
        """Whether a question more is to be asked for it.

        Args:
            number: How many there should be.
        """
        asked = self.questions or self.waiting_since is not None
        return self.error is None and len(self.questions) < number and bool(asked)

    def remove(self, index: int) -> None:
        """Removes a question if it is there.

        Args:
            index: Its number.
        """
        self.questions = deque(q for q in self.questions if q.index != index)

    def bring_back(self, question: Question) -> None:
        """Puts a question that was answered or skipped on display again.

        Args:
            question: Without an answer by now.
        """
        self.remove(question.index)
        self.questions.appendleft(question)
        self.skipped = [one for one in self.skipped if one.index != question.index]

    def take_over(self, other: RaterPlace) -> None:
        """Takes all that another place has, and what will come to it.

        Args:
            other: What is on display there is on display here.
        """
        self.questions.extendleft(reversed(other.questions))
        self.skipped.extend(other.skipped)
        other.heir = self
