"""Places of all raters of an experiment."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable

from botorch_pref.ax import Question
from botorch_pref.errors import ExperimentError
from botorch_pref.web.asking.rater_place import RaterPlace

AHEAD = 1
"""Questions asked for a rater beyond the one on display."""

MAX_RATERS = 500
"""People who are asked: a name costs two questions, and anybody can make names up."""


class RaterPlaces:
    """Places of all raters, and the questions that are for whoever comes first.

    One thread at a time may use it.

    Args:
        pending: Questions to begin with.
    """

    def __init__(self, pending: Iterable[Question]) -> None:
        self._places: defaultdict[str | None, RaterPlace] = defaultdict(RaterPlace)
        self._unowned: deque[Question] = deque()
        for question in pending:
            owned = question.rater is not None
            queue = self._places[question.rater].questions if owned else self._unowned
            queue.append(question)

    def __len__(self) -> int:
        """Number of raters."""
        return len(self._places)

    def of(self, rater: str | None) -> RaterPlace:
        """The place of a rater, made if there is room.

        Args:
            rater: Who is asked; None for nobody in particular.

        Raises:
            ExperimentError: There are `MAX_RATERS` others.
        """
        if rater not in self._places and len(self._places) >= MAX_RATERS:
            raise ExperimentError(
                f"{MAX_RATERS} people answer already; serve the page again for others."
            )
        return self._places[rater]

    def give_unowned(self, place: RaterPlace) -> None:
        """Gives a place that has no question one that is for whoever comes first.

        Args:
            place: Of the rater who came.
        """
        if not place.questions and self._unowned:
            place.questions.append(self._unowned.popleft())

    def bring_back(self, place: RaterPlace, question: Question) -> None:
        """Puts a question that was answered or skipped on display again.

        Args:
            place: Of who answered or skipped it.
            question: Without an answer by now.
        """
        self._disown(question.index)
        place.bring_back(question)

    def is_of_another(self, rater: str | None, index: int) -> bool:
        """Whether a question is asked of another rater by name.

        Args:
            rater: Who answers it.
            index: The number of the question.
        """
        asked = [q for place in self._places.values() for q in place.questions]
        # What nobody in particular was asked is for whoever answers first.
        return any(q.index == index and q.rater not in (None, rater) for q in asked)

    def put_away(self, index: int) -> None:
        """Takes a question away from everybody.

        Args:
            index: Its number.
        """
        for place in self._places.values():
            place.remove(index)
            # What could not be asked beside this question may be now.
            place.error = None
        self._disown(index)

    def hand_over(self, rater: str) -> None:
        """Hands a rater what nobody in particular was asked.

        Args:
            rater: Whose name is known by now.

        Raises:
            ExperimentError: There are `MAX_RATERS` others.
        """
        place, nameless = self.of(rater), self._places.pop(None, None)
        if nameless is not None:
            place.take_over(nameless)

    def in_need(self) -> tuple[str | None, RaterPlace] | None:
        """The rater who has waited longest, or else one with too few questions."""
        needy = [one for one in self._places.items() if one[1].lacks(1 + AHEAD)]
        return min(
            needy,
            key=lambda one: (len(one[1].questions), one[1].waiting_since or 0.0),
            default=None,
        )

    def _disown(self, index: int) -> None:
        self._unowned = deque(q for q in self._unowned if q.index != index)
