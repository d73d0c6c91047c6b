"""Desk where raters are asked, answer, skip and undo."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Condition
from typing import Any

from botorch_pref.ax import PreferenceExperiment, Question
from botorch_pref.ax.space.catalogue import Catalogue
from botorch_pref.errors import ExperimentError, StorageError
from botorch_pref.web.rendering import (
    AnswerConflictError,
    AnsweredQuestion,
    answered_questions,
    check_asked,
    check_designs,
    is_answered,
    last_answered,
    undo_once,
    withdraw_unanswered,
)
from botorch_pref.web.worker import QuestionSource


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


_ANSWERED = "This question has an answer already, which is kept."


class QuestionDesk:
    """Desk of an experiment: one question at a time for each rater.

    Questions are asked ahead in a thread, so that the next one is there at once. What
    is told is stored before the call returns; telling it again changes nothing.
    Threads may use it at once.

    Args:
        experiment: Whose questions they are. Those that are pending come first.
        source: Of further ones.
        prepare: Called with each of them before it is on the desk.
    """

    def __init__(
        self,
        experiment: PreferenceExperiment,
        source: QuestionSource,
        prepare: Callable[[Question], object],
    ) -> None:
        self.experiment = experiment
        self._source = source
        self._prepare = prepare
        self._places = RaterPlaces(experiment.pending)
        self._changed = Condition()
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="ask")
        self._at_work = self._closing = False
        self._put_away_so_far = 0

    def question(self, rater: str | None, patience: float) -> Question | None:
        """The question that a rater is asked now; the same until it is answered.

        Args:
            rater: Who is asked; None for nobody in particular.
            patience: How many seconds to wait for it.

        Returns:
            The question; None if it is still being chosen.

        Raises:
            BotorchPrefError: None can be asked. The next call tries again.
            ExperimentError: There are too many others.
        """
        with self._changed:
            place = self._places.of(rater)
            self._places.give_unowned(place)
            if not place.questions and place.waiting_since is None:
                place.waiting_since = time.monotonic()
            self._ask_ahead()
            self._changed.wait_for(
                lambda: place.questions or place.error is not None, patience
            )
            if place.questions:
                return place.questions[0]
            if place.error is not None:
                error, place.error = place.error, None
                raise error
            return None

    def waited(self, rater: str | None) -> float:
        """Seconds for which a rater has waited for a question.

        Args:
            rater: Who waits.
        """
        with self._changed:
            since = self._places.of(rater).waiting_since
            return 0.0 if since is None else time.monotonic() - since

    def answer(self, rater: str | None, index: int, said: Mapping[str, Any]) -> None:
        """Stores an answer, once however often it arrives.

        Args:
            rater: Who answers.
            index: The number of the question.
            said: Keywords of ``tell``.

        Raises:
            AnswerConflictError: The question has another answer, or is another rater's.
            ExperimentError: This cannot be an answer to it.
            StorageError: It could not be stored.
        """
        place = self._place_of(rater, index)
        try:
            self._told(rater, index, said)
        except ExperimentError as error:
            if not is_answered(self.experiment.experiment, index):
                raise
            self._put_away(index)
            raise AnswerConflictError(_ANSWERED) from error
        with self._changed:
            place.present.skipped.clear()
        self._put_away(index)

    def claim(self, rater: str) -> None:
        """Hands a rater the questions that were asked before the name was known.

        Whoever has one of them on display without a name may still answer it: the first
        answer counts.

        Args:
            rater: Whose page was without a name until now.

        Raises:
            ExperimentError: There are too many others.
        """
        with self._changed:
            self._places.hand_over(rater)
            self._ask_ahead()

    def _place_of(self, rater: str | None, index: int) -> RaterPlace:
        """The place of a rater who answers or skips a question that is no other's."""
        check_asked(self.experiment.experiment, index)
        with self._changed:
            place = self._places.of(rater)
            if self._places.is_of_another(rater, index):
                raise AnswerConflictError("This question was asked of somebody else.")
            return place

    def _put_away(self, index: int) -> None:
        """Takes a question off the desk, and sees to it that others are asked."""
        with self._changed:
            self._places.put_away(index)
            self._put_away_so_far += 1
            self._ask_ahead()

    def _told(self, rater: str | None, index: int, said: Mapping[str, Any]) -> None:
        try:
            self.experiment.tell(index, rater=rater, **said)
        except StorageError:
            # Another process has written, which the experiment has read by now.
            self.experiment.tell(index, rater=rater, **said)

    def skip(self, rater: str | None, index: int) -> None:
        """Withdraws a question that a rater does not want to answer.

        Args:
            rater: Who skips.
            index: The number of the question. Skipping it again changes nothing.

        Raises:
            AnswerConflictError: The question has an answer, or is another rater's.
            ExperimentError: There is no such question.
        """
        place = self._place_of(rater, index)
        with self._changed:
            # A page that was open before a restart comes with its question first.
            self._places.give_unowned(place)
        skipped = withdraw_unanswered(self.experiment, index)
        with self._changed:
            # Two taps at once skip it once.
            for question in place.present.questions:
                if skipped and question.index == index:
                    place.present.skipped.append(question)
        self._put_away(index)
        if not skipped:
            raise AnswerConflictError(_ANSWERED)

    def last(self, rater: str | None) -> int | None:
        """The number of the question that a rater answered or skipped last.

        Args:
            rater: Who undoes it.

        Returns:
            The number; None if there is none, or if `rater` is None and the last answer
            of all is that of somebody with a name.
        """
        with self._changed:
            skipped = self._places.of(rater).skipped
            if skipped:
                return skipped[-1].index
        return last_answered(self.experiment.experiment, rater)

    def undo(self, rater: str | None, index: int | None = None) -> Question:
        """Takes back what a rater did last, once however often the call arrives.

        Args:
            rater: Who undoes.
            index: The number of the question that was answered or skipped; the `last`
                one by default, which is another one when this is asked for again.

        Returns:
            The question, which is on display again.

        Raises:
            AnswerConflictError: The rater has answered another question since.
            ExperimentError: The rater has answered and skipped nothing.
        """
        with self._changed:
            place = self._places.of(rater)
        index = self.last(rater) if index is None else index
        if index is None:
            raise ExperimentError(
                "There is no answer of yours to undo; one that was given under a name "
                "is undone under that name."
            )
        question = undo_once(self.experiment, rater, index)
        with self._changed:
            self._places.bring_back(place.present, question)
            self._changed.notify_all()
        return question

    def ask_own(
        self, rater: str | None, options: Sequence[Mapping[str, Any]]
    ) -> Question:
        """A question about designs of a rater's own, which is on display at once.

        Args:
            rater: Whose designs they are.
            options: Parameters of each, by name.

        Raises:
            ExperimentError: The search space has no such designs, or two of them look
                the same.
        """
        with self._changed:
            place = self._places.of(rater)
        experiment = self.experiment.experiment
        check_designs(experiment.search_space, options)
        try:
            question = self.experiment.ask(options=options, rater=rater)
        except ExperimentError as error:
            if Catalogue.of(experiment) is None:
                raise
            raise ExperimentError(
                "One of these designs is not in the catalogue. Choose values that are "
                "together in one of its rows."
            ) from error
        with self._changed:
            place.present.questions.appendleft(question)
            self._changed.notify_all()
        return question

    def answers(self) -> list[AnsweredQuestion]:
        """All answers that stand, the latest first."""
        return answered_questions(self.experiment.experiment)

    def close(self) -> None:
        """Asks no more; what is chosen by another process is given up."""
        with self._changed:
            self._closing = True
        self._source.close()
        self._worker.shutdown(cancel_futures=True)

    def _ask_ahead(self) -> None:
        """Sets the worker to work, if there is any; the lock is held."""
        self._changed.notify_all()
        idle = not self._at_work and not self._closing
        if idle and self._places.in_need() is not None:
            self._at_work = True
            self._worker.submit(self._ask)

    def _ask(self) -> None:
        """Asks until every rater has enough, in the worker's thread."""
        while True:
            with self._changed:
                found = self._places.in_need()
                if found is None or self._closing:
                    self._at_work = False
                    return
                before = self._put_away_so_far
            rater, place = found
            try:
                question = self._source.ask(rater, len(self._places))
                self._prepare(question)
            # Whoever waits is told; nobody waits for this thread.
            except Exception as error:
                with self._changed:
                    if before == self._put_away_so_far:
                        place.present.error = error
                    self._changed.notify_all()
                continue
            with self._changed:
                place.present.questions.append(question)
                place.present.waiting_since = None
                self._changed.notify_all()
