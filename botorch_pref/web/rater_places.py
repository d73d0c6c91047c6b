"""Places of raters, whom questions are asked, and questions of nobody yet."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from botorch_pref.ax import Question
from botorch_pref.ax.space.context import Context
from botorch_pref.errors import ExperimentError

NUM_AHEAD = 1
"""Questions asked for a rater beyond the one on display."""

BATCH = 20
"""Raters whose next questions are chosen at once, from one fit and one search."""

MAX_RATERS = 500
"""People who are asked: a name costs two questions, and anybody can make names up."""


@dataclass
class RaterPlace:
    """Place of one rater."""

    # The one that is on display, and those that follow.
    questions: deque[Question] = field(default_factory=deque)
    # The number of the question that was handed out last.
    displayed: int | None = None
    # Since the last answer, the latest last.
    skipped: list[Question] = field(default_factory=list)
    # By a clock that never goes back; None while there is a question.
    waiting_since: float | None = None
    # Why the last question could not be asked.
    error: Exception | None = None
    # What was measured and not chosen, and holds for all that is asked here.
    context: Context = field(default_factory=dict)
    # The place that took this one over.
    heir: RaterPlace | None = None

    @property
    def present(self) -> RaterPlace:
        """The place that stands for this one now."""
        return self if self.heir is None else self.heir.present

    @property
    def in_need(self) -> bool:
        """Whether somebody is asked here, with at most `NUM_AHEAD` questions.

        After an error nobody is, until it was told, a question removed anywhere, or the
        context changed.
        """
        in_use = bool(self.questions) or self.waiting_since is not None
        return in_use and self.error is None and len(self.questions) <= NUM_AHEAD

    def remove(self, index: int) -> None:
        """Removes a question, if it is here."""
        self.questions = _without(self.questions, index)


def _without(questions: deque[Question], index: int) -> deque[Question]:
    return deque(question for question in questions if question.index != index)


class RaterPlaces:
    """The places of all raters. Whoever calls it holds the lock of the queue.

    Args:
        pending: Questions that were asked before. Pages that are open since then have
            the first ones of each rater on display.
    """

    def __init__(self, pending: Sequence[Question]) -> None:
        """Puts each question into its rater's place, or aside for whoever comes."""
        self._places: defaultdict[str | None, RaterPlace] = defaultdict(RaterPlace)
        # Questions of nobody in particular: the first who comes gets them.
        self.unowned: deque[Question] = deque()
        for question in pending:
            owned = question.rater is not None
            queue = self._places[question.rater].questions if owned else self.unowned
            queue.append(question)
        for place in self._places.values():
            place.displayed = place.questions[0].index
            place.context = place.questions[0].context

    def __len__(self) -> int:
        """Counts the raters."""
        return len(self._places)

    def of(self, rater: str | None) -> RaterPlace:
        """Returns the place of a rater, made if there is room."""
        if rater not in self._places and len(self._places) >= MAX_RATERS:
            raise ExperimentError(f"{MAX_RATERS} people answer already; serve it anew.")
        return self._places[rater]

    def context_of(self, rater: str | None) -> Context:
        """Returns the context of a rater, who may have no place."""
        return self._places.get(rater, RaterPlace()).context

    def is_of_another(self, rater: str | None, index: int) -> bool:
        """Tells whether a question was asked of somebody else.

        One of nobody in particular is for the first who answers it.
        """
        pending = [q for place in self._places.values() for q in place.questions]
        return any(q.index == index and q.rater not in (None, rater) for q in pending)

    def claim(self, rater: str) -> None:
        """Hands a rater what was asked before the name was known.

        This empties the place of nobody in particular.
        """
        place, nameless = self.of(rater), self._places.pop(None, None)
        if nameless is not None:
            place.context = nameless.context
            # First, and in their order: one of them is on display.
            place.questions.extendleft(reversed(nameless.questions))
            place.skipped.extend(nameless.skipped)
            place.displayed = nameless.displayed
            # Calls that hold the place meanwhile go on with this one: see `present`.
            nameless.heir = place

    def display(self, place: RaterPlace, question: Question) -> None:
        """Puts a question without an answer before all others of a place.

        Its answer or its skip was undone, or it is about a person's own designs. It no
        longer counts as skipped.
        """
        place, index = place.present, question.index
        self.unowned = _without(self.unowned, index)
        place.remove(index)
        place.questions.appendleft(question)
        place.skipped = [skipped for skipped in place.skipped if skipped.index != index]

    def remove(self, index: int) -> None:
        """Removes a question from all places."""
        for place in self._places.values():
            place.remove(index)
            # A question that could not be asked beside this one may be now.
            place.error = None
        self.unowned = _without(self.unowned, index)

    def give(self, place: RaterPlace, question: Question) -> bool:
        """Gives a place a question that was asked for it, where its context holds.

        Returns:
            Whether it was taken: a place whose context has changed meanwhile refuses.
        """
        place = place.present
        if place.context != question.context:
            return False
        place.questions.append(question)
        place.waiting_since = None
        return True

    def give_unowned(self, place: RaterPlace) -> None:
        """Gives a place that has no question one that is for whoever comes first."""
        in_context = (q for q in self.unowned if q.context == place.context)
        if not place.questions and (question := next(in_context, None)) is not None:
            self.unowned = _without(self.unowned, question.index)
            place.questions.append(question)

    def needy(self) -> list[tuple[str | None, RaterPlace]]:
        """Lists raters for whom questions are to be asked now, up to `BATCH`.

        Those with the fewest questions come first, and of these who waits longest. All
        are in the context of the first one, since one choice of questions has one.
        Where a question is for whoever comes first, no other is asked in its context.
        """
        unowned = [question.context for question in self.unowned]

        def turn(entry: tuple[str | None, RaterPlace]) -> tuple[int, float]:
            return len(entry[1].questions), entry[1].waiting_since or 0.0

        in_need = (p for p in self._places.items() if p[1].in_need)
        needy = sorted((p for p in in_need if p[1].context not in unowned), key=turn)
        alike = [p for p in needy if p[1].context == needy[0][1].context]
        return alike[:BATCH]
